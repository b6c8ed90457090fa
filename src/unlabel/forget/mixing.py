"""Manifold mixup as one matrix product: Mix(a, b) = lambda a + (1 - lambda) b.

A mixer M [m, n] has one row a mixed sample, with lambda in column i and 1 - lambda in column j.
So M H mixes the embeddings of one party, M Y the labels, and autograd gives each party the exact
gradient for its own n rows, M^T d loss / d (M H). All parties share M, hence every lambda.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

#: Mixed samples of one kind at most; beyond that as many pairs are drawn at random.
MOST = 16_384


def mixer(pairs: Tensor, lambdas: Sequence[float], count: int) -> tuple[Tensor, Tensor]:
    """Return M over `count` samples for ordered pairs [p, 2] and every lambda, and how often each
    mixed sample occurs.

    At lambda = 1/2 the pairs (i, j) and (j, i) mix to the same, which is computed once and counted
    as often as it occurs.

    >>> mixer(torch.tensor([[0, 1], [1, 0]]), (0.25, 0.5), 2)
    (tensor([[0.2500, 0.7500],
            [0.7500, 0.2500],
            [0.5000, 0.5000]]), tensor([1., 1., 2.]))
    """
    parts, times = [], []
    for share in lambdas:
        first, second = pairs.unbind(1)
        often = torch.ones(len(pairs), device=pairs.device)
        if share == 0.5:
            both, often = torch.unique(pairs.sort(1).values, dim=0, return_counts=True)
            first, second = both.unbind(1)
        matrix = torch.zeros(len(first), count, device=pairs.device)
        row = torch.arange(len(first), device=pairs.device)
        matrix[row, first] += share
        matrix[row, second] += 1 - share
        parts.append(matrix)
        times.append(often.float())
    return torch.cat(parts), torch.cat(times)


def shares(matrix: Tensor, often: Tensor, trust: Tensor) -> Tensor:
    """Return the weight of each mixed sample in a mean: how often it occurs, times the trust in
    both samples it is made of.

    >>> shares(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.ones(2), torch.tensor([1.0, 0.25]))
    tensor([0.8000, 0.2000])
    """
    both = ((matrix > 0).float() @ trust.clamp_min(1e-6).log()).exp()
    weights = often * both
    return weights / weights.sum()


def pairs_within(labels: Tensor) -> Tensor:
    """Return all ordered pairs (i, j) of samples of one label, i = j among them.

    >>> pairs_within(torch.tensor([5, 7, 5])).tolist()
    [[0, 0], [0, 2], [1, 1], [2, 0], [2, 2]]
    """
    return (labels[:, None] == labels[None, :]).nonzero()


def pairs_among(count: int, device: torch.device | None = None) -> Tensor:
    """Return all ordered pairs of `count` samples."""
    return torch.ones(count, count, device=device).nonzero()


def at_most(pairs: Tensor, lambdas: Sequence[float], generator: torch.Generator) -> Tensor:
    """Return the pairs, or as many of them at random as give no more than `MOST` mixed samples."""
    room = MOST // len(lambdas)
    if len(pairs) <= room:
        return pairs
    return pairs[torch.randperm(len(pairs), generator=generator)[:room].to(pairs.device)]
