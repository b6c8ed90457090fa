"""Clipped rows with Gaussian noise: the one defence that comes with a proof."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from unlabel.config import expect
from unlabel.defend.defence import DEFENCES, Defence
from unlabel.party import Stream
from unlabel.party.randomness import normal


@DEFENCES.register("gaussian")
@dataclass(frozen=True)
class Gaussian(Defence):
    """Add noise to each number of rows that are clipped first.

    A row x is sent as x min(1, c / |x|) + N(0, sigma^2 I). The sum is made in double precision and
    rounded afterwards, so that the last digits of a number do not tell what the noise was added to.

    clip   c, the largest norm of a row; 0 clips nothing, and then nothing is proved
    sigma  standard deviation of the noise; 0 only clips
    """

    about: ClassVar[str] = "rows clipped to a norm, then Gaussian noise on each number"

    clip: float = 1.0
    sigma: float = 0.1

    def __post_init__(self) -> None:
        for name in ("clip", "sigma"):
            value = getattr(self, name)
            expect(name, value, value >= 0 and math.isfinite(value), "a number of 0 or more")

    def apply(self, values: Tensor, stream: Stream, step: int) -> Tensor:
        """Return clipped rows with noise."""
        rows = values.double()
        if self.clip:
            rows = clip_rows(rows, self.clip)
        if self.sigma:
            rows = rows + self.sigma * normal(stream, step, rows)
        return rows.to(values.dtype)


def clip_rows(rows: Tensor, norm: float) -> Tensor:
    """Return rows scaled to a norm where theirs is larger; a row that is not finite becomes 0.

    >>> clip_rows(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    norms = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    scaled = rows * (norm / norms.clamp_min(norm))
    # One infinite number would otherwise pass the noise and say which row it stands in.
    return torch.where(torch.isfinite(norms), scaled, 0.0)
