"""A party's rows on their way to its model: gathered, cropped and scaled."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from unlabel.data.features import CROP, Features, Scaling, random_crop
from unlabel.errors import DataError

Array = npt.NDArray[Any]
RNG = np.random.default_rng(0)


def images(*shape: int) -> torch.Tensor:
    return torch.from_numpy(RNG.integers(0, 256, shape, dtype=np.uint8))


# --- gathering -----------------------------------------------------------------------------


@given(st.lists(st.integers(0, 8), max_size=20))
def test_a_batch_has_the_named_rows_in_the_named_order(rows: list[int]) -> None:
    values = images(9, 1, 2, 3)
    index = torch.tensor(rows, dtype=torch.int64)
    assert torch.equal(Features(values).batch(index, augment=True), values[index])


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_features_that_are_no_numbers_are_refused(bad: float) -> None:
    with pytest.raises(DataError):
        Features(torch.tensor([[1.0, bad]]))


def test_only_training_batches_are_augmented() -> None:
    values = images(64, 1, 9, 9)
    features = Features(values, augment="crop-flip").to(torch.device("cpu"))
    rows = torch.arange(64)
    assert (len(features), features.shape) == (64, (1, 9, 9))
    assert torch.equal(features.batch(rows, augment=False), values)
    assert not torch.equal(features.batch(rows, augment=True), values)


# --- cropping ------------------------------------------------------------------------------


def crops(image: Array, *, flip: bool) -> list[Array]:
    """Return every crop of the image padded by its mirror image, by brute force."""
    _, height, width = image.shape
    down, across = min(CROP, height - 1), min(CROP, width - 1)
    padded = np.pad(image, ((0, 0), (down, down), (across, across)), mode="reflect")
    found = [
        padded[:, top : top + height, left : left + width]
        for top in range(2 * down + 1)
        for left in range(2 * across + 1)
    ]
    return found + [crop[..., ::-1] for crop in found] if flip else found


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("shape", [(3, 12, 12), (1, 8, 4), (1, 8, 1), (2, 5, 3), (1, 1, 6)])
def test_a_crop_only_moves_pixels_and_mirrors_them_at_the_edges(
    shape: tuple[int, int, int], flip: bool
) -> None:
    batch = images(40, *shape)
    found = random_crop(batch, flip=flip)
    assert (found.shape, found.dtype) == (batch.shape, batch.dtype)
    for image, cropped in zip(batch.numpy(), found.numpy(), strict=True):
        assert any(np.array_equal(cropped, crop) for crop in crops(image, flip=flip))


def test_every_shift_occurs_and_half_of_the_images_are_turned() -> None:
    torch.manual_seed(0)
    one = torch.arange(144, dtype=torch.uint8).view(1, 1, 12, 12)
    found = random_crop(one.expand(6000, -1, -1, -1), flip=True).numpy()
    seen = {crop.tobytes() for crop in found}
    possible = {crop.tobytes() for crop in crops(one[0].numpy(), flip=True)}
    assert len(possible) == 2 * 9 * 9
    assert seen == possible
    upright = {crop.tobytes() for crop in crops(one[0].numpy(), flip=False)}
    assert np.mean([crop.tobytes() in upright for crop in found]) == pytest.approx(0.5, abs=0.03)


def test_images_of_one_batch_are_shifted_one_by_one() -> None:
    torch.manual_seed(0)
    same = torch.arange(144, dtype=torch.uint8).view(1, 1, 12, 12).expand(50, -1, -1, -1)
    assert len({crop.tobytes() for crop in random_crop(same, flip=False).numpy()}) > 20


# --- scaling -------------------------------------------------------------------------------


def fit(values: Array, rows: list[int] | None = None) -> Scaling:
    chosen = torch.arange(len(values)) if rows is None else torch.tensor(rows)
    return Scaling.fit(Features(torch.from_numpy(values)), chosen)


def test_a_tables_columns_are_scaled_as_scikit_learn_does() -> None:
    values = (RNG.normal(size=(5000, 4)) * [1, 50, 1e-3, 7] + [0, 100, 1, -40]).astype(np.float32)
    rows = RNG.permutation(5000)[:4500].tolist()  # more than one piece
    scaling = fit(values, rows)
    known = StandardScaler().fit(values[rows].astype(np.float64))
    assert np.allclose(scaling.mean.numpy().ravel(), known.mean_, rtol=1e-6)
    assert np.allclose(scaling.std.numpy().ravel(), known.scale_, rtol=1e-5)
    scaled = scaling.apply(torch.from_numpy(values)).numpy()
    assert np.allclose(scaled, known.transform(values.astype(np.float64)), atol=1e-4)


def test_images_are_scaled_by_channel() -> None:
    values = images(30, 3, 5, 4)
    scaling = fit(values.numpy())
    assert scaling.mean.shape == scaling.std.shape == (1, 3, 1, 1)
    numbers = values.numpy().astype(np.float64)
    assert np.allclose(scaling.mean.numpy().ravel(), numbers.mean((0, 2, 3)))
    assert np.allclose(scaling.std.numpy().ravel(), numbers.std((0, 2, 3)))
    scaled = scaling.apply(values)
    assert scaled.dtype == torch.float32
    assert torch.allclose(scaled.mean((0, 2, 3)), torch.zeros(3), atol=1e-5)
    assert torch.allclose(scaled.std((0, 2, 3), correction=0), torch.ones(3), atol=1e-5)


@given(
    st.lists(
        st.lists(st.floats(-1e3, 1e3, width=32), min_size=3, max_size=3), min_size=2, max_size=30
    )
)
def test_scaling_agrees_with_numpy_or_leaves_a_constant_column_alone(table: list[Any]) -> None:
    values = np.array(table, dtype=np.float32)
    scaling = fit(values)
    numbers = values.astype(np.float64)
    for column in range(3):
        mean, std = numbers[:, column].mean(), numbers[:, column].std()
        assert scaling.mean[0, column].item() == pytest.approx(mean, rel=1e-5, abs=1e-6)
        if std > 1e-3 * max(abs(mean), 1e-3):
            assert scaling.std[0, column].item() == pytest.approx(std, rel=1e-4)
        if std == 0:
            assert scaling.std[0, column].item() == 1
    assert torch.isfinite(scaling.apply(torch.from_numpy(values))).all()


@pytest.mark.parametrize("value", [0.0, 1.0, -3.7, 1e6, 123456.7, 1e-9])
def test_a_constant_column_becomes_zero(value: float) -> None:
    scaling = fit(np.full((1000, 1), value, dtype=np.float32))
    assert scaling.std.item() == 1
    scaled = scaling.apply(torch.full((3, 1), value))
    assert scaled.abs().max().item() <= 1e-6 * abs(value)


def test_a_column_that_hardly_differs_at_all_stays_finite() -> None:
    """The smallest float32 there is: its deviation has no place in one."""
    values = np.array([[0.0], [1e-45]], dtype=np.float32)
    scaling = fit(values)
    assert scaling.std.item() == 1
    assert torch.isfinite(scaling.apply(torch.from_numpy(values))).all()


def test_only_the_named_rows_count() -> None:
    values = np.array([[0.0], [2.0], [1000.0]], dtype=np.float32)
    scaling = fit(values, [0, 1])
    assert (scaling.mean.item(), scaling.std.item()) == (1, 1)


def test_a_date_in_seconds_keeps_its_deviation() -> None:
    seconds = torch.linspace(1.7e9, 1.7e9 + 3000, 400, dtype=torch.float64)[:, None]
    features = Features(torch.cat([seconds, torch.full_like(seconds, 0.1)], 1))
    scaled = Scaling.fit(features, torch.arange(400)).apply(features.values)
    assert scaled.dtype == torch.float32
    assert scaled[:, 0].std(correction=0) == pytest.approx(1.0, abs=1e-4)
    assert scaled[:, 1].abs().max() < 1e-6
