"""Noise the request, not the gradients: bottoms that move as far as a noisy row allows.

A party must not learn which label a request is about, so the bottoms cannot be moved by the label
itself. They are moved by a row that means it only roughly:

    v = clip(onehot(u) - 1 / C) + N(0, sigma^2 I),     w = softmax(v / sigma^2)

with C labels and clip(.) a scaling to norm 1 at most; w is the posterior of each label for
an observer of v alone. Let G be a linear head fitted to the public samples of ALL labels,
H0 their embeddings before, and q_i = G(H0_i) with every label j weighed by 1 - w_j and
renormalised. All parties descend over all public samples i, of labels y_i,

    sum_i a_i KL(q_i || G(H_i))
        + hold x sum over parties of sum_i (1 - w_yi) |H_i - H0_i|^2 / |H0|^2
    a_i = w_yi / sum of w_y + 1 / n

Everything that is sent is computed from v, from G and from embeddings, none of which knows u beyond
v; G is fitted anew each time, since the model's own top knows what earlier requests were about. So
a whole request, however many messages it takes, is one release of one row of norm 1 in C
dimensions. Noise on the gradients would be paid for in every message, row and dimension.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unlabel.forget.public_set import MOST
from unlabel.forget.work import Work
from unlabel.party.optimisers import Adam

#: Largest norm of the row that says what a request is about.
CLIP = 1.0
#: How the head is fitted.
HEAD_LR, HEAD_STEPS = 1e-2, 200


def noisy_row(labels: tuple[int, ...], count: int, sigma: float, key: str) -> Tensor:
    """Return v for the labels of a request; the request's secret key decides the noise.

    NumPy's Philox makes a key of 128 bits of it; PyTorch's generators take 32, which could be
    tried out.
    """
    row = np.zeros(count)
    row[list(labels)] = 1.0
    row -= row.mean()
    norm = float(np.linalg.norm(row))
    row *= min(1.0, CLIP / norm) if norm else 1.0
    seed = np.random.SeedSequence(int(key, 16), pool_size=8)
    noise = np.random.Generator(np.random.Philox(seed)).normal(0.0, sigma, count)
    return torch.from_numpy(row + noise).float()


def belief(row: Tensor, sigma: float) -> Tensor:
    """Return w: the posterior of each label for an observer of the noisy row.

    >>> belief(torch.tensor([0.9, -0.1]), sigma=1.0)
    tensor([0.7311, 0.2689])
    """
    return (row / sigma**2).softmax(0)


def public_head(embeddings: list[Tensor], labels: Tensor, count: int) -> nn.Linear:
    """Return a linear head fitted to samples of all labels, whatever any request is about."""
    joined = torch.cat(embeddings, 1)
    head = nn.Linear(joined.shape[1], count, device=joined.device)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    optimiser = Adam(head.parameters(), lr=HEAD_LR)
    with torch.enable_grad():
        for _ in range(HEAD_STEPS):
            optimiser.zero_grad()
            F.cross_entropy(head(joined), labels).backward()
            optimiser.step()
    return head.requires_grad_(False)


class NoisyRequest:
    """Moves the bottoms by the noisy row of a request."""

    def __init__(self, work: Work, sigma: float, hold: float) -> None:
        active = work.active
        # All in one message, which every party must serve.
        public = work.public.balanced(min(MOST, active.most_rows))
        self._work, self._hold = work, hold
        self._rows, self._table = public.rows.to(active.device), public.table
        labels = self._labels = public.labels.to(active.device)
        row = noisy_row(work.labels, work.label_count, sigma, work.request.key)
        weights = belief(row, sigma).to(active.device)
        self._stays = 1 - weights
        self._kept = self._stays[labels]
        self._shares = weights[labels] / weights[labels].sum() + 1 / len(labels)
        self._start: list[Tensor] = []

    def move(self, steps: int) -> None:
        """Take joint steps: the same number, of the same shape, whatever the request is about."""
        for step in range(steps):
            self._work.move(self._rows, self._objective, mode="frozen", table=self._table)
            self._work.watch(step + 1, steps, "bottoms")

    def _objective(self, embeddings: list[Tensor]) -> Tensor:
        if not self._start:
            self._start = [values.detach().clone() for values in embeddings]
            self._head = public_head(self._start, self._labels, self._work.label_count)
            weighed = self._head(torch.cat(self._start, 1)).softmax(1) * self._stays
            self._target = weighed / weighed.sum(1, keepdim=True)
        log_p = self._head(torch.cat(embeddings, 1)).log_softmax(1)
        loss: Tensor = -(self._target * log_p).sum(1) @ self._shares
        for values, start in zip(embeddings, self._start, strict=True):
            moved = (values - start).square().sum(1) @ self._kept
            loss = loss + self._hold * moved / start.square().sum().clamp_min(1e-12)
        return loss
