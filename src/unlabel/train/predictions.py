"""Predicted labels, by the names of labels and people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from unlabel.data.dataset import Array


@dataclass(frozen=True)
class Predictions:
    """Predicted labels of rows.

    ids            of the rows
    labels         the predicted label's name a row
    probabilities  [n, C], one column a label
    names          the labels' names
    truth          the true label's name a row where it is known, empty for a row whose label was
                   forgotten; None where nobody knows any
    without        parties that were down, so that others answered for them
    unknown        how many of the people asked for not every party knows
    notes          what their owner should know of how the new rows were read
    """

    ids: Array
    labels: tuple[str, ...]
    probabilities: Array
    names: tuple[str, ...]
    truth: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    unknown: int = 0
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, ids: Array, logits: Tensor, names: Sequence[str], truth: Sequence[str] | None = None
    ) -> Predictions:
        """Return what logits [n, C] say of rows.

        >>> import numpy as np, torch
        >>> Predictions.of(np.array(["a"]), torch.tensor([[2.0, 0.0]]), ("no", "yes")).labels
        ('no',)
        """
        return cls(
            ids=ids,
            labels=tuple(names[label] for label in logits.argmax(1).tolist()),
            probabilities=logits.softmax(1).cpu().numpy(),
            names=tuple(names),
            truth=None if truth is None else tuple(truth),
        )

    def __repr__(self) -> str:
        return f"<Predictions of {len(self.labels)} rows among {len(self.names)} labels>"
