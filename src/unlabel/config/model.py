"""Which models a federation uses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

from unlabel.config.checks import expect, one_of
from unlabel.errors import SettingsError

Combine = Literal["concat", "sum"]
#: Numbers below this one are no words: padding, start, end.
FIRST_WORD = 3
#: Models are given numbers of words as float32, which is exact up to here.
MOST_WORDS = 2**24


@dataclass(frozen=True)
class TextSettings:
    """How parties read texts.

    weights     folder or package of a pretrained encoder and its tokeniser; random without it
    layers      of the encoder; fewer than a pretrained one has are its first ones
    width       of its hidden states, where it begins at random
    length      tokens of a party's stretch that are read; 0 stands for 64, for `words` for 256
    frozen      keep the encoder as it is and train a head alone, on features made once
    vocabulary  numbers for words, where no tokeniser comes with the weights
    """

    weights: str = ""
    layers: int = 12
    width: int = 768
    length: int = 0
    frozen: bool = False
    vocabulary: int = 30_000

    def __post_init__(self) -> None:
        for name, least in (("layers", 1), ("width", 1), ("length", 0)):
            value = getattr(self, name)
            expect(f"text.{name}", value, value >= least, f"at least {least}")
        fits = FIRST_WORD < self.vocabulary <= MOST_WORDS
        expect("text.vocabulary", self.vocabulary, fits, f"from {FIRST_WORD + 1} to {MOST_WORDS}")
        if self.frozen and not self.weights:
            raise SettingsError("Expected `weights` of a pretrained encoder where it is frozen.")


@dataclass(frozen=True)
class ModelSettings:
    """The models of a federation; each name is a built-in one or `module:function`.

    In Python a bottom may also be a function or class that makes one.

    bottom   the bottom model of every party
    top      the top model; the one that goes with the bottom if not given
    combine  how embeddings are joined: concat or sum
    bottoms  the bottom models of single parties, by name of the party
    text     how texts are read, where features are texts
    options  settings of a top that is a classifier of scikit-learn, by name
    """

    bottom: str = "mlp"
    top: str | None = None
    combine: Combine = "concat"
    bottoms: dict[str, str] = field(default_factory=dict)
    text: TextSettings = field(default_factory=TextSettings)
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        one_of("combine", self.combine, get_args(Combine))

    def under(self, base: Path) -> ModelSettings:
        """Return the same models with a folder of weights taken from `base`, if it lies there."""
        folder = base / self.text.weights
        if not self.text.weights or not folder.is_dir():
            return self
        return replace(self, text=replace(self.text, weights=str(folder)))

    def bottom_of(self, party: str) -> str:
        """Return the name of a party's bottom model."""
        return self.bottoms.get(party, self.bottom)
