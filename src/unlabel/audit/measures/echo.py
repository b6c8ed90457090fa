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
    """Return the scores of the labels that stay, about their mean, on all rows of the others."""
    stay = [n for n in range(len(observed.names)) if n not in labels]
    rows = [
        part.of(labels).scores[:ROWS, stay].double() for part in (observed.train, observed.test)
    ]
    scores = torch.cat(rows)
    return scores - scores.mean(1, keepdim=True)


@MEASURES.register("echo")
@dataclass(frozen=True)
class Echo(Comparison):
    """Share of the old model in the answers about the label's rows, beside models without it.

    With Z the scores of the labels that stay, each row about its mean, on the rows of the forgotten
    labels; O the original's, T the mean of the tops refitted without the label to the same
    embeddings (of a refitted top, of all others):

        Z = a O + b T + rest by least squares;   value = a |O| / (|a| |O| + |b| |T|).

    1 for the original with its output hidden, overwritten or scaled, and noise does not change
    that; near 0 for a top that only the other labels taught.
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
        parts = torch.stack([old.flatten(), taught.flatten()], 1)
        now = retained_scores(observed, labels).flatten()
        shares = torch.linalg.lstsq(parts, now[:, None]).solution[:, 0] * parts.norm(dim=0)
        whole = shares.abs().sum().clamp_min(torch.finfo(torch.float64).tiny)
        return Figure(float(shares[0] / whole), detail={"rows": len(old)})
