"""How well a federation predicts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.errors import SettingsError
from unlabel.party import ActiveParty
from unlabel.party.optimiser import expect
from unlabel.train.figures import area_under_curve, average_precision, confusion_at, macro_f1

#: The probability of the second of two labels above which it is predicted, unless another is given.
THRESHOLD = 0.5


@dataclass(frozen=True)
class Evaluation:
    """Predictions against the truth.

    What is forgotten is meant to be missed. So every single figure but `accuracy_all` is over the
    rows whose label stays; the figures of each label are of all labels.

    accuracy             share of the rows of labels that stay whose label was predicted; NaN
                         without such rows
    loss                 mean cross-entropy of the same rows
    per_label_accuracy   share of the rows of each label that were predicted, None without rows
    confusion            confusion[i][j]: rows of label i predicted as label j
    accuracy_all         share of all rows whose label was predicted, those of forgotten labels too
    forgotten            numbers of the labels that were forgotten
    macro_f1             mean F1 of the labels that stay; None unless two of them have rows
    auc                  where two labels stay: chance that a row of the second has a higher
                         probability of it than a row of the first; None unless both have rows
    average_precision    where two labels stay: mean precision over the recall of the second; None
                         unless both have rows
    threshold            probability of the second label above which `threshold_confusion` predicts
                         it
    threshold_confusion  where two labels stay: rows of each, predicted as the first and the second
                         at the threshold; None unless two stay
    """

    accuracy: float
    loss: float
    per_label_accuracy: tuple[float | None, ...]
    confusion: tuple[tuple[int, ...], ...]
    accuracy_all: float = math.nan
    forgotten: tuple[int, ...] = ()
    macro_f1: float | None = None
    auc: float | None = None
    average_precision: float | None = None
    threshold: float = THRESHOLD
    threshold_confusion: tuple[tuple[int, int], ...] | None = None

    @property
    def stay(self) -> tuple[int, ...]:
        """The numbers of the labels that stay."""
        return tuple(n for n in range(len(self.confusion)) if n not in self.forgotten)

    def accuracy_on(self, labels: Iterable[int]) -> float | None:
        """Return the share of the rows of some labels that was predicted, None without rows."""
        chosen = list(labels)
        total = sum(sum(self.confusion[n]) for n in chosen)
        return sum(self.confusion[n][n] for n in chosen) / total if total else None

    @classmethod
    def of(
        cls,
        logits: Tensor,
        labels: Tensor,
        count: int,
        *,
        forgotten: Iterable[int] = (),
        threshold: float = THRESHOLD,
    ) -> Evaluation:
        """Compare logits [n, count] with labels [n].

        forgotten  numbers of the labels that were forgotten
        threshold  of the probability of the second label, where two stay

        >>> logits = torch.tensor([[2.0, 0.0], [3.0, 0.0], [0.0, 1.0]])
        >>> found = Evaluation.of(logits, torch.tensor([0, 1, 1]), 2)
        >>> found.confusion, found.auc
        (((1, 0), (1, 1)), 0.5)
        """
        gone = tuple(sorted(set(forgotten)))
        stay = [label for label in range(count) if label not in gone]
        check_threshold(threshold, len(stay))
        predicted = logits.argmax(1)
        pairs = torch.bincount(labels * count + predicted, minlength=count * count)
        confusion = pairs.view(count, count).cpu()
        right, total = confusion.diagonal(), confusion.sum(1)
        lines = tuple(tuple(int(n) for n in line) for line in confusion)
        if gone:
            kept = ~torch.isin(labels, torch.tensor(gone, device=labels.device))
            logits, labels = logits[kept], labels[kept]
        found: dict[str, float | None] = {}
        called: tuple[tuple[int, int], ...] | None = None
        if len(stay) == 2:
            # The difference of logits ranks as the probability does, and is not rounded to 1.
            first, second = stay
            scores = (logits[:, second] - logits[:, first]).double().cpu()
            positive = (labels == second).cpu()
            found["auc"] = area_under_curve(scores, positive)
            found["average_precision"] = average_precision(scores, positive)
            called = confusion_at(scores, positive, threshold)
        held = int(total[stay].sum())
        return cls(
            accuracy=int(right[stay].sum()) / held if held else math.nan,
            loss=F.cross_entropy(logits, labels).item(),
            per_label_accuracy=tuple(
                int(r) / int(t) if t else None for r, t in zip(right, total, strict=True)
            ),
            confusion=lines,
            accuracy_all=right.sum().item() / max(1, int(total.sum())),
            forgotten=gone,
            macro_f1=macro_f1(lines, stay),
            threshold=threshold,
            threshold_confusion=called,
            **found,
        )


def check_threshold(threshold: float, stay: int) -> None:
    """Raise unless a threshold is a probability, and of two labels where it is no default."""
    expect("threshold", threshold, 0 <= threshold <= 1, "a probability from 0 to 1")
    if threshold != THRESHOLD and stay != 2:
        raise SettingsError(
            f"Expected `threshold` only where two labels stay but this run has {stay}; leave it "
            f"out."
        )


def evaluate(
    active: ActiveParty,
    rows: Tensor,
    count: int,
    *,
    forgotten: Iterable[int] = (),
    threshold: float = THRESHOLD,
) -> Evaluation:
    """Predict rows of the training table through all parties and compare with their labels."""
    rows = rows.to(active.device)
    return Evaluation.of(
        active.logits(rows), active.labels[rows], count, forgotten=forgotten, threshold=threshold
    )
