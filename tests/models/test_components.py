"""Whitened principal components: what they are, and what the fit must not depend on."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save
from torch import Tensor

from unlabel.errors import SettingsError
from unlabel.models import embedding_width
from unlabel.models.components import KNOTS, RIDGE, Components, Scale
from unlabel.models.registry import fit_parts

SCALES: tuple[Scale, ...] = ("standard", "quantile")


def table(rows: int = 500, columns: int = 6, seed: int = 0) -> Tensor:
    """Make correlated columns of mean 0 and deviation 1."""
    generator = torch.Generator().manual_seed(seed)
    mixed = torch.randn(rows, columns, generator=generator)
    mixed = mixed @ torch.randn(columns, columns, generator=generator)
    return (mixed - mixed.mean(0)) / mixed.std(0)


def fitted(
    rows: Tensor, *, piece: int = 0, width: float = 0.5, scale: Scale = "standard"
) -> Tensor:
    """Fit, in pieces if asked to, and embed the same rows."""
    model = Components(tuple(rows.shape[1:]), width=width, scale=scale)
    model.fit(rows.split(piece or len(rows)))
    embeddings: Tensor = model(rows)
    return embeddings


def signed_like(embeddings: Tensor, other: Tensor) -> Tensor:
    return other * (embeddings * other).sum(0).sign()


def test_two_columns_by_hand() -> None:
    # Around (3, 7): 5 (0.8, 0.6) and 2.5 (0.6, -0.8), both ways. These directions are orthogonal,
    # with variances 2 * 5^2 / 3 and 2 * 2.5^2 / 3; the largest loading of the second is the other.
    rows = torch.tensor([[4.0, 3.0], [-4.0, -3.0], [1.5, -2.0], [-1.5, 2.0]]) + torch.tensor([3, 7])
    first, second = 50 / 3, 12.5 / 3
    one, other = (first * (1 + RIDGE)) ** -0.5, (second + RIDGE * first) ** -0.5
    model = Components((2,), width=1.0)
    model.fit([rows])
    assert model.mean.tolist() == [3, 7]
    expected = torch.tensor([[0.8 * one, -0.6 * other], [0.6 * one, 0.8 * other]])
    torch.testing.assert_close(model.projection, expected)
    expected = torch.tensor([[5 * one, 0], [-5 * one, 0], [0, -2.5 * other], [0, 2.5 * other]])
    torch.testing.assert_close(model(rows), expected)
    narrow = Components((2,))
    narrow.fit([rows])
    torch.testing.assert_close(narrow(rows), expected[:, :1])


@pytest.mark.parametrize("width", [0.34, 1.0])
def test_it_is_the_pca_of_scikit_learn(width: float) -> None:
    from sklearn.decomposition import PCA

    rows = table()
    embeddings = fitted(rows, width=width)
    pca = PCA(embeddings.shape[1], whiten=True, svd_solver="full")
    expected = torch.from_numpy(pca.fit_transform(rows.double().numpy()))
    torch.testing.assert_close(
        embeddings.double(), signed_like(embeddings, expected), rtol=1e-3, atol=1e-3
    )


def test_it_is_what_a_singular_value_decomposition_gives_on_rows_it_was_not_fitted_to() -> None:
    rows, others = table(seed=1).double().numpy(), table(50, seed=2)
    model = Components((6,))
    model.fit([torch.from_numpy(rows)])
    mean = rows.mean(0)
    _, values, vectors = np.linalg.svd(rows - mean, full_matrices=False)
    expected = (others.double().numpy() - mean) @ vectors[:3].T / values[:3] * math.sqrt(499)
    embeddings = model(others)
    expected = signed_like(embeddings, torch.from_numpy(expected)).float()
    torch.testing.assert_close(embeddings, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("scale", SCALES)
def test_embeddings_are_white_and_in_the_order_of_their_variance(scale: Scale) -> None:
    embeddings = fitted(table(2000), width=1.0, scale=scale)
    torch.testing.assert_close(embeddings.T.cov(), torch.eye(6), rtol=1e-2, atol=1e-2)
    assert embeddings.mean(0).abs().max() < 1e-4


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 200), st.sampled_from(SCALES), st.integers(0, 1000))
def test_a_fit_in_pieces_is_a_fit_at_once(piece: int, scale: Scale, seed: int) -> None:
    rows = table(200, 4, seed)
    at_once, in_pieces = fitted(rows, scale=scale), fitted(rows, piece=piece, scale=scale)
    torch.testing.assert_close(in_pieces, at_once, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("scale", SCALES)
def test_the_same_rows_give_the_same_bits(scale: Scale) -> None:
    rows = table()
    assert torch.equal(fitted(rows, piece=64, scale=scale), fitted(rows, piece=64, scale=scale))


def test_signs_do_not_depend_on_the_order_of_rows() -> None:
    rows = table()
    torch.testing.assert_close(fitted(rows), fitted(rows.flip(0)).flip(0), rtol=1e-3, atol=1e-3)
    model = Components((6,))
    model.fit([rows])
    largest = model.projection.abs().argmax(0, keepdim=True)
    assert (model.projection.gather(0, largest) > 0).all()


def test_two_loadings_of_one_size_leave_the_sign_to_the_first() -> None:
    column = torch.randn(100, 1)
    for opposite in (torch.cat([column, -column], 1), torch.cat([-column, column], 1)):
        model = Components((2,))
        model.fit([opposite])
        assert model.projection[0] > 0
        assert model.projection[1] < 0


@pytest.mark.parametrize("scale", SCALES)
def test_constant_and_repeated_columns_do_not_explode(scale: Scale) -> None:
    rows = table(columns=3)
    rows = torch.cat([rows, rows, torch.full((500, 2), 0.1)], 1)
    model = Components((8,), width=1.0, scale=scale)
    model.fit([rows])
    embeddings = model(rows)
    assert embeddings.isfinite().all()
    assert embeddings[:, 3:].abs().max() < 0.01
    torch.testing.assert_close(embeddings[:, :3].std(0), torch.ones(3), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("rows", [torch.full((7, 4), 0.1), torch.ones(1, 4), torch.ones(0, 4)])
def test_rows_that_are_all_alike_have_nothing_to_say(scale: Scale, rows: Tensor) -> None:
    model = Components((4,), scale=scale)
    model.fit([table(columns=4)])
    model.fit([rows])
    assert torch.equal(model(table(columns=4)), torch.zeros(500, 2))


def test_a_column_far_from_zero_keeps_its_variance() -> None:
    rows = (table(columns=3) * torch.tensor([1024.0, 2048.0, 4096.0])).round()
    model = Components((3,), width=1.0)
    model.fit(rows.split(50))
    shifted = Components((3,), width=1.0)
    shifted.fit((rows + 2**20).split(50))
    torch.testing.assert_close(shifted.projection, model.projection, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("shape", "width", "expected"),
    [
        ((1,), 0.5, 1),
        ((7,), 0.5, 3),
        ((8,), 0.5, 4),
        ((100,), 0.29, 29),  # a product of 28.999..
        ((10,), 0.05, 1),
        ((10,), 1.0, 10),
        ((3, 4, 5), 0.5, 30),
    ],
)
def test_the_width_is_a_share_of_the_columns(
    shape: tuple[int, ...], width: float, expected: int
) -> None:
    model = Components(shape, width=width)
    assert embedding_width(model, shape) == expected == model.width
    assert torch.equal(model(torch.randn(3, *shape)), torch.zeros(3, expected))  # not fitted yet


def test_images_are_flattened() -> None:
    rows = table(columns=12)
    images = rows.view(-1, 3, 2, 2)
    assert torch.equal(fitted(images), fitted(rows))


@pytest.mark.parametrize("width", [0.0, -0.5, 1.01, math.nan])
def test_a_width_that_is_no_share_is_refused(width: float) -> None:
    with pytest.raises(SettingsError):
        Components((4,), width=width)


def test_an_unknown_scale_is_refused_with_the_nearest() -> None:
    expected = "'quantiles'.*'quantile'"
    with pytest.raises(SettingsError, match=expected):
        Components((4,), scale="quantiles")  # type: ignore[arg-type]


# --- normal scores -------------------------------------------------------------------------


def scores(columns: Tensor, rows: Tensor | None = None) -> Tensor:
    """Return the normal scores of single columns, fitted to some rows."""
    model = Components((1,), scale="quantile")
    model.fit([columns if rows is None else rows])
    # Undo mean and whitening: what is left is u.
    embeddings: Tensor = model(columns)
    return embeddings / model.projection + model.mean


def test_normal_scores_are_roughly_those_of_scikit_learn() -> None:
    from sklearn.preprocessing import QuantileTransformer

    values = torch.from_numpy(np.random.default_rng(0).lognormal(size=(5000, 1))).float()
    transformer = QuantileTransformer(
        n_quantiles=KNOTS, output_distribution="normal", subsample=None
    )
    expected = torch.from_numpy(transformer.fit_transform(values.double().numpy())).float()
    inside = expected.abs() < 2.5
    torch.testing.assert_close(scores(values)[inside], expected[inside], rtol=0, atol=0.1)
    assert scores(values).abs().max() < 2.9  # where scikit-learn has outliers at 5.2


def test_normal_scores_by_hand() -> None:
    # 257 values are their own knots; value k has the score of (k + 1/2) / 257.
    values = torch.arange(257.0)[:, None] ** 3
    expected = torch.special.ndtri((torch.arange(257.0) + 0.5) / 257)[:, None]
    torch.testing.assert_close(scores(values), expected, rtol=1e-4, atol=1e-5)
    middle = (values[100] + values[101]) / 2
    torch.testing.assert_close(
        scores(middle[None], values)[0], (expected[100] + expected[101]) / 2, rtol=1e-4, atol=1e-5
    )


def test_an_indicator_has_two_scores_in_the_middle_of_its_ties() -> None:
    values = (torch.arange(1000) >= 900).float()[:, None]
    low, high = scores(values)[[0, 999], 0].tolist()
    edge = -2.8861  # Phi^-1(1 / 514)
    assert low == pytest.approx((edge + 1.2816) / 2, abs=0.02)
    assert high == pytest.approx((1.2816 - edge) / 2, abs=0.02)


numbers = st.lists(st.floats(-1e6, 1e6, width=32), min_size=2, max_size=40)


@settings(deadline=None, max_examples=100)
@given(numbers, numbers)
def test_normal_scores_keep_the_order_and_are_bounded(seen: list[float], new: list[float]) -> None:
    model = Components((1,), scale="quantile")
    model.fit([torch.tensor(seen)[:, None]])
    if not model.projection.any():  # all alike
        return
    embeddings = model(torch.tensor(sorted(new))[:, None])[:, 0]
    assert (embeddings.diff() >= 0).all()
    bound = (2.9 + model.mean.abs()) * model.projection
    assert (embeddings.abs() <= bound).all()


# --- state ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES)
def test_the_state_is_the_whole_model(scale: Scale) -> None:
    rows = table()
    model, other = Components((6,), scale=scale), Components((6,), scale=scale)
    before = {name: tensor.shape for name, tensor in model.state_dict().items()}
    fit_parts(model, lambda: rows.split(100))
    assert {name: tensor.shape for name, tensor in model.state_dict().items()} == before
    assert all(tensor.dtype == torch.float32 for tensor in model.state_dict().values())
    assert list(model.parameters()) == []
    other.load_state_dict(load(save(model.state_dict())))
    assert torch.equal(other(rows), model(rows))
    assert torch.equal(copy.deepcopy(model)(rows), model(rows))


def test_mixed_precision_does_not_round_the_embeddings() -> None:
    rows = table()
    model = Components((6,))
    model.fit([rows])
    with torch.autocast("cpu", torch.bfloat16):
        mixed = model(rows)
    assert torch.equal(mixed, model(rows))
