"""Where forgotten samples go now: to one wrong label, or wherever they look like?"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import ClassVar, Literal

import numpy as np

from unlabel.audit.intervals import Array, bootstrap
from unlabel.audit.measure import MEASURES, Figure, Measure
from unlabel.audit.observation import Observation
from unlabel.terms import Depth


@MEASURES.register("destination")
@dataclass(frozen=True)
class Destination(Measure):
    """Entropy of the labels that test rows of the forgotten labels are called by.

    With d_j the share of these rows that is called j, and C - U labels that stay,

        value = min(1, -sum over j of d_j ln d_j / ln(C - U)).

    0 where all of them go to a single label, be it the old one or a wrong one: then the wrong
    label points at what was hidden (the Streisand effect). 1 where they go everywhere alike. The
    retrained model's value is the aim. `shares` is d, `largest` the most frequent label.
    """

    about: ClassVar[str] = "how evenly forgotten samples spread over labels (0: all to one)"
    depth: ClassVar[Depth | None] = "answers"
    unit: ClassVar[Literal["share", "number", "ratio"]] = "number"

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:
        """Count where rows go."""
        part = observed.test.of(labels)
        if not len(part):
            return Figure(None, note="There are no test rows of the forgotten labels.")
        called = np.eye(len(observed.names))[part.logits.argmax(1).numpy()]
        shares = called.mean(0)
        largest = int(shares.argmax())
        detail = {
            "shares": {name: float(d) for name, d in zip(observed.names, shares, strict=True)},
            "largest": {"name": observed.names[largest], "share": float(shares[largest])},
            "rows": len(part),
        }
        stay = len(observed.names) - len(set(labels))
        if stay < 2:
            note = "With a single label left there is only one way to go."
            return Figure(None, detail=detail, note=note)

        def spread(weights: Array) -> Array:
            from scipy.special import xlogy

            d = weights @ called / weights.sum(1, keepdims=True)
            entropy: Array = np.minimum(1.0, -xlogy(d, d).sum(1) / log(stay))
            return entropy

        # A forgotten label that keeps its share of rows is a stratum of its own.
        strata = part.labels.numpy().astype(np.int64)
        value = float(spread(np.ones((1, len(part))))[0]) + 0.0
        return Figure(value, *bootstrap(spread, strata), detail)
