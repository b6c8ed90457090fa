"""How a request is carried out: everything a person may choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from unlabel.config.checks import one_of
from unlabel.errors import ForgetError, SettingsError
from unlabel.signing import is_hex
from unlabel.terms import DEPTHS, VISIBILITIES, Depth, Visibility

PublicFrom = Literal["labelled", "pseudo", "anchors"]
Robust = Literal["none", "drop", "weight"]
#: Public samples a forgotten and a retained label, where neither settings nor a preset say.
FEW_SHOT, RETAINED = 40, 3
#: Seconds of which messages of a slot leave at multiples; the longest work on digits takes 0.12.
PACE = 1.0


@dataclass(frozen=True)
class ForgetSettings:
    """How a request is carried out.

    method            by name or as an object; by default what visibility and depth ask for
    options           settings of the method itself, by name
    preset            named settings of the method
    visibility        hidden or open: whether the partners may be able to tell what is forgotten
    depth             top or bottoms: which models are to forget
    public            files of public samples; by default the rows set aside before training
    public_from       labelled, pseudo (the model names them) or anchors (made of training rows)
    any_public        take a public set too whose labels the model does not share
    few_shot          public samples a forgotten label; 40, or the preset's
    retained          public samples a retained label; 3, or the preset's
    robust            what to do with samples whose label the model doubts: none, drop or weight
    secret            passive parties' ledgers get a commitment in place of the label
    deepen            forget labels once more that were forgotten already, for example in depth
    measure_drift     first run the same at rate 0, where side effects alone may forget
    allow_collapse    carry on where the method destroys the rest, to see how badly
    allow_disclosure  let the partners see what an earlier hidden request was about
    allow_unfinished  forget in a model whose training was interrupted
    key               256 bits in hexadecimal that decide every draw; random by default
    """

    method: object = None
    options: Mapping[str, Any] = field(default_factory=dict)
    preset: str | None = None
    visibility: Visibility | None = None
    depth: Depth | None = None
    public: str | Path | None = None
    public_from: PublicFrom = "labelled"
    any_public: bool = False
    few_shot: int | None = None
    retained: int | None = None
    robust: Robust = "none"
    secret: bool = False
    deepen: bool = False
    measure_drift: bool = True
    allow_collapse: bool = False
    allow_disclosure: bool = False
    allow_unfinished: bool = False
    key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.visibility is not None:
            one_of("visibility", self.visibility, VISIBILITIES)
        if self.depth is not None:
            one_of("depth", self.depth, DEPTHS)
        one_of("robust option", self.robust, get_args(Robust))
        one_of("source of public labels", self.public_from, get_args(PublicFrom))
        few_shot, retained = self.few_shot, self.retained
        if (few_shot is not None and few_shot < 2) or (retained is not None and retained < 1):
            raise SettingsError(
                f"Expected at least 2 few-shot and 1 retained samples but got "
                f"{FEW_SHOT if few_shot is None else few_shot} and "
                f"{RETAINED if retained is None else retained}."
            )
        if self.key is not None and not is_hex(self.key, 64):
            raise SettingsError("Expected `key` to be 64 small hexadecimal digits (256 bits).")
        if self.public_from == "anchors" and self.public is not None:
            raise ForgetError("Anchors are made from the training rows; leave --public out.")
