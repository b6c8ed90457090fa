"""Can an edit of a forgotten label's output bring the label back?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from unlabel.audit.intervals import Array, bootstrap
from unlabel.audit.measure import MEASURES, Figure, Measure
from unlabel.audit.observation import Observation, ObservedRows
from unlabel.audit.ranking import Ranking
from unlabel.terms import Depth


@MEASURES.register("revival")
@dataclass(frozen=True)
class Revival(Measure):
    """The most that an edit of a forgotten label's output wins back.

    Who holds the weights may add a bias b to the label's score, or put a constant in its place
    first. A row is then called u as soon as its margin m exceeds -b, with, over the labels j that
    stay,

        m = s_u - max_j s_j            (own: the score as it is)
        m = mean_j s_j - max_j s_j     (constant: scores count from the mean of those that stay,
                                        without which a constant added to a row would matter)

    and the best bias gives

        J(m) = max over b of P(m + b > 0 | rows of u) - P(m + b > 0 | rows of labels that stay),

    Youden's J, the one-sided distance of Kolmogorov and Smirnov between the two margins. A label's
    value is the larger of J(own) and J(constant), so that an output that was deleted and one that
    was never taught are compared like for like: a row that no other label claims looks like u
    either way. The figure is the mean over the forgotten labels: 1 where an edit brings the label
    back at no cost, 0 where none is better than guessing. The retrained model's value is the aim.
    `labels` has for each both J, which edit is better, its bias, and the accuracies
    with it. The interval comes from rows drawn again.
    """

    about: ClassVar[str] = "what the best edit of the label's output wins back of it"
    depth: ClassVar[Depth | None] = "top"
    unit: ClassVar[Literal["share", "number", "ratio"]] = "number"

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:
        """Look for the best edit, label by label."""
        stay = [n for n in range(len(observed.names)) if n not in labels]
        part = observed.test
        truth = part.labels.numpy()
        others = ~np.isin(truth, list(labels))
        known = [n for n in labels if (truth == n).any()]
        if not (known and others.any()):
            note = "There are no test rows of a forgotten label, or none of a label that stays."
            return Figure(None, note=note)
        edits: dict[str, Any] = {}
        parts: list[tuple[dict[str, Ranking], NDArray[np.bool_]]] = []
        for n in known:
            margins = _margins(part, n, stay)
            rows = others | (truth == n)
            ranks = {edit: Ranking(m[rows], (truth == n)[rows]) for edit, m in margins.items()}
            parts.append((ranks, rows))
            edits[observed.names[n]] = _best(ranks, margins, part, n, stay)

        def statistic(weights: Array) -> Array:
            gained = [
                np.max([rank.youden(weights[:, rows]) for rank in ranks.values()], axis=0)
                for ranks, rows in parts
            ]
            mean: Array = np.mean(gained, axis=0)
            return mean

        value = float(np.mean([entry["value"] for entry in edits.values()]))
        strata = np.where(others, -1, truth).astype(np.int64)
        return Figure(value, *bootstrap(statistic, strata), {"labels": edits})


def _margins(part: ObservedRows, label: int, stay: list[int]) -> dict[str, Array]:
    """Return by how much every row's score of the label exceeds the others, by edit."""
    exact = part.scores.double()
    others = exact[:, stay]
    most = others.max(1).values
    return {"own": (exact[:, label] - most).numpy(), "constant": (others.mean(1) - most).numpy()}


def _best(
    ranks: dict[str, Ranking],
    margins: dict[str, Array],
    part: ObservedRows,
    label: int,
    stay: list[int],
) -> dict[str, Any]:
    """Return the best edit for one label and what it comes to."""
    gained = {edit: float(rank.youden()[0]) for edit, rank in ranks.items()}
    edit = max(gained, key=gained.__getitem__)  # of two as good the first
    threshold = ranks[edit].best_threshold()
    called = margins[edit] > (np.inf if threshold is None else threshold)
    truth = part.labels.numpy()
    best = torch.tensor(stay)[part.scores[:, stay].argmax(1)].numpy()
    inside, others = truth == label, np.isin(truth, stay)
    return {
        "value": gained[edit],
        **gained,
        "edit": edit,
        "bias": None if threshold is None else -threshold,
        "forgotten_accuracy": float(called[inside].mean()),
        "retained_accuracy": float((~called & (best == truth))[others].mean()),
    }
