"""How well a federation predicts: accuracy, F1 of many labels, ranks and thresholds of two."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.config import expect
from unlabel.errors import SettingsError
from unlabel.party import ActiveParty

#: The probability of the second of two labels above which it is predicted, unless another is given.
THRESHOLD = 0.5


@dataclass(frozen=True)
class Evaluation:
    """Predictions against the truth.

    What is forgotten is meant to be missed. So every single figure but `accuracy_all` is over the
    rows whose label stays; the figures of each label are of all labels. Where exactly two labels
    stay, there are figures of the second against the first, None where one of them has no rows.

    accuracy             share of the rows whose label was predicted; NaN without rows
    loss                 mean cross-entropy of the same rows
    per_label_accuracy   share of the rows of each label that were predicted, None without rows
    confusion            confusion[i][j]: rows of label i predicted as label j
    accuracy_all         share of all rows whose label was predicted, those of forgotten labels too
    forgotten            numbers of the labels that were forgotten
    macro_f1             mean F1 of the labels that stay; None unless two of them have rows
    auc                  of two: area under the ROC curve
    average_precision    of two: mean precision over the recall
    threshold            probability of the second above which it is predicted below
    threshold_confusion  of two: rows of each, predicted as the first and the second
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
        >>> figures = Evaluation.of(logits, torch.tensor([0, 1, 1]), 2)
        >>> figures.confusion, figures.auc
        (((1, 0), (1, 1)), 0.5)
        """
        forgotten = tuple(sorted(set(forgotten)))
        stay = [label for label in range(count) if label not in forgotten]
        check_threshold(threshold, len(stay))
        predicted = logits.argmax(1)
        pairs = torch.bincount(labels * count + predicted, minlength=count * count)
        confusion = pairs.view(count, count).cpu()
        right, total = confusion.diagonal(), confusion.sum(1)
        lines = tuple(tuple(int(n) for n in line) for line in confusion)
        if forgotten:
            kept = ~torch.isin(labels, torch.tensor(forgotten, device=labels.device))
            logits, labels = logits[kept], labels[kept]
        of_two: dict[str, float | None] = {}
        called: tuple[tuple[int, int], ...] | None = None
        if len(stay) == 2:
            # The difference of logits ranks as the probability does, and is not rounded to 1.
            first, second = stay
            scores = (logits[:, second] - logits[:, first]).double().cpu()
            positive = (labels == second).cpu()
            of_two["auc"] = area_under_curve(scores, positive)
            of_two["average_precision"] = average_precision(scores, positive)
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
            forgotten=forgotten,
            macro_f1=macro_f1(lines, stay),
            threshold=threshold,
            threshold_confusion=called,
            **of_two,
        )


def check_threshold(threshold: float, stay: int) -> None:
    """Raise unless a threshold is a probability, and of two labels where it is no default."""
    expect("threshold", threshold, 0 <= threshold <= 1, "a probability from 0 to 1")
    if threshold != THRESHOLD and stay != 2:
        raise SettingsError(f"Expected `threshold` only where two labels stay but {stay} do.")


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
    logits, labels = active.logits(rows), active.labels[rows]
    known = labels >= 0  # all are asked for, so that nobody sees whose label was forgotten
    return Evaluation.of(
        logits[known], labels[known], count, forgotten=forgotten, threshold=threshold
    )


def area_under_curve(scores: Tensor, positive: Tensor) -> float | None:
    """Return the area under the ROC curve, None unless both kinds are there.

    The chance that a positive row has the higher score than a negative one, equal scores counting
    half: with mean ranks r among n = n1 + n0 rows, (sum of r over positives - n1 (n1 + 1) / 2) /
    (n1 n0).

    >>> area_under_curve(torch.tensor([1.0, 2.0, 2.0]), torch.tensor([False, False, True]))
    0.75
    """
    ones = int(positive.sum())
    zeros = len(positive) - ones
    if not ones or not zeros:
        return None
    _, place, count = torch.unique(scores, return_inverse=True, return_counts=True)
    last = count.cumsum(0).double()
    ranks = (last - (count - 1) / 2)[place]
    over = float(ranks[positive].sum()) - ones * (ones + 1) / 2
    return over / (ones * zeros)


def average_precision(scores: Tensor, positive: Tensor) -> float | None:
    """Return the mean of the precision over the recall, None unless both kinds are there.

    Over the thresholds from the highest score down: sum of (R_k - R_k-1) P_k, with P_k and R_k the
    precision and the recall of the rows from the k-th different score up.

    >>> scores, positive = torch.tensor([3.0, 2.0, 1.0]), torch.tensor([True, False, True])
    >>> round(average_precision(scores, positive), 4)
    0.8333
    """
    ones = int(positive.sum())
    if not ones or ones == len(positive):
        return None
    different, place = torch.unique(scores, return_inverse=True)
    size = len(different)
    hits = torch.bincount(place[positive], minlength=size).flip(0).double()
    called = torch.bincount(place, minlength=size).flip(0).cumsum(0)
    return float((hits * hits.cumsum(0) / called).sum() / ones)


def macro_f1(confusion: Sequence[Sequence[int]], stay: Collection[int]) -> float | None:
    """Return the mean F1 of the labels that stay, None unless two of them have rows.

    F1 of a label is 2 TP / (2 TP + FP + FN), over rows of labels that stay. A label that no row
    has and none is predicted as is left out.

    >>> macro_f1([[3, 1, 0], [0, 4, 0], [0, 2, 0]], [0, 1, 2])  # (6/7 + 8/11 + 0) / 3
    0.5281385281385281
    """
    if sum(sum(confusion[label]) > 0 for label in stay) < 2:
        return None
    scores = []
    for label in stay:
        right = confusion[label][label]
        held = sum(confusion[label])
        called = sum(confusion[other][label] for other in stay)
        if held + called:
            scores.append(2 * right / (held + called))
    return sum(scores) / len(scores)


def confusion_at(scores: Tensor, positive: Tensor, threshold: float) -> tuple[tuple[int, int], ...]:
    """Return the rows of each kind predicted as the first and as the second label.

    The second is predicted where its probability 1 / (1 + exp(-score)) is above the threshold.

    >>> scores, positive = torch.tensor([-1.0, 0.1, 2.0]), torch.tensor([False, False, True])
    >>> confusion_at(scores, positive, 0.5), confusion_at(scores, positive, 0.6)
    (((1, 1), (0, 1)), ((2, 0), (0, 1)))
    """
    called = torch.sigmoid(scores.double()) > threshold
    return tuple(
        (int((~called & kind).sum()), int((called & kind).sum())) for kind in (~positive, positive)
    )
