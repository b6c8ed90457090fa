"""How well a federation predicts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.party import ActiveParty


@dataclass(frozen=True)
class Evaluation:
    """Predictions against the truth.

    accuracy            share of rows whose label was predicted
    loss                mean cross-entropy
    per_label_accuracy  share of the rows of each label that were predicted, None without rows
    confusion           confusion[i][j]: rows of label i predicted as label j
    """

    accuracy: float
    loss: float
    per_label_accuracy: tuple[float | None, ...]
    confusion: tuple[tuple[int, ...], ...]

    def accuracy_on(self, labels: Iterable[int]) -> float | None:
        """Return the share of the rows of some labels that was predicted, None without rows."""
        chosen = list(labels)
        total = sum(sum(self.confusion[n]) for n in chosen)
        return sum(self.confusion[n][n] for n in chosen) / total if total else None

    @classmethod
    def of(cls, logits: Tensor, labels: Tensor, count: int) -> Evaluation:
        """Compare logits [n, count] with labels [n].

        >>> logits = torch.tensor([[2.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
        >>> Evaluation.of(logits, torch.tensor([0, 1, 1]), 2).confusion
        ((1, 0), (1, 1))
        """
        predicted = logits.argmax(1)
        pairs = torch.bincount(labels * count + predicted, minlength=count * count)
        confusion = pairs.view(count, count).cpu()
        right, total = confusion.diagonal(), confusion.sum(1)
        return cls(
            accuracy=right.sum().item() / max(1, len(labels)),
            loss=F.cross_entropy(logits, labels).item(),
            per_label_accuracy=tuple(
                int(r) / int(t) if t else None for r, t in zip(right, total, strict=True)
            ),
            confusion=tuple(tuple(int(n) for n in line) for line in confusion),
        )


def evaluate(active: ActiveParty, rows: Tensor, count: int) -> Evaluation:
    """Predict rows of the training table through all parties and compare with their labels."""
    rows = rows.to(active.device)
    return Evaluation.of(active.logits(rows), active.labels[rows], count)
