"""Objectives without labels: what they are, what leaves them unchanged, what they teach."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from unlabel.data import Features, Scaling, split_features
from unlabel.data.sources.digits import load
from unlabel.data.views import view
from unlabel.errors import ModelError, SettingsError
from unlabel.models import build_bottom
from unlabel.models.contrast import Projection, agreement, nt_xent


def drawn(*shape: int, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=draw, dtype=torch.float64)


def slow_loss(a: Sequence[Sequence[float]], b: Sequence[Sequence[float]], t: float) -> float:
    """Return the loss by its definition, number by number."""
    rows = [*a, *b]

    def similarity(i: int, k: int) -> float:
        dot = sum(x * y for x, y in zip(rows[i], rows[k], strict=True))
        return dot / math.hypot(*rows[i]) / math.hypot(*rows[k])

    total = 0.0
    for i in range(len(rows)):
        partner = (i + len(a)) % len(rows)
        below = sum(math.exp(similarity(i, k) / t) for k in range(len(rows)) if k != i)
        total -= math.log(math.exp(similarity(i, partner) / t) / below)
    return total / len(rows)


# --- the loss of two sets -------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.1, 0.2, 1.0, 7.0])
@pytest.mark.parametrize(("count", "width"), [(1, 3), (2, 1), (2, 4), (7, 5), (12, 2)])
def test_the_loss_is_its_definition(count: int, width: int, temperature: float) -> None:
    a, b = drawn(2, count, width)
    expected = slow_loss(a.tolist(), b.tolist(), temperature)
    assert nt_xent(a, b, temperature).item() == pytest.approx(expected, rel=1e-12)
    assert nt_xent(a.float(), b.float(), temperature).item() == pytest.approx(expected, rel=1e-4)


def test_two_rows_worked_by_hand() -> None:
    rows = torch.eye(2)
    # Similarities: 1 to the partner, 0 to the two others.
    hand = -math.log(math.e / (math.e + 2))
    assert nt_xent(rows, rows, 1.0).item() == pytest.approx(hand)
    # The partners are swapped: 0 to the partner, 1 and 0 to the others.
    assert nt_xent(rows, rows.flip(0), 1.0).item() == pytest.approx(math.log(2 + math.e))
    # At half the temperature similarities count double.
    hand = -math.log(math.e**2 / (math.e**2 + 2))
    assert nt_xent(rows, rows, 0.5).item() == pytest.approx(hand)


def test_a_single_row_has_nothing_to_be_told_from() -> None:
    assert nt_xent(drawn(1, 4), drawn(1, 4, seed=1)).item() == pytest.approx(0)


def test_gradients_are_those_of_differences() -> None:
    a, b = (part.requires_grad_() for part in drawn(2, 5, 3))
    assert torch.autograd.gradcheck(nt_xent, (a, b))
    third = drawn(5, 3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(lambda *parts: agreement(parts), (a, b, third))


def test_only_the_directions_of_rows_count_and_not_their_order() -> None:
    a, b = drawn(2, 9, 4)
    loss = nt_xent(a, b)
    scales = drawn(9, 1, seed=1).abs() + 0.1
    torch.testing.assert_close(nt_xent(a * scales, b / scales), loss)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(nt_xent(a[order], b[order]), loss)
    torch.testing.assert_close(nt_xent(b, a), loss)
    turn = torch.linalg.qr(drawn(4, 4, seed=2)).Q
    torch.testing.assert_close(nt_xent(a @ turn, b @ turn), loss)


def test_rows_beside_their_partners_have_a_lower_loss_than_shuffled_ones() -> None:
    a = drawn(64, 16)
    near = a + 0.1 * drawn(64, 16, seed=1)
    assert nt_xent(a, near) < nt_xent(a, near.roll(1, 0)) - 2
    assert nt_xent(a, a) < nt_xent(a, near)


def test_rows_that_all_lie_in_one_place_have_the_loss_of_guessing() -> None:
    same = torch.ones(8, 3)
    assert nt_xent(same, same).item() == pytest.approx(math.log(15))


def test_blank_rows_and_large_ones_have_finite_gradients() -> None:
    a, b = torch.zeros(4, 3, requires_grad=True), torch.full((4, 3), 1e18, requires_grad=True)
    nt_xent(a, b, 0.01).backward()
    for part in (a, b):
        assert part.grad is not None
        assert part.grad.isfinite().all()


def test_the_loss_is_float32_under_autocast_and_for_halves() -> None:
    a, b = drawn(2, 32, 8).float()
    with torch.autocast("cpu", torch.bfloat16):
        loss = nt_xent(a, b)
    assert torch.equal(loss, nt_xent(a, b))
    halves = nt_xent(a.bfloat16(), b.bfloat16())
    assert halves.dtype == torch.float32
    torch.testing.assert_close(halves, nt_xent(a.bfloat16().float(), b.bfloat16().float()))


@pytest.mark.parametrize("other", [(3, 4), (4, 3)])
def test_sets_of_two_shapes_are_refused(other: tuple[int, int]) -> None:
    with pytest.raises(ModelError) as caught:
        nt_xent(torch.ones(4, 4), torch.ones(other))
    assert caught.value.code == "model"


# --- agreement of parties -------------------------------------------------------------------


def test_agreement_is_the_mean_over_pairs_of_parties() -> None:
    one, two, three = drawn(3, 6, 4)
    torch.testing.assert_close(agreement([one, two], 0.5), nt_xent(one, two, 0.5))
    pairs = [nt_xent(one, two, 0.3), nt_xent(one, three, 0.3), nt_xent(two, three, 0.3)]
    torch.testing.assert_close(agreement([one, two, three], 0.3), sum(pairs) / torch.tensor(3.0))
    torch.testing.assert_close(agreement([three, one, two], 0.3), agreement([one, two, three], 0.3))


@pytest.mark.parametrize("count", [0, 1])
def test_a_party_alone_cannot_agree(count: int) -> None:
    with pytest.raises(SettingsError) as caught:
        agreement([torch.ones(4, 2)] * count)
    assert caught.value.code == "settings"


def test_the_gradient_of_agreement_brings_two_parties_together() -> None:
    parts = [part.requires_grad_() for part in drawn(2, 16, 8)]
    before = agreement(parts)
    optimiser = torch.optim.SGD(parts, lr=5)
    for _ in range(50):
        optimiser.zero_grad()
        agreement(parts).backward()
        optimiser.step()
    assert agreement(parts) < before / 4
    one, other = (nn.functional.normalize(part, dim=1) for part in parts)
    assert ((one @ other.T).argmax(1) == torch.arange(16)).all()


# --- the head -------------------------------------------------------------------------------


def test_a_projection_is_two_layers_with_a_normalised_one_between() -> None:
    head = Projection(64)
    assert [type(part) for part in head] == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear]
    assert head(torch.randn(4, 64)).shape == (4, 128)
    assert (
        sum(weights.numel() for weights in head.parameters())
        == 64 * 512 + 3 * 512 + 512 * 128 + 128
    )


# --- what bottoms learn -----------------------------------------------------------------------


def test_halves_of_digits_that_learn_to_agree_can_be_told_from_fewer_labels() -> None:
    torch.manual_seed(0)
    digits = load()
    train, test = torch.randperm(len(digits.y)).split(1280)
    halves = [Features(part) for part in split_features(digits.x, "image", 2).values()]
    scalings = [Scaling.fit(half, train) for half in halves]
    bottoms = [build_bottom("convnet", half.shape) for half in halves]
    heads = nn.ModuleList(Projection(64) for _ in range(4))
    labels = torch.from_numpy(digits.y)
    some = torch.cat([train[labels[train] == label][:5] for label in range(10)])

    def embed(rows: Tensor) -> Tensor:
        parts = zip(halves, scalings, bottoms, strict=True)
        return torch.cat([b.eval()(s.apply(h.values[rows])) for h, s, b in parts], 1).detach()

    def probe() -> float:
        linear = LogisticRegression(C=0.1, max_iter=500).fit(embed(some), labels[some])
        return float(linear.score(embed(test), labels[test]))

    before = probe()
    optimiser = torch.optim.Adam(nn.ModuleList([*bottoms, heads]).parameters(), lr=2e-3)
    for _ in range(10):
        for rows in train[torch.randperm(len(train))].split(256):
            losses, shared = [], []
            for k, half in enumerate(halves):
                x = scalings[k].apply(view(half, rows.repeat(2), flip=False))
                embeddings = bottoms[k].train()(x)
                losses.append(nt_xent(*heads[k](embeddings).chunk(2)))
                shared.append(heads[2 + k](embeddings)[: len(rows)])
            optimiser.zero_grad()
            (sum(losses) + agreement(shared)).backward()
            optimiser.step()
    assert probe() > before + 0.05
