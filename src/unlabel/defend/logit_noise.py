"""Noise in the logits, mapped out by a top: sound for one top, broken for the other.

The gradient of a linear top's loss for a row of embeddings is delta W, with delta the gradient for
the logits (C numbers) and W the top's weights (C x d). Noise of one size on C numbers spoils less
than on d of them, so one would like to send

    (clip(delta) + N(0, sigma^2 I)) W

With a top W_0 that was fixed before the request this is a function of the noisy row and of what was
known before: the bound of the row holds. With the CURRENT top W_s, which has moved with the secret
s, it is not: every such row lies in the row space of W_s, whatever the noise, and the party that
knows what W_s would be for each s looks for the one whose row space fits. A test does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from torch import Tensor

from unlabel.defend.gaussian import Gaussian
from unlabel.party import Stream
from unlabel.party.optimiser import expect, one_of

Top = Literal["fixed", "moving"]


@dataclass(frozen=True)
class LogitNoise:
    """Gradients from noisy rows of d loss / d logits.

    clip   largest norm of such a row
    sigma  standard deviation of the noise on each of its numbers
    top    whether the matrix that maps them out was fixed before the request, or moves with it
    """

    clip: float
    sigma: float
    top: Top

    def __post_init__(self) -> None:
        one_of("top", self.top, get_args(Top))
        expect("clip", self.clip, self.clip > 0, "above 0")
        expect("sigma", self.sigma, self.sigma > 0, "above 0")

    def apply(self, deltas: Tensor, weights: Tensor, stream: Stream, step: int) -> Tensor:
        """Return the gradients to send for rows [n, C] through weights [C, d]."""
        return Gaussian(self.clip, self.sigma).apply(deltas, stream, step) @ weights
