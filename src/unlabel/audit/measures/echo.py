"""Do the answers about a forgotten label's rows still follow the old model's?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from unlabel.audit.measure import MEASURES, Comparison, Figure, Models
from unlabel.audit.observation import Observation
from unlabel.terms import Depth

#: Rows of the forgotten labels that are looked at, at most.
ROWS = 10_000


def retained_scores(observed: Observation, labels: Sequence[int]) -> Tensor:
    """Return scores of the labels that stay on all rows of the others: [rows, labels].

    Each row counts from its median, so that a change of one output moves no other, and each column
    from its mean.
    """
    stay = [n for n in range(len(observed.names)) if n not in labels]
    rows = [
        part.of(labels).scores[:ROWS, stay].double() for part in (observed.train, observed.test)
    ]
    scores = torch.cat(rows)
    scores = scores - scores.median(1, keepdim=True).values
    return scores - scores.mean(0)


@MEASURES.register("echo")
@dataclass(frozen=True)
class Echo(Comparison):
    """Share of the old model in the answers about the label's rows, beside models without it.

    With z the scores of a label that stays (`retained_scores`), on the rows of the forgotten ones;
    o the original's, t the mean of the tops refitted without the label to the same embeddings (of a
    refitted top, of all others):

        z = a o + b t + rest by least squares;   value = a |o| / (|a| |o| + |b| |t|),

    the median over the labels that stay. 1 for the original with its output hidden, overwritten,
    moved to another or scaled, and noise changes that little; near 0 for a top that only the other
    labels taught.
    """

    about: ClassVar[str] = "share of the old model in the answers about the label's rows"
    depth: ClassVar[Depth | None] = "top"
    unit: ClassVar[Literal["share", "number", "ratio"]] = "number"
    bounds: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    of_tops: ClassVar[bool] = True

    def beside(self, observed: Observation, labels: tuple[int, ...], models: Models) -> Figure:
        """Take the scores apart."""
        others = [each for each in models.get("refitted", ()) if each is not observed]
        if "original" not in models or not others:
            return Figure(None, note="It needs the model from before, and tops refitted to others.")
        old = retained_scores(models["original"][0], labels)
        if old.numel() == 0 or old.shape[1] < 2:
            return Figure(None, note="It needs rows of the label, and two labels that stay.")
        taught = torch.stack([retained_scores(each, labels) for each in others]).mean(0)
        now = retained_scores(observed, labels)
        columns = zip(now.T, old.T, taught.T, strict=True)
        share = torch.stack([_share(*column) for column in columns]).median()
        return Figure(float(share), detail={"rows": len(old)})


def _share(now: Tensor, old: Tensor, taught: Tensor) -> Tensor:
    """Return the old model's share in scores, beside that of models without the label."""
    parts = torch.stack([old, taught])
    # By sums and not by a solver of many rows, whose last bits differ from call to call.
    gram = (parts[:, None] * parts[None]).sum(2)
    weights = torch.linalg.pinv(gram, hermitian=True) @ (parts * now).sum(1)
    weights *= gram.diagonal().sqrt()
    share: Tensor = weights[0] / weights.abs().sum().clamp_min(torch.finfo(torch.float64).tiny)
    return share
