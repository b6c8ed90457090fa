"""How a request is carried out: everything a person may choose, in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args

from unlabel.errors import ForgetError, SettingsError, unknown
from unlabel.forget.anchors import PublicFrom
from unlabel.forget.method import METHODS, Method, Mode, Preset, settings_of
from unlabel.forget.public import Robust
from unlabel.signing import is_hex
from unlabel.words import parse_settings

DEFAULT_METHOD, PEOPLE_METHOD = "hidden", "people"
#: The method of each mode where no method is named.
MODE_METHODS: Mapping[Mode, str] = {"open": "renormalise", "deep": "deep", "hidden": "hidden"}
#: Public samples a forgotten and a retained label, where neither settings nor a preset say.
FEW_SHOT, RETAINED = 40, 3
NO_FILES = (
    "Files of public samples would have to lie with every party; leave `public` out: in a "
    "federation the rows set aside before training are taken."
)


@dataclass(frozen=True)
class ForgetSettings:
    """How a request is carried out.

    method            by name or as an object with settings of its own; by default that of the mode,
                      and without one `hidden` (for people: `people`)
    options           settings of the method itself, by name
    preset            named settings of the method
    mode              open, deep or hidden: what the partners may be able to tell
    public            files of public samples; by default the rows set aside before training
    public_from       labelled: public samples have labels; pseudo: the model names them; anchors:
                      they are made from the means and spreads of the labels' training rows
    any_public        take a public set too whose labels the model does not share
    few_shot          public samples a forgotten label; 40, or the preset's
    retained          public samples a retained label; 3, or the preset's
    robust            what to do with samples whose label the model doubts: none, drop or weight
    cover             rows of each cover in which people are asked for; 0 is what suits the data
    secret            passive parties' ledgers get a commitment in place of the label
    deepen            forget labels once more that were forgotten already, for example in depth
    measure_drift     first run the same at rate 0, where side effects alone may forget
    allow_collapse    carry on where the method destroys the rest, to see how badly
    allow_disclosure  let the partners see what an earlier hidden request was about
    allow_unfinished  forget in a model whose training was interrupted
    key               256 bits in hexadecimal that decide every draw of the request; random by
                      default
    """

    method: str | Method | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    preset: str | None = None
    mode: Mode | None = None
    public: str | Path | None = None
    public_from: PublicFrom = "labelled"
    any_public: bool = False
    few_shot: int | None = None
    retained: int | None = None
    robust: Robust = "none"
    cover: int = 0
    secret: bool = False
    deepen: bool = False
    measure_drift: bool = True
    allow_collapse: bool = False
    allow_disclosure: bool = False
    allow_unfinished: bool = False
    key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for what, value, known in (
            ("mode", self.mode, (None, *get_args(Mode))),
            ("robust option", self.robust, get_args(Robust)),
            ("source of public labels", self.public_from, get_args(PublicFrom)),
        ):
            if value not in known:
                raise SettingsError(unknown(what, value, [name for name in known if name]))
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

    def choose(self, *, people: bool) -> tuple[str, Preset]:
        """Return the method's name, the method, and how many samples go with it.

        people  whether the request is about people's labels

        A method of another mode than the one that is asked for is refused.
        """
        method = self.method
        if method is None:
            by_mode = MODE_METHODS[self.mode] if self.mode else DEFAULT_METHOD
            method = PEOPLE_METHOD if people else by_mode
        if isinstance(method, str):
            name, made = method, METHODS.get(method)()
        else:
            known = {METHODS.get(name): name for name in METHODS.names()}
            name, made = known.get(type(method), type(method).__name__), method
        preset = Preset(made, FEW_SHOT, RETAINED)
        if self.preset is not None:
            presets = made.presets()
            if not presets:
                raise SettingsError(f"Method '{name}' has no presets; leave --preset out.")
            if self.preset not in presets:
                raise SettingsError(unknown(f"preset of '{name}'", self.preset, presets))
            preset = presets[self.preset]
        method = _with_options(preset.method, name, self.options)
        if self.mode is not None:
            expect_mode(method, name, self.mode)
        return name, replace(
            preset,
            method=method,
            few_shot=preset.few_shot if self.few_shot is None else self.few_shot,
            retained=preset.retained if self.retained is None else self.retained,
        )

    def with_options(self, words: Sequence[str], *, people: bool) -> ForgetSettings:
        """Return the same settings with some of the method itself, each as NAME=VALUE."""
        name, chosen = self.choose(people=people)
        made = parse_settings(METHODS.get(name), words, chosen.method)
        return replace(
            self,
            method=made,
            options={},
            preset=None,
            few_shot=chosen.few_shot,
            retained=chosen.retained,
        )

    def expect_remote(self) -> None:
        """Raise where these settings need the data of other parties in one place."""
        if self.public is not None:
            raise SettingsError(NO_FILES)


def _with_options(method: Method, name: str, options: Mapping[str, Any]) -> Method:
    """Return a method with some of its own settings changed."""
    known = settings_of(method)
    for option in options:
        if option not in known:
            raise SettingsError(unknown(f"setting of '{name}'", option, known))
    changed: Method = replace(method, **options) if options else method  # type: ignore[type-var]
    return changed


def expect_mode(method: Method, name: str, mode: Mode) -> None:
    """Raise where a method is to the partners something else than was asked for."""
    if method.mode() == mode:
        return
    if mode == "hidden":
        instead = "leave" if method.people else "choose `hidden`, or leave"
        raise ForgetError(
            f"Method '{name}' cannot be hidden: it tells the partners {method.discloses}; "
            f"{instead} --mode hidden out."
        )
    raise ForgetError(
        f"Expected a method of mode '{mode}' but '{name}' is of mode '{method.mode()}'; leave "
        f"--mode or --method out."
    )


#: What a setting was called as an argument of `Federation.forget` up to version 0.6.
OLD_NAMES = {
    "again": "deepen",
    "wreck": "allow_collapse",
    "drift": "measure_drift",
    "reveal": "allow_disclosure",
}


def renamed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by their present names; an unknown one is refused with a hint."""
    known = [each.name for each in fields(ForgetSettings)]
    found = {OLD_NAMES.get(name, name): value for name, value in options.items()}
    for name in found:
        if name not in known:
            raise SettingsError(unknown("setting of a request", name, known))
    return found
