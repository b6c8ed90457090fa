"""Does a forgotten label's own score still rank its samples?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from unlabel.audit.intervals import Array, bootstrap
from unlabel.audit.likelihood import log_odds
from unlabel.audit.measure import MEASURES, Figure, Level, Measure
from unlabel.audit.ranking import Ranking
from unlabel.audit.seen import Seen


@MEASURES.register("rank")
@dataclass(frozen=True)
class Rank(Measure):
    """AUC of a forgotten label's score, test rows of the label against all others.

        value = mean over forgotten u of P(s_u(row of u) > s_u(row of another label)),

    ties counted half, with s the scores below any mask: a masked output changes nothing here.
    Near 1 the label is still there. Near 0 it is there too, with the sign turned. The retrained
    model's value is the aim. `kinds` has the same for s_u (logit), for s_u minus the mean of the
    others (margin) and for its log-odds, which rank as its probability does; `labels` has each
    label's value. Intervals come from rows drawn again.
    """

    about: ClassVar[str] = "how well a forgotten label's score still ranks its samples (AUC)"
    level: ClassVar[Level | None] = "top"
    unit: ClassVar[Literal["share", "number", "ratio"]] = "number"

    def measure(self, seen: Seen, labels: tuple[int, ...]) -> Figure:
        """Rank rows by each kind of score."""
        truth = seen.test.labels.numpy()
        known = [n for n in labels if 0 < (truth == n).sum() < len(truth)]
        if not known:
            note = "There are no test rows of a forgotten label, or none of any other."
            return Figure(None, note=note)
        # Every forgotten label keeps its number of rows, and the others together keep theirs.
        strata = np.where(np.isin(truth, known), truth, -1).astype(np.int64)
        kinds: dict[str, Any] = {}
        by_label: dict[str, float] = {}
        for kind in ("logit", "margin", "probability"):
            ranks = [Ranking(_score(kind, seen.test.scores, n), truth == n) for n in known]

            def statistic(weights: Array, ranks: list[Ranking] = ranks) -> Array:
                mean: Array = np.mean([rank.auc(weights) for rank in ranks], axis=0)
                return mean

            found = [float(rank.auc()[0]) for rank in ranks]
            low, high = bootstrap(statistic, strata)
            kinds[kind] = {"value": float(np.mean(found)), "low": low, "high": high}
            if kind == "logit":
                by_label = {seen.names[n]: value for n, value in zip(known, found, strict=True)}
        logit = kinds["logit"]
        detail = {"kinds": kinds, "labels": by_label}
        return Figure(logit["value"], logit["low"], logit["high"], detail)


def _score(kind: str, scores: Tensor, label: int) -> Array:
    """Return one value a row: how much the row looks like the label."""
    exact = scores.double()
    own = exact[:, label]
    if kind == "margin":
        found = own - (exact.sum(1) - own) / (exact.shape[1] - 1)
    elif kind == "probability":
        found = log_odds(exact, torch.full((len(exact),), label))
    else:
        found = own
    values: Array = found.numpy()
    return values
