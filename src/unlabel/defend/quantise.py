"""Few levels in place of exact numbers, right on average."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from unlabel.config import expect
from unlabel.defend.defence import DEFENCES, Defence
from unlabel.party import Stream
from unlabel.party.randomness import uniform

#: A float has so many binary digits; more levels would change nothing.
MOST_BITS = 24


@DEFENCES.register("quantise")
@dataclass(frozen=True)
class Quantise(Defence):
    """Round each number at random to one of 2^bits levels between -m and m, m the largest size.

    With L = 2^bits - 1 and u uniform in [0, 1):

        q = floor((x / m + 1) L / 2 + u),     sent: m (2 q / L - 1)

    The mean of what is sent is x, and it lies within 2 m / L of x. The largest size m is sent as
    it is, so no bound goes with it.

    bits  of a number
    """

    about: ClassVar[str] = "numbers rounded at random to few levels, right on average"

    bits: int = 4

    def __post_init__(self) -> None:
        expect("bits", self.bits, 1 <= self.bits <= MOST_BITS, f"from 1 to {MOST_BITS}")

    def apply(self, values: Tensor, stream: Stream, step: int) -> Tensor:
        """Return rounded rows."""
        exact = values.double()
        largest, steps = exact.abs().amax(), 2**self.bits - 1
        place = (exact / largest + 1) * (steps / 2)
        level = torch.floor(place + uniform(stream, step, exact)).clamp(0, steps)
        # Where all is 0 there is nothing to round, and 0 / 0 is dropped here.
        return torch.where(largest > 0, largest * (2 * level / steps - 1), 0.0).to(values.dtype)
