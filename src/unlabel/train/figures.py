"""Figures of a classifier beyond its accuracy: ranks and thresholds of two labels, F1 of many."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
from torch import Tensor

Confusion = Sequence[Sequence[int]]


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
    found = torch.bincount(place[positive], minlength=size).flip(0).double()
    called = torch.bincount(place, minlength=size).flip(0).cumsum(0)
    return float((found * found.cumsum(0) / called).sum() / ones)


def macro_f1(confusion: Confusion, stay: Collection[int]) -> float | None:
    """Return the mean F1 of the labels that stay, None unless two of them have rows.

    F1 of a label is 2 TP / (2 TP + FP + FN), over rows of labels that stay. A label that no row
    has and none is predicted as is left out.

    >>> macro_f1([[3, 1, 0], [0, 4, 0], [0, 2, 0]], [0, 1, 2])  # (6/7 + 8/11 + 0) / 3
    0.5281385281385281
    """
    if sum(sum(confusion[label]) > 0 for label in stay) < 2:
        return None
    found = []
    for label in stay:
        right = confusion[label][label]
        held = sum(confusion[label])
        called = sum(confusion[other][label] for other in stay)
        if held + called:
            found.append(2 * right / (held + called))
    return sum(found) / len(found)


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
