"""Does a forgotten label's own score still rank its samples?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from unlabel.audit.intervals import Array, bootstrap
from unlabel.audit.measure import MEASURES, Figure, Measure
from unlabel.audit.measures.likelihood import log_odds
from unlabel.audit.observation import Observation
from unlabel.audit.ranking import Ranking, mean_auc
from unlabel.terms import Depth


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
    depth: ClassVar[Depth | None] = "top"
    unit: ClassVar[Literal["share", "number", "ratio"]] = "number"

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:
        """Rank rows by each kind of score."""
        truth = observed.test.labels.numpy()
        known = [n for n in labels if 0 < (truth == n).sum() < len(truth)]
        if not known:
            note = "There are no test rows of a forgotten label, or none of any other."
            return Figure(None, note=note)
        # Every forgotten label keeps its number of rows, and the others together keep theirs.
        strata = np.where(np.isin(truth, known), truth, -1).astype(np.int64)
        every = [np.ones(len(truth), dtype=bool)] * len(known)
        kinds: dict[str, Any] = {}
        by_label: dict[str, float] = {}
        scores = {n: _scores(observed.test.scores, n) for n in known}
        for kind in ("logit", "margin", "probability"):
            ranks = [Ranking(scores[n][kind], truth == n) for n in known]
            areas = [float(rank.auc()[0]) for rank in ranks]
            low, high = bootstrap(mean_auc(ranks, every), strata)
            kinds[kind] = {"value": float(np.mean(areas)), "low": low, "high": high}
            if kind == "logit":
                by_label = {observed.names[n]: value for n, value in zip(known, areas, strict=True)}
        logit = kinds["logit"]
        detail = {"kinds": kinds, "labels": by_label}
        return Figure(logit["value"], logit["low"], logit["high"], detail)


def _scores(scores: Tensor, label: int) -> dict[str, Array]:
    """Return for each kind of score one value a row: how much the row looks like the label."""
    exact = scores.double()
    logit = exact[:, label]
    margin = logit - (exact.sum(1) - logit) / (exact.shape[1] - 1)
    odds = log_odds(exact, torch.full((len(exact),), label))
    return {"logit": logit.numpy(), "margin": margin.numpy(), "probability": odds.numpy()}
