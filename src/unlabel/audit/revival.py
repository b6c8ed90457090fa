"""Can an edit of the output biases bring a forgotten label back?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch

from unlabel.audit.intervals import Array, bootstrap
from unlabel.audit.measure import MEASURES, Figure, Level, Measure
from unlabel.audit.ranking import Ranking
from unlabel.audit.seen import Part, Seen


@MEASURES.register("revival")
@dataclass(frozen=True)
class Revival(Measure):
    """The most that a bias added to a forgotten label's score wins back.

    A row is called u as soon as its margin m = s_u - max over labels j that stay of s_j exceeds
    -b, with b what was added. So the best edit of the bias gives

        J = max over b of P(m + b > 0 | rows of u) - P(m + b > 0 | rows of labels that stay),

    Youden's J, the one-sided distance of Kolmogorov and Smirnov between the two margins. The
    value is its mean over the forgotten labels: 1 where a bias brings the label back at no cost,
    0 where none is better than guessing. The retrained model's value is the aim. `labels` has for
    each J, the bias, and y_u and D_r with it. The interval comes from rows drawn again.
    """

    about: ClassVar[str] = "what the best edit of the output bias wins back of the label"
    level: ClassVar[Level | None] = "top"
    unit: ClassVar[Literal["share", "number", "ratio"]] = "number"

    def measure(self, seen: Seen, labels: tuple[int, ...]) -> Figure:
        """Look for the best bias, label by label."""
        stay = [n for n in range(len(seen.names)) if n not in labels]
        part = seen.test
        truth = part.labels.numpy()
        others = ~np.isin(truth, list(labels))
        known = [n for n in labels if (truth == n).any()]
        if not (known and others.any()):
            note = "There are no test rows of a forgotten label, or none of a label that stays."
            return Figure(None, note=note)
        found: dict[str, Any] = {}
        parts: list[tuple[Ranking, Any]] = []
        for n in known:
            margins = _margins(part, n, stay)
            rows = others | (truth == n)
            rank = Ranking(margins[rows], (truth == n)[rows])
            parts.append((rank, rows))
            found[seen.names[n]] = _edit(rank, margins, part, n, stay)

        def statistic(weights: Array) -> Array:
            mean: Array = np.mean([rank.youden(weights[:, rows]) for rank, rows in parts], axis=0)
            return mean

        value = float(np.mean([entry["value"] for entry in found.values()]))
        strata = np.where(others, -1, truth).astype(np.int64)
        return Figure(value, *bootstrap(statistic, strata), {"labels": found})


def _margins(part: Part, label: int, stay: list[int]) -> Array:
    exact = part.scores.double()
    margins: Array = (exact[:, label] - exact[:, stay].max(1).values).numpy()
    return margins


def _edit(
    rank: Ranking, margins: Array, part: Part, label: int, stay: list[int]
) -> dict[str, float | None]:
    """Return the best bias for one label and what it comes to."""
    threshold = rank.best_threshold()
    called = margins > (np.inf if threshold is None else threshold)
    truth = part.labels.numpy()
    best = torch.tensor(stay)[part.scores[:, stay].argmax(1)].numpy()
    own, others = truth == label, np.isin(truth, stay)
    return {
        "value": float(rank.youden()[0]),
        "bias": None if threshold is None else -threshold,
        "forgotten_accuracy": float(called[own].mean()),
        "retained_accuracy": float((~called & (best == truth))[others].mean()),
    }
