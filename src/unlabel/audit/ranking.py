"""Two kinds of rows separated by one score: area under the curve, and the power of a threshold."""

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
        self._positive = positive[self._order]
        starts = np.flatnonzero(np.diff(values[self._order])) + 1
        self._starts = np.concatenate([[0], starts])

    def auc(self, weights: Array | None = None) -> Array:
        """Return P(positive > negative) + P(positive = negative) / 2, a pair drawn by weight."""
        positive, negative = self._shares(weights)
        below = 1 - np.cumsum(negative, 1) + negative / 2
        area: Array = (positive * below).sum(1)
        return area

    def power(self, alarm: float, weights: Array | None = None) -> Array:
        """Return the largest share of positives above a threshold that few negatives reach.

        alarm  the share of negatives that may
        """
        positive, negative = self._shares(weights)
        fine = np.cumsum(negative, 1) <= alarm + 1e-12
        share: Array = np.where(fine, np.cumsum(positive, 1), 0.0).max(1)
        return share

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
