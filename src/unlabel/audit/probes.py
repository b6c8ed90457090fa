"""What frozen embeddings still know of a label: a linear probe and a nearest-neighbour probe.

A probe is fitted with all labels on the embeddings of training rows, and judged by its accuracy on
the test rows of the forgotten labels. A masked output does not change it; forgetting in the
bottoms does.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

#: Ridge of the linear probe, in units of the number of rows.
RIDGE = 1e-3
NEIGHBOURS = 20
#: Queries of the nearest-neighbour probe at a time.
PIECE = 512


def linear_probe(train: Tensor, labels: Tensor, test: Tensor, truth: Tensor, count: int) -> float:
    """Return the accuracy of a ridge classifier on standardised embeddings.

    W = argmin |X W - Y|^2 + ridge n |W|^2, with Y one column a label (+1 or -1) and a constant
    column in X.
    """
    mean, std = train.double().mean(0), train.double().std(0).clamp_min(1e-6)

    def ready(x: Tensor) -> Tensor:
        scaled = (x.double() - mean) / std
        return torch.cat([scaled, torch.ones_like(scaled[:, :1])], 1)

    x = ready(train)
    y = 2 * F.one_hot(labels, count).double() - 1
    gram = x.T @ x + RIDGE * len(x) * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    weights = torch.linalg.solve(gram, x.T @ y)
    found = (ready(test) @ weights).argmax(1)
    return float((found == truth).double().mean())


def nearest_probe(train: Tensor, labels: Tensor, test: Tensor, truth: Tensor, count: int) -> float:
    """Return the accuracy of a vote of the nearest training embeddings, by cosine."""
    bank = F.normalize(train.float(), dim=1)
    near = min(NEIGHBOURS, len(bank))
    right = 0
    for piece, wanted in zip(test.split(PIECE), truth.split(PIECE), strict=True):
        closest = (F.normalize(piece.float(), dim=1) @ bank.T).topk(near, dim=1).indices
        votes = F.one_hot(labels[closest], count).sum(1)
        right += int((votes.argmax(1) == wanted).sum())
    return right / max(1, len(test))


def residual(probe: float, original: float, retrained: float) -> float | None:
    """Return residual knowledge: (probe - retrained) / (original - retrained).

    1 where the embeddings know the label as the original did, 0 where they know it as a model
    does that never saw it. None where original and retrained do not differ.

    >>> round(residual(0.9, 0.94, 0.82), 2)
    0.67
    """
    return None if original == retrained else (probe - retrained) / (original - retrained)
