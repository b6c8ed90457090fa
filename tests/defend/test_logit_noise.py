"""Noise in the logits: a moving top gives the label away at any noise, a fixed one does not."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from unlabel.defend import LogitNoise
from unlabel.errors import SettingsError
from unlabel.party import Stream
from unlabel.party.noise import normal

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


def found(top_kind: str) -> float:
    """Return how often the label is named from the second message of a request."""
    start, embeddings, moved = toy()
    mechanism = LogitNoise(clip=1.0, sigma=LOUD, top=top_kind)  # type: ignore[arg-type]
    hits = 0
    for request in range(REQUESTS):
        secret = request % LABELS
        weights = moved[secret] if top_kind == "moving" else start
        rows = deltas(moved[secret], embeddings, secret)
        sent = mechanism.apply(rows, weights, Stream(5, "toy"), request)
        guess = min(LABEL, key=lambda s: outside(sent, moved[s]))
        hits += guess == secret
    return hits / REQUESTS


def test_the_row_space_of_a_moving_top_names_the_label_at_any_noise() -> None:
    assert found("moving") == 1.0


def test_through_a_fixed_top_the_label_is_found_no_better_than_by_chance() -> None:
    # Three standard errors of a guess at chance.
    chance = 1 / LABELS
    assert abs(found("fixed") - chance) < 3 * (chance * (1 - chance) / REQUESTS) ** 0.5


def test_through_a_fixed_top_the_likelihoods_themselves_say_nothing_at_this_noise() -> None:
    """The best attack of all: the likelihood of the noisy row, which the fixed top passes on."""
    start, embeddings, moved = toy()
    hits = 0
    for request in range(REQUESTS):
        secret = request % LABELS
        rows = LogitNoise(1.0, LOUD, "fixed").apply(
            deltas(moved[secret], embeddings, secret), start, Stream(6, "toy"), request
        )
        noisy = rows @ torch.linalg.pinv(start)
        means = [deltas(moved[s], embeddings, s) for s in LABEL]
        clipped = [m * (1 / m.norm(dim=1, keepdim=True).clamp_min(1)) for m in means]
        hits += secret == min(LABEL, key=lambda s: float((noisy - clipped[s]).norm()))
    assert abs(hits / REQUESTS - 1 / LABELS) < 0.11


def test_rows_are_clipped_noised_and_mapped_in_this_order() -> None:
    weights = torch.tensor([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0]], dtype=torch.float64)
    rows = torch.tensor([[3.0, 4.0], [0.3, 0.0]], dtype=torch.float64)
    stream = Stream(1, "hand")
    sent = LogitNoise(clip=1.0, sigma=0.5, top="fixed").apply(rows, weights, stream, 2)
    clipped = torch.tensor([[0.6, 0.8], [0.3, 0.0]], dtype=torch.float64)
    assert torch.allclose(sent, (clipped + 0.5 * normal(stream, 2, rows)) @ weights)


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(SettingsError, match="Unknown top 'still'"):
        LogitNoise(1.0, 1.0, "still")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="`clip` to be above 0"):
        LogitNoise(0.0, 1.0, "fixed")
