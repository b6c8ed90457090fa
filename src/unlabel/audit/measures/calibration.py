"""Does the model know how sure it may be?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unlabel.audit.intervals import Array, bootstrap
from unlabel.audit.measure import MEASURES, Figure, Measure
from unlabel.audit.observation import Observation


@MEASURES.register("calibration")
@dataclass(frozen=True)
class Calibration(Measure):
    """Expected calibration error: sum over bins b of n_b / n |accuracy_b - confidence_b|.

    Test rows of the labels that stay fall into bins of equal width by their confidence, the
    largest probability. The interval comes from rows drawn again; `curve` is the reliability
    curve, one entry a bin that has rows.
    """

    about: ClassVar[str] = "calibration error on test rows of the labels that stay"
    higher_is_better: ClassVar[bool | None] = False

    bins: int = 15

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:
        """Sort rows into bins."""
        part = observed.test.without(labels)
        if not len(part):
            return Figure(None, note="There are no test rows of labels that stay.")
        best = part.logits.double().softmax(1).max(1)
        confidence = best.values.numpy()
        right = (best.indices == part.labels).double().numpy()
        edges = np.linspace(0, 1, self.bins + 1)
        # A bin holds its upper edge, so that a confidence of 1 has a bin.
        bins = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, self.bins - 1)
        inside = np.eye(self.bins)[bins]

        def error(weights: Array) -> Array:
            gaps = np.abs(weights @ (inside * (right - confidence)[:, None]))
            errors: Array = gaps.sum(1) / weights.sum(1)
            return errors

        curve = [
            {
                "low": float(edges[b]),
                "high": float(edges[b + 1]),
                "rows": int((bins == b).sum()),
                "confidence": float(confidence[bins == b].mean()),
                "accuracy": float(right[bins == b].mean()),
            }
            for b in np.unique(bins)
        ]
        value = float(error(np.ones((1, len(part))))[0])
        interval = bootstrap(error, np.zeros(len(part), dtype=np.int64))
        return Figure(value, *interval, {"curve": curve})
