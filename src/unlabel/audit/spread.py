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

    deviation  standard deviation from their references, over all recorded groups
    freedom    how many models' worth of evidence that is, beside the references at hand; infinite
               where these say nothing of it
    reach      how many deviations recorded models lay from their references, at most: one spread
    scale      brings a figure to that scale
    """

    deviation: float
    freedom: float
    reach: float
    scale: Callable[[float], float] = float

    def away(self, value: float, references: Sequence[float]) -> float:
        """Return (x - m) / (c s sqrt(1 + 1/n)): how many spreads a value lies above references.

        m is the mean of the n references, c the reach, and with the recorded deviation s0 of
        freedom v

            s^2 = (v s0^2 + sum (r - m)^2) / (v + n - 1).
        """
        known = [self.scale(each) for each in references]
        middle, count = mean(known), len(known)
        squares = sum((each - middle) ** 2 for each in known)
        deviation = self.deviation
        if math.isfinite(self.freedom):
            recorded = self.freedom * deviation**2
            deviation = math.sqrt((recorded + squares) / (self.freedom + count - 1))
        unit = self.reach * deviation * math.sqrt(1 + 1 / count)
        return (self.scale(value) - middle) / unit


#: By measure, as `unlabel bench adversary` recorded them over retrained models.
RECORDED = {
    "membership": Spread(0.109, 4.8, 4.8, angle),
    "trace-output": Spread(0.123, 2.0, 9.4, explained),
    # Each refitted top is held against fewer others than the model that is judged.
    "echo": Spread(0.082, math.inf, 5.2),
    "trace-top": Spread(0.106, 30.0, 2.5, explained),
    "trace": Spread(0.146, 30.0, 4.2, explained),
    "probe-linear": Spread(0.0532, 2.0, 5.6, angle),
    "probe-mlp": Spread(0.0607, 3.3, 6.0, angle),
    "probe-nearest": Spread(0.0549, 2.0, 5.2, angle),
    "relearning": Spread(0.338, 2.0, 2.7, math.log),
}
