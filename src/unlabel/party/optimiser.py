"""How a party moves its own weights: SGD or Adam, and the rate over time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor
from torch.optim import SGD, Adam, Optimizer

from unlabel.errors import SettingsError, unknown
from unlabel.wire.messages import Schedule

OptimiserKind = Literal["sgd", "adam"]


@dataclass(frozen=True)
class OptimiserSettings:
    """Settings of one party's optimiser.

    optimiser     sgd or adam
    lr            the highest learning rate
    momentum      momentum of SGD
    nesterov      Nesterov's form of that momentum
    weight_decay  L2 penalty on every weight
    schedule      constant, or falling to zero along a line or a cosine
    warmup        share of the steps in which the rate rises to `lr` first
    """

    optimiser: OptimiserKind = "sgd"
    lr: float = 0.05
    momentum: float = 0.9
    nesterov: bool = False
    weight_decay: float = 5e-4
    schedule: Schedule = "cosine"
    warmup: float = 0.0

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a plain dict that pydantic reads)

    def __post_init__(self) -> None:
        one_of("optimiser", self.optimiser, get_args(OptimiserKind))
        one_of("schedule", self.schedule, get_args(Schedule))
        expect("lr", self.lr, self.lr >= 0 and math.isfinite(self.lr), "a number of 0 or more")
        expect("momentum", self.momentum, 0 <= self.momentum < 1, "from 0 to below 1")
        expect("weight_decay", self.weight_decay, self.weight_decay >= 0, "0 or more")
        expect("warmup", self.warmup, 0 <= self.warmup < 1, "a share from 0 to below 1")

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of step 0 .. steps - 1.

        With s = step + 1/2, w = warmup * steps and t = (s - w) / (steps - w):
        lr * s / w while s < w, then lr, lr * (1 - t) or lr * (1 + cos(pi t)) / 2.
        """
        steps = max(steps, 1)
        middle, rise = step + 0.5, self.warmup * steps
        if middle < rise:
            return self.lr * middle / rise
        done = min(1.0, (middle - rise) / (steps - rise))
        if self.schedule == "linear":
            return self.lr * (1 - done)
        if self.schedule == "cosine":
            return self.lr * (1 + math.cos(math.pi * done)) / 2
        return self.lr

    def make(self, parameters: Iterable[Tensor]) -> Optimizer:
        """Return an optimiser over the parameters."""
        weights = list(parameters)
        # Fused: all weights in one call, on a CPU as on a GPU.
        if self.optimiser == "adam":
            return Adam(weights, lr=self.lr, weight_decay=self.weight_decay, fused=True)
        return SGD(
            weights,
            lr=self.lr,
            momentum=self.momentum,
            nesterov=self.nesterov and self.momentum > 0,  # without momentum they are the same
            weight_decay=self.weight_decay,
            fused=True,
        )


def expect(name: str, value: object, holds: bool, accepted: str) -> None:
    """Raise `SettingsError` unless a setting holds what it must."""
    if not holds:
        raise SettingsError(f"Expected `{name}` to be {accepted} but got {value}.")


def one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    """Raise `SettingsError`, with the nearest spelling, unless a setting has a known value."""
    if value not in known:
        raise SettingsError(unknown(name, value, known))
