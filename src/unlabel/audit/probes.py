"""What frozen embeddings still know of a label: the classifiers that probes are made of.

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
#: The small network: width of its hidden layer, steps and rate of Adam.
HIDDEN, STEPS, RATE = 64, 100, 1e-2


def standardised(train: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """Return (x - mean) / std of training rows and others, by mean and std of training rows."""
    mean, std = train.mean(0), train.std(0).clamp_min(1e-6)
    return tuple((x - mean) / std for x in (train, *others))


def ridge_calls(x: Tensor, labels: Tensor, test: Tensor, count: int) -> Tensor:
    """Return the labels that a ridge classifier gives test rows.

    W = argmin |X W - Y|^2 + ridge n |W|^2, with Y one column a label (+1 or -1) and a constant
    column in X. With fewer rows than columns it is solved as W = X^T (X X^T + ridge n)^-1 Y,
    which is the same.
    """
    x, test = (torch.cat([part, torch.ones_like(part[:, :1])], 1) for part in (x, test))
    y = 2 * F.one_hot(labels, count).to(x.dtype) - 1
    few = len(x) < x.shape[1]
    gram = x @ x.T if few else x.T @ x
    gram.diagonal().add_(RIDGE * len(x))
    weights = x.T @ torch.linalg.solve(gram, y) if few else torch.linalg.solve(gram, x.T @ y)
    found: Tensor = (test @ weights).argmax(1)
    return found


def nearest_calls(
    x: Tensor, labels: Tensor, test: Tensor, count: int, near: int = NEIGHBOURS
) -> Tensor:
    """Return the labels that a vote of the nearest training rows gives test rows, by cosine."""
    bank = F.normalize(x.float(), dim=1)
    near = min(near, len(bank))
    found = []
    for piece in test.split(PIECE):
        closest = (F.normalize(piece.float(), dim=1) @ bank.T).topk(near, dim=1).indices
        found.append(F.one_hot(labels[closest], count).sum(1).argmax(1))
    return torch.cat(found) if found else labels[:0]


def network_calls(x: Tensor, labels: Tensor, test: Tensor, count: int) -> Tensor:
    """Return the labels that small networks give test rows: one network a draw, all at once.

    x [draws, n, d], labels [draws, n] and test [m, d] give [draws, m].

    logits = V relu(U x + u) + v with 64 hidden units, from one seeded start, 100 steps of Adam on
    the cross-entropy of all n rows.
    """
    draws, _, width = x.shape
    random = torch.Generator().manual_seed(0)

    def start(inputs: int, outputs: int) -> Tensor:
        first = torch.randn(1, inputs, outputs, generator=random) * (2 / inputs) ** 0.5
        weights: Tensor = first.repeat(draws, 1, 1).requires_grad_()
        return weights

    inner, outer = start(width, HIDDEN), start(HIDDEN, count)
    bias = torch.zeros(draws, 1, HIDDEN, requires_grad=True)
    last = torch.zeros(draws, 1, count, requires_grad=True)

    def logits(rows: Tensor) -> Tensor:
        return (rows @ inner + bias).relu() @ outer + last

    optimiser = torch.optim.Adam([inner, outer, bias, last], lr=RATE, fused=True)
    rows = x.float()
    with torch.enable_grad():
        for _ in range(STEPS):
            optimiser.zero_grad()
            # A sum over draws, so that no draw feels the others.
            loss = F.cross_entropy(logits(rows).flatten(0, 1), labels.flatten(), reduction="sum")
            (loss / x.shape[1]).backward()
            optimiser.step()
    with torch.no_grad():
        return logits(test.float()[None]).argmax(2)


def linear_probe(train: Tensor, labels: Tensor, test: Tensor, truth: Tensor, count: int) -> float:
    """Return the accuracy of a ridge classifier on standardised embeddings."""
    x, queries = standardised(train.double(), test.double())
    found = ridge_calls(x, labels, queries, count)
    return float((found == truth).double().mean())


def nearest_probe(train: Tensor, labels: Tensor, test: Tensor, truth: Tensor, count: int) -> float:
    """Return the accuracy of a vote of the nearest training embeddings, by cosine."""
    found = nearest_calls(train, labels, test, count)
    return int((found == truth).sum()) / max(1, len(test))
