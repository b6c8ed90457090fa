"""What a step of training minimises: cross-entropy, if wished balanced over labels, or mixed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.party.randomness import Stream

#: Shares of a mixture are drawn by this stream of the active party's.
MIXING = "mixup"


@dataclass(frozen=True)
class TrainingLoss:
    """The loss of a batch with labels y, embeddings H_k and the top model F.

        plain    CE(F(H), y)
        balance  the mean of w_y CE(F(H), y) over the sum of all w_y, w_y = 1 / rows of the label y
        mixup    with i and j = p(i), p a permutation of the batch, and one l >= 1/2 a step, l or
                 1 - l drawn from Beta(mixup, mixup):
                 l CE(F(H'), y_i) + (1 - l) CE(F(H'), y_j)   where H' = l H_i + (1 - l) H_j

    Embeddings are mixed at the active party: no other learns which rows are mixed with which, and
    each gets the exact gradient of its own.

    weights  w_y by label; None weighs rows alike
    """

    stream: Stream
    mixup: float = 0.0
    weights: Tensor | None = None

    def over(self, labels: Tensor) -> TrainingLoss:
        """Return the loss of a training on these labels: where they are weighed, none else counts.

        So the weights of a training without somebody's label do not depend on it.
        """
        if self.weights is None:
            return self
        return replace(self, weights=balanced(labels, len(self.weights)).to(self.weights.device))

    def loss(
        self, top: Callable[[list[Tensor]], Tensor], embeddings: list[Tensor], y: Tensor, step: int
    ) -> tuple[Tensor, Tensor]:
        """Return the loss and the number of correct rows; a mixture counts for its larger part."""
        if not self.mixup:
            logits = top(embeddings)
            loss = F.cross_entropy(logits, y, self.weights)
        else:
            share, order = self._draw(len(y), step)
            order = order.to(y.device)
            logits = top([share * part + (1 - share) * part[order] for part in embeddings])
            first = F.cross_entropy(logits, y, self.weights)
            second = F.cross_entropy(logits, y[order], self.weights)
            loss = share * first + (1 - share) * second
        return loss, (logits.detach().argmax(1) == y).sum()

    def _draw(self, rows: int, step: int) -> tuple[float, Tensor]:
        rng = np.random.default_rng(self.stream.number(step))
        share = float(rng.beta(self.mixup, self.mixup))
        return max(share, 1 - share), torch.from_numpy(rng.permutation(rows))


def balanced(labels: Tensor, count: int) -> Tensor:
    """Return w_y = N / (C n_y) for each label with n_y of N rows; 0 for one that has none.

    >>> balanced(torch.tensor([0, 0, 0, 1]), 3)
    tensor([0.6667, 2.0000, 0.0000])
    """
    rows = torch.bincount(labels, minlength=count).float()
    present = int((rows > 0).sum())
    return torch.where(rows > 0, len(labels) / (present * rows), torch.zeros_like(rows))
