"""Two kinds of rows separated by one score: area under the curve, and the best threshold."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unlabel.audit.intervals import Array, Statistic


class Ranking:
    """Rows sorted once by a score, to be judged under any weights of the rows.

    Weights are [draws, rows]; every figure is [draws]. Rows of equal score share a threshold.
    """

    def __init__(self, values: Array, positive: NDArray[np.bool_]) -> None:
        self._order = np.argsort(-values, kind="stable")
        self._sorted = values[self._order]
        self._positive = positive[self._order]
        starts = np.flatnonzero(np.diff(self._sorted)) + 1
        self._starts = np.concatenate([[0], starts])

    def auc(self, weights: Array | None = None) -> Array:
        """Return P(positive > negative) + P(positive = negative) / 2, a pair drawn by weight."""
        positive, negative = self._shares(weights)
        below = 1 - np.cumsum(negative, 1) + negative / 2
        area: Array = (positive * below).sum(1)
        return area

    def youden(self, weights: Array | None = None) -> Array:
        """Return max over thresholds t of P(positive >= t) - P(negative >= t), at least 0."""
        positive, negative = self._shares(weights)
        gain: Array = np.clip(np.cumsum(positive - negative, 1).max(1), 0.0, 1.0)
        return gain

    def power(self, alarm: float, weights: Array | None = None) -> Array:
        """Return the largest share of positives above a threshold that few negatives reach.

        alarm  the share of negatives that may
        """
        positive, negative = self._shares(weights)
        fine = np.cumsum(negative, 1) <= alarm + 1e-12
        share: Array = np.where(fine, np.cumsum(positive, 1), 0.0).max(1)
        return share

    def best_threshold(self) -> float | None:
        """Return a threshold of the largest difference, midway to the next value below.

        None where every threshold is worse than none.
        """
        positive, negative = self._shares(None)
        gains = np.cumsum(positive - negative, 1)[0]
        best = int(gains.argmax())
        if gains[best] <= 1e-12:
            return None
        values = self._sorted[self._starts]
        if best + 1 == len(values):
            return float(values[best]) - 1.0
        return float(values[best] + values[best + 1]) / 2

    def _shares(self, weights: Array | None) -> tuple[Array, Array]:
        """Return the share of positives, and of negatives, at each value from the largest down."""
        weights = np.ones((1, len(self._order))) if weights is None else weights
        ordered = weights[:, self._order]
        ones = np.add.reduceat(ordered * self._positive, self._starts, axis=1)
        zeros = np.add.reduceat(ordered * ~self._positive, self._starts, axis=1)
        return ones / ones.sum(1, keepdims=True), zeros / zeros.sum(1, keepdims=True)


def mean_auc(rankings: Sequence[Ranking], rows: Sequence[NDArray[np.bool_]]) -> Statistic:
    """Return the mean AUC of several rankings, each of some of the rows, as a statistic."""

    def statistic(weights: Array) -> Array:
        areas = [rank.auc(weights[:, some]) for rank, some in zip(rankings, rows, strict=True)]
        mean: Array = np.mean(areas, axis=0)
        return mean

    return statistic
