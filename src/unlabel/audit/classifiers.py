"""Small classifiers on frozen embeddings: ridge, nearest neighbours, a network, a softmax head.

They show what embeddings still know of a label: a masked output does not change it, forgetting in
the bottoms does. An audit may not ask parties to train on the retained rows alone, since what is
left out would name the rest; so all that it learns it learns here, on embeddings of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.audit.layers import told_apart
from unlabel.party.optimisers import Adam

#: Ridge of the linear probe, in units of the number of rows.
RIDGE = 1e-3
#: Queries of the nearest-neighbour probe at a time.
PIECE = 512
#: The small network: width of its hidden layer, steps and rate of Adam.
HIDDEN, STEPS, RATE = 64, 100, 1e-2
#: Rate of a head's gradient steps; on inputs of mean square 1 the loss falls with any below 2.
HEAD_RATE = 1.0


def ridge_calls(x: Tensor, labels: Tensor, test: Tensor, count: int) -> Tensor:
    """Return the labels that a ridge classifier gives test rows."""
    return ridge_scores(x, labels, test, count).argmax(1)


def ridge_scores(x: Tensor, labels: Tensor, test: Tensor, count: int) -> Tensor:
    """Return the scores [m, count] that a ridge classifier gives test rows.

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
    scores: Tensor = test @ weights
    return scores


def nearest_calls(x: Tensor, labels: Tensor, test: Tensor, count: int, near: int) -> Tensor:
    """Return the labels that a vote of the nearest training rows gives test rows, by cosine."""
    bank = F.normalize(x.float(), dim=1)
    near = min(near, len(bank))
    calls = []
    for piece in test.split(PIECE):
        closest = (F.normalize(piece.float(), dim=1) @ bank.T).topk(near, dim=1).indices
        calls.append(F.one_hot(labels[closest], count).sum(1).argmax(1))
    return torch.cat(calls) if calls else labels[:0]


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

    optimiser = Adam([inner, outer, bias, last], lr=RATE, fused=True)
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


def head_inputs(
    train: Tensor, labels: Tensor, forgotten: Sequence[int], *others: Tensor
) -> tuple[Tensor, ...]:
    """Return embeddings as `told_apart` gives them, of mean square 1 a row, with a constant column.

    So one rate fits any width, and an invertible map changes nothing.
    """
    scaled = told_apart(train, labels, forgotten, *others)
    size = scaled[0].square().sum(1).mean().sqrt().clamp_min(1e-6)
    return tuple(torch.cat([x / size, torch.ones_like(x[:, :1])], 1).float() for x in scaled)


def descend(
    head: Tensor, x: Tensor, labels: Tensor, weights: Tensor, steps: int
) -> Iterator[Tensor]:
    """Yield heads [.., d, C] after each of so many gradient steps; leading dimensions are draws.

    Loss: sum over rows i of w_i CE(x_i W, y_i), the weights w of a draw summing to 1; its gradient
    is X^T diag(w) (p - y).
    """
    target = F.one_hot(labels, head.shape[-1]).to(x.dtype)
    for _ in range(steps):
        error = ((x @ head).softmax(-1) - target) * weights[..., None]
        head = head - HEAD_RATE * (x.mT @ error)
        yield head


def balanced(labels: Tensor, count: int) -> Tensor:
    """Return a weight a row, so that every label that has rows weighs the same.

    >>> balanced(torch.tensor([0, 0, 2]), 3)
    tensor([0.2500, 0.2500, 0.5000])
    """
    rows = F.one_hot(labels, count).sum(-2)
    each = 1 / (rows * (rows > 0).sum(-1, keepdim=True)).clamp_min(1)
    return each.gather(-1, labels)
