"""What a person should know of the data before training on it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

#: A label with more than so many times the rows of another calls for balance.
UNEVEN = 3


def uneven_labels(
    labels: Tensor, names: Sequence[str], train: Tensor, balanced: bool
) -> tuple[str, ...]:
    """Say where the largest label has more than `UNEVEN` times the training rows of the smallest.

    train     the training rows
    balanced  whether the loss weighs all labels alike already

    >>> uneven_labels(torch.tensor([0, 0, 0, 1]), ["a", "b"], torch.arange(4), balanced=False)
    ()
    """
    counts = torch.bincount(labels[train], minlength=len(names))
    largest, smallest = int(counts.argmax()), int(counts.argmin())
    if balanced or counts[largest] <= UNEVEN * counts[smallest]:
        return ()
    return (
        f"Label '{names[largest]}' has {counts[largest]} training rows but '{names[smallest]}' "
        f"only {counts[smallest]}: `balance: true` under `train` weighs all labels alike.",
    )
