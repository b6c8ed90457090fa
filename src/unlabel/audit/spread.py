"""How far a figure lies from those of reference models, in units of how these differ.

Two models that were trained alike from two seeds differ, and nobody is asked to be nearer to them
than they are to each other. A few references say little about how far they spread, so what many of
them did on recorded data counts too: `RECORDED`, from results/adversary.json.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean

#: Least part of a value that counts as not explained: what is left of an exact copy by rounding.
ROUNDING = 1e-6


def angle(share: float) -> float:
    """Return asin sqrt(share): shares near 0 and 1 then spread like those in the middle."""
    return math.asin(math.sqrt(min(1.0, max(0.0, share))))


def explained(share: float) -> float:
    """Return -ln(1 - share) of a share that is explained, at most that of an exact copy."""
    return -math.log(max(ROUNDING, 1 - share))


@dataclass(frozen=True)
class Spread:
    """How figures of models that were trained alike spread, on a scale on which all spread alike.

    deviation  standard deviation from the mean of their group, over all recorded groups
    freedom    how many models' worth of evidence that is, beside the references at hand
    scale      brings a figure to that scale
    """

    deviation: float
    freedom: float
    scale: Callable[[float], float] = float

    def away(self, value: float, references: Sequence[float]) -> float:
        """Return (x - m) / (s sqrt(1 + 1/n)): how many spreads a value lies above references.

        m is the mean of the n references, and with the recorded deviation s0 of freedom v

            s^2 = (v s0^2 + sum (r - m)^2) / (v + n - 1).
        """
        known = [self.scale(each) for each in references]
        middle, count = mean(known), len(known)
        squares = sum((each - middle) ** 2 for each in known)
        s = math.sqrt((self.freedom * self.deviation**2 + squares) / (self.freedom + count - 1))
        return (self.scale(value) - middle) / (s * math.sqrt(1 + 1 / count))


#: By measure, as `unlabel bench adversary` recorded them over retrained models.
RECORDED = {
    "membership": Spread(0.10, 4.0, angle),
    "echo": Spread(0.20, 4.0),
    "trace-output": Spread(0.5, 4.0, explained),
    "trace-top": Spread(0.15, 4.0, explained),
    "trace": Spread(0.15, 4.0, explained),
    "probe-linear": Spread(0.06, 4.0, angle),
    "probe-mlp": Spread(0.06, 4.0, angle),
    "probe-nearest": Spread(0.06, 4.0, angle),
    "relearning": Spread(0.3, 4.0, math.log),
}
#: Spreads within which 95 of 100 recorded models without the label lie with all their figures.
WITHIN = 4.0
