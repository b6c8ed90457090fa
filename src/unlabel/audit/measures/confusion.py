"""What is called by what, and whether others now go by a forgotten name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from unlabel.audit.intervals import share_interval
from unlabel.audit.measure import MEASURES, Figure, Measure
from unlabel.audit.observation import Observation


@MEASURES.register("confusion")
@dataclass(frozen=True)
class Confusion(Measure):
    """Share of the test rows of labels that stay which are called by a forgotten label's name.

    N[i][j] = test rows of label i that are called j; value = sum over i that stay and j forgotten
    of N[i][j] / sum over i that stay and all j. A model that never saw a label calls nothing by
    it. `matrix` is N, over all labels.
    """

    about: ClassVar[str] = "rows of other labels that are called by a forgotten one"
    higher_is_better: ClassVar[bool | None] = False

    def measure(self, observed: Observation, labels: tuple[int, ...]) -> Figure:
        """Count pairs."""
        count = len(observed.names)
        pairs = observed.test.labels * count + observed.test.logits.argmax(1)
        matrix = torch.bincount(pairs, minlength=count * count).view(count, count)
        detail = {"names": list(observed.names), "matrix": matrix.tolist()}
        stay = [n for n in range(count) if n not in labels]
        total = int(matrix[stay].sum())
        if not total:
            return Figure(None, detail=detail, note="There are no test rows of labels that stay.")
        wrong = int(matrix[stay][:, list(labels)].sum())
        return Figure(wrong / total, *share_interval(wrong, total), detail)
