"""Separability: how far forgotten rows lie from the others, in units of how rows scatter."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import torch
from torch import Tensor

from unlabel.audit.figures import Unit
from unlabel.audit.measure import Figure, Measure
from unlabel.audit.observation import Observation
from unlabel.terms import Depth
from unlabel_bench.rivals import RIVALS


@RIVALS.register("separability")
@dataclass(frozen=True)
class Separability(Measure):
    """|m_u - m_r|^2 / (tr S_u + tr S_r) of test embeddings (Mirage).

    Means m and covariances S (over n - 1) are of the forgotten rows u and of all others r; 0 where
    both lie about the same point. `parties` has each party alone.

    Mirage's code takes the mean variance of a number in place of the trace where there are fewer
    rows than columns, which makes the value larger by about the number of columns; this one takes
    the trace always. Size and rotation change nothing, another invertible map does.
    """

    about: ClassVar[str] = "distance of forgotten rows from the others over their scatter"
    depth: ClassVar[Depth | None] = "bottoms"
    unit: ClassVar[Unit] = "number"
    bounds: ClassVar[tuple[float, float]] = (0.0, inf)

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:
        """Compare means."""
        forgotten = torch.isin(observed.test.labels, torch.tensor(list(labels)))
        if min(int(forgotten.sum()), int((~forgotten).sum())) < 2:
            return Figure(None, note="It needs two test rows of forgotten labels and of others.")
        value = _separability(observed.test.joined(), forgotten)
        if value is None:
            return Figure(None, note="The embeddings are the same for every row.")
        alone = {
            party: {"value": _separability(rows, forgotten)}
            for party, rows in observed.test.embeddings.items()
        }
        return Figure(value, detail={"parties": alone})


def _separability(rows: Tensor, forgotten: Tensor) -> float | None:
    """Return the ratio; None where no row differs from another of its side."""
    sides = [rows.double()[side] for side in (forgotten, ~forgotten)]
    scatter = sum(float(side.var(0).sum()) for side in sides)
    apart = (sides[0].mean(0) - sides[1].mean(0)).square().sum()
    return float(apart) / scatter if scatter > 0 else None
