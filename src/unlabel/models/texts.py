"""How parties read texts, and numbers for words where no tokeniser is at hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import torch
from torch import Tensor

from unlabel.errors import SettingsError

#: Numbers below this one are no words: padding, start, end.
FIRST_WORD = 3
#: Models are given numbers of words as float32, which is exact up to here.
MOST_WORDS = 2**24
#: Tokens of a stretch that are read where `length` is 0, and different words of it for a bag.
TOKENS = 64
DIFFERENT = 256
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class TextSettings:
    """How parties read texts.

    weights     folder of a pretrained encoder and its tokeniser, or the name of an installed
                package that holds them; without it an encoder begins at random
    layers      of the encoder; fewer than a pretrained one has are its first ones
    width       of its hidden states, where it begins at random
    length      tokens of a party's stretch that are read; what follows is cut off. 0 stands for 64,
                and for 256 where a model such as `words` reads each different word once
    frozen      keep the encoder as it is and train a head alone, on features made once
    vocabulary  numbers for words, where no tokeniser comes with the weights
    """

    weights: str = ""
    layers: int = 12
    width: int = 768
    length: int = 0
    frozen: bool = False
    vocabulary: int = 30_000

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a plain dict that pydantic reads)

    def __post_init__(self) -> None:
        for name, least in (("layers", 1), ("width", 1), ("length", 0)):
            if getattr(self, name) < least:
                raise SettingsError(
                    f"Expected `{name}` of texts to be at least {least} but got "
                    f"{getattr(self, name)}."
                )
        if not FIRST_WORD < self.vocabulary <= MOST_WORDS:
            raise SettingsError(
                f"Expected `vocabulary` of texts to be above {FIRST_WORD} and up to {MOST_WORDS} "
                f"but got {self.vocabulary}."
            )
        if self.frozen and not self.weights:
            raise SettingsError("Expected `weights` of a pretrained encoder where it is frozen.")


def hash_tokens(
    texts: Sequence[str], length: int, vocabulary: int, *, once: bool = False
) -> Tensor:
    """Return [N, length] numbers of words by their hash, padded with 0; no vocabulary is kept.

    once  each different word of a text stands in its row once, where it came first

    >>> hash_tokens(["a card, a card", ""], 4, 1000).count_nonzero(1).tolist()
    [4, 0]
    >>> hash_tokens(["a card, a card", ""], 4, 1000, once=True).count_nonzero(1).tolist()
    [3, 0]
    """
    tokens = torch.zeros(len(texts), length, dtype=torch.int64)
    span = vocabulary - FIRST_WORD
    for row, text in enumerate(texts):
        words = _WORD.findall(text.lower())
        words = (list(dict.fromkeys(words)) if once else words)[:length]
        numbers = [FIRST_WORD + crc32(word.encode()) % span for word in words]
        tokens[row, : len(numbers)] = torch.tensor(numbers, dtype=torch.int64)
    return tokens
