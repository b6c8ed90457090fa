"""A passive party that turns hostile in the middle of a training, and an active one that does.

From step `start` on it spoils the embeddings it sends to train on, each in its own way; to
questions about predictions it answers honestly, so that the damage is that to the trained models.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast

import torch
from torch import Tensor

from unlabel.party import PassiveParty, Stream
from unlabel.wire import Embed, Embeddings, Gradients, Message

#: From the honest numbers, a generator and the steps since the beginning of the attack.
Spoil = Callable[[Tensor, torch.Generator, int], Tensor]


def _times(factor: float, *, growth: float = 1.0) -> Spoil:
    """Multiply by a factor that may grow with every step."""
    return lambda values, _, age: values * (factor * growth**age)


def _noise(size: float) -> Spoil:
    """Add Gaussian noise of so many times the root mean square of what is sent."""

    def spoil(values: Tensor, draw: torch.Generator, age: int) -> Tensor:
        scale = values.square().mean().sqrt()
        return values + size * scale * torch.randn(values.shape, generator=draw)

    return spoil


def _not_finite(values: Tensor, draw: torch.Generator, age: int) -> Tensor:
    spoilt = values.clone()
    spoilt[torch.randint(len(values), (1,), generator=draw), 0] = torch.nan
    return spoilt


def _constant(values: Tensor, draw: torch.Generator, age: int) -> Tensor:
    return values.mean(0).expand_as(values).contiguous()


def _one_row(values: Tensor, draw: torch.Generator, age: int) -> Tensor:
    """Blow up a single row of the batch a hundredfold."""
    spoilt = values.clone()
    spoilt[torch.randint(len(values), (1,), generator=draw)] *= 100
    return spoilt


def _shuffled(values: Tensor, draw: torch.Generator, age: int) -> Tensor:
    return values[torch.randperm(len(values), generator=draw)]


SPOILS: dict[str, Spoil] = {
    "not finite": _not_finite,
    "times 1.5": _times(1.5),
    "times 3": _times(3.0),
    "times 10": _times(10.0),
    "times 100": _times(100.0),
    "times 1000": _times(1000.0),
    "one row times 100": _one_row,
    "constant": _constant,
    "zeros": _times(0.0),
    "shuffled rows": _shuffled,
    "sign flipped": _times(-1.0),
    "noise of size 0.3": _noise(0.3),
    "noise of size 1": _noise(1.0),
    "noise of size 3": _noise(3.0),
    "noise of size 10": _noise(10.0),
    "drift of 2 % a step": _times(1.0, growth=1.02),
}
REPLAYED, OTHER_ROWS = "replayed", "other rows"
ATTACKS = (*SPOILS, REPLAYED, OTHER_ROWS)


@dataclass
class Hostile:
    """An endpoint in front of a passive party, which spoils what that party sends.

    party   the party behind it
    attack  one of `ATTACKS`
    start   first request to train that is answered falsely
    seed    of its draws
    asked   requests to train so far
    """

    party: PassiveParty
    attack: str
    start: int
    seed: int
    asked: int = 0
    _kept: dict[int, Tensor] = field(default_factory=dict)

    def handle(self, message: Message) -> Message:
        """Answer a message, falsely where the attack is on."""
        if not isinstance(message, Embed) or message.mode == "predict":
            return self.party.handle(message)
        age = self.asked - self.start
        self.asked += 1
        draw = Stream(self.seed, f"hostile/{self.attack}").generator(self.asked)
        if self.attack == OTHER_ROWS and age >= 0:
            others = torch.randint(
                len(self.party.bottom.tables["main"]), (100_000,), generator=draw
            )
            message = replace(message, rows=others[: len(message.rows)])
        answer = self.party.handle(message)
        if not isinstance(answer, Embeddings):
            return answer
        count = len(answer.values)
        if self.attack == REPLAYED:
            # What was sent last for a batch of this size is sent again, whatever is asked.
            kept = self._kept.setdefault(count, answer.values)
            if age < 0:
                self._kept[count] = answer.values
            return Embeddings(answer.step, kept if age >= 0 else answer.values)
        if age < 0 or self.attack not in SPOILS:
            return answer
        return Embeddings(answer.step, SPOILS[self.attack](answer.values, draw, age))

    def serve(self, data: bytes) -> bytes:
        """Answer bytes; a bench hands messages over as they are."""
        return self.party.serve(data)


@dataclass
class ScaledGradients:
    """A filter of the active party: from a step on, every gradient is sent so many times over."""

    factor: float
    start: int

    def __call__(self, message: Message, peer: str, stream: Stream, /) -> Message:
        """Return the message to send."""
        if not isinstance(message, Gradients) or message.step < self.start:
            return message
        return cast(Message, replace(message, values=message.values * self.factor))
