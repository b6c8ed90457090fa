"""A defence: what a party does to the rows it sends. One defence is one file of this package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, cast

from torch import Tensor

from unlabel.config import ACTIVE, RunConfig
from unlabel.errors import SettingsError
from unlabel.party import Stream
from unlabel.registry import Registry
from unlabel.wire import AccumulateFisher, Embeddings, Gradients, Message
from unlabel.words import parse_settings

#: What may be defended: gradients of the active party, or embeddings of a passive one.
Rows = Literal["gradients", "embeddings"]


@dataclass(frozen=True)
class Defence(ABC):
    """Changes the rows of a message: embeddings, or gradients (also in `AccumulateFisher`).

    A defence is a filter of a party, in training, in forgetting and in prediction. A party that
    defends its embeddings gets the gradient at what it sent, and carries it back as if its model
    had returned that.

    about  one line for people
    on     which rows it may be applied to
    last   whether nothing may be applied after it
    """

    about: ClassVar[str]
    last: ClassVar[bool] = False
    on: ClassVar[tuple[Rows, ...]] = ("gradients", "embeddings")

    def __call__(self, message: Message, peer: str, stream: Stream, /) -> Message:  # noqa: ARG002
        """Return the message to send; one that carries no rows of numbers goes as it is."""
        if not isinstance(message, Gradients | AccumulateFisher | Embeddings):
            return message
        values = self.apply(message.values, stream, message.step)
        return cast(Message, replace(message, values=values))

    @abstractmethod
    def apply(self, values: Tensor, stream: Stream, step: int) -> Tensor:
        """Return what is sent for a matrix of rows."""


DEFENCES: Registry[type[Defence]] = Registry("defence", package="unlabel.defend")


def read_defence(text: str) -> Defence:
    """Return a defence from words.

    >>> read_defence("gaussian:clip=1:sigma=0.1").sigma
    0.1
    """
    name, *words = text.split(":")
    return cast(Defence, parse_settings(DEFENCES.get(name), words))


def read_defences(texts: Sequence[str], rows: Rows) -> tuple[Defence, ...]:
    """Return defences in the order in which they are applied, or say which one cannot be."""
    defences = tuple(read_defence(text) for text in texts)
    for text, each in zip(texts, defences, strict=True):
        if rows not in each.on:
            raise SettingsError(
                f"Expected a defence of {rows} but got '{text}', which is for "
                f"{' and '.join(each.on)}."
            )
    for text, each in zip(texts[:-1], defences[:-1], strict=True):
        if each.last:
            raise SettingsError(f"Expected '{text}' after all others but got it before one.")
    return defences


def defences_of(config: RunConfig, party: str) -> tuple[Defence, ...]:
    """Return what a party applies to what it sends, in order."""
    if party == ACTIVE:
        return read_defences(config.defend.gradients, "gradients")
    chosen = {p.name: p.defend for p in config.passive if p.defend is not None}
    return read_defences(chosen.get(party, config.defend.embeddings), "embeddings")


def check_defences(setting: str, words: Sequence[str], rows: Rows) -> None:
    """Raise, in the name of a setting, where one of its words is no defence."""
    try:
        read_defences(words, rows)
    except SettingsError as error:
        raise SettingsError(f"`{setting}` cannot be {', '.join(words)}: {error}") from error
