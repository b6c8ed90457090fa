"""Noise in the logits, mapped out by a top: why no defence works that way.

The gradient of a linear top's loss for a row of embeddings is delta W, with delta the gradient for
the logits (C numbers) and W the top's weights (C x d). Noise of one size on C numbers spoils less
than on d of them, so one would like to send (clip(delta) + N(0, sigma^2 I)) W. With a top that was
fixed before the request the bound of the noisy row holds. With the current top, which has moved
with the secret, every such row lies in that top's row space, whatever the noise, and gives it away.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from unlabel.defend import Gaussian
from unlabel.party import Stream

LABELS, WIDTH, ROWS, REQUESTS = 6, 24, 8, 120
LOUD = 1e6


def toy() -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
    """Return a linear top, public embeddings, and the top after a step of forgetting each label."""
    random = torch.Generator().manual_seed(0)
    top = torch.randn(LABELS, WIDTH, generator=random, dtype=torch.float64)
    embeddings = torch.randn(ROWS, WIDTH, generator=random, dtype=torch.float64)
    return top, embeddings, [top - 0.1 * deltas(top, embeddings, s).T @ embeddings for s in LABEL]


LABEL = range(LABELS)


def deltas(top: torch.Tensor, embeddings: torch.Tensor, secret: int) -> torch.Tensor:
    """Return d KL(q || p) / d logits, with q the output without the secret label."""
    p = (embeddings @ top.T).softmax(1)
    q = p * (1 - F.one_hot(torch.tensor(secret), LABELS))
    return p - q / q.sum(1, keepdim=True)


def outside(rows: torch.Tensor, top: torch.Tensor) -> float:
    """Return the share of rows that lies outside a top's row space."""
    basis = torch.linalg.qr(top.T).Q
    return float((rows - rows @ basis @ basis.T).norm() / rows.norm())


def success(top_kind: str) -> float:
    """Return how often the label is named from the second message of a request."""
    start, embeddings, moved = toy()
    noise = Gaussian(clip=1.0, sigma=LOUD)
    hits = 0
    for request in range(REQUESTS):
        secret = request % LABELS
        weights = moved[secret] if top_kind == "moving" else start
        rows = deltas(moved[secret], embeddings, secret)
        sent = noise.apply(rows, Stream(5, "toy"), request) @ weights
        guess = min(LABEL, key=lambda s: outside(sent, moved[s]))
        hits += guess == secret
    return hits / REQUESTS


def test_the_row_space_of_a_moving_top_names_the_label_at_any_noise() -> None:
    assert success("moving") == 1.0


def test_through_a_fixed_top_the_label_is_found_no_better_than_by_chance() -> None:
    # Three standard errors of a guess at chance.
    chance = 1 / LABELS
    assert abs(success("fixed") - chance) < 3 * (chance * (1 - chance) / REQUESTS) ** 0.5


def test_through_a_fixed_top_the_likelihoods_themselves_say_nothing_at_this_noise() -> None:
    """The best attack of all: the likelihood of the noisy row, which the fixed top passes on."""
    start, embeddings, moved = toy()
    hits = 0
    for request in range(REQUESTS):
        secret = request % LABELS
        clean = deltas(moved[secret], embeddings, secret)
        rows = Gaussian(1.0, LOUD).apply(clean, Stream(6, "toy"), request) @ start
        noisy = rows @ torch.linalg.pinv(start)
        means = [deltas(moved[s], embeddings, s) for s in LABEL]
        clipped = [m * (1 / m.norm(dim=1, keepdim=True).clamp_min(1)) for m in means]
        hits += secret == min(LABEL, key=lambda s: float((noisy - clipped[s]).norm()))
    assert abs(hits / REQUESTS - 1 / LABELS) < 0.11
