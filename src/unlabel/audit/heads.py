"""A linear softmax head on frozen embeddings, moved by full-batch gradient steps.

An audit may not ask parties to train on the retained rows alone: what is left out would name the
rest. So whatever it wants to learn it learns here, on embeddings of all rows that it has seen once.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.audit.probes import standardised

#: Rate of gradient steps; on inputs of mean square 1 the loss falls with any rate below 2.
RATE = 1.0


def inputs(train: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """Return standardised embeddings over sqrt(width), with a constant column.

    By the division a row's squared norm is 1 on average, so that one rate fits any width.
    """
    scaled = standardised(train.float(), *(x.float() for x in others))
    root = train.shape[1] ** 0.5
    return tuple(torch.cat([x / root, torch.ones_like(x[:, :1])], 1) for x in scaled)


def descend(
    head: Tensor, x: Tensor, labels: Tensor, weights: Tensor, steps: int, rate: float = RATE
) -> Iterator[Tensor]:
    """Yield heads [.., d, C] after each of so many gradient steps; leading dimensions are draws.

    Loss: sum over rows i of w_i CE(x_i W, y_i), the weights w of a draw summing to 1; its gradient
    is X^T diag(w) (p - y).
    """
    wanted = F.one_hot(labels, head.shape[-1]).to(x.dtype)
    for _ in range(steps):
        error = ((x @ head).softmax(-1) - wanted) * weights[..., None]
        head = head - rate * (x.mT @ error)
        yield head


def fitted(head: Tensor, x: Tensor, labels: Tensor, weights: Tensor, steps: int) -> Tensor:
    """Return the head after so many steps."""
    for moved in descend(head, x, labels, weights, steps):
        head = moved
    return head


def balanced(labels: Tensor, count: int) -> Tensor:
    """Return a weight a row, so that every label that has rows weighs the same.

    >>> balanced(torch.tensor([0, 0, 2]), 3)
    tensor([0.2500, 0.2500, 0.5000])
    """
    rows = F.one_hot(labels, count).sum(-2)
    each = 1 / (rows * (rows > 0).sum(-1, keepdim=True)).clamp_min(1)
    return each.gather(-1, labels)
