"""How features and rows are shared out."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unlabel.config import ACTIVE
from unlabel.config.data import part_widths
from unlabel.data.dataset import Dataset, Layout
from unlabel.data.splits import check_split, draw_rows, split_features
from unlabel.errors import DataError, SettingsError
from unlabel.train.checks import check_batch

Array = npt.NDArray[Any]
RNG = np.random.default_rng(0)


def dataset(layout: Layout, width: int = 11) -> Dataset:
    x: Array
    if layout == "table":
        x = RNG.normal(size=(6, width)).astype(np.float32)
    else:
        shape = (6, 3, 5, width) if layout == "image" else (6, width, 5, 4)
        x = RNG.integers(0, 256, shape, dtype=np.uint8)
    return Dataset("made", x, np.arange(6) % 2, ("a", "b"), layout=layout)


# --- features ------------------------------------------------------------------------------


@pytest.mark.parametrize("active_part", [False, True])
@pytest.mark.parametrize("parties", range(1, 9))
@pytest.mark.parametrize(("layout", "axis"), [("image", 3), ("views", 1), ("table", 1)])
def test_parts_put_back_together_are_the_whole(
    layout: Layout, axis: int, parties: int, active_part: bool
) -> None:
    data = dataset(layout)
    parts = split_features(data.x, data.layout, parties, active_part=active_part)
    names = [f"passive-{number}" for number in range(1, parties + 1)]
    assert list(parts) == [ACTIVE] * active_part + names
    assert np.array_equal(torch.cat(list(parts.values()), axis).numpy(), data.x)
    widths = [part.shape[axis] for part in parts.values()]
    assert max(widths) - min(widths) <= 1
    assert all(part.is_contiguous() for part in parts.values())


def test_a_part_is_a_copy_that_the_other_parties_cannot_reach() -> None:
    data = dataset("image")
    before = data.x.copy()
    parts = split_features(data.x, data.layout, 2)
    parts["passive-1"].zero_()
    assert np.array_equal(data.x, before)
    assert np.array_equal(parts["passive-2"].numpy(), before[..., 6:])


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8))
def test_widths_cut_the_features_from_left_to_right(widths: list[int]) -> None:
    data = dataset("table", width=sum(widths) + 2)
    by_name = {f"party{number}": width for number, width in enumerate(widths)}
    starts = np.cumsum([0, *widths])
    listed = split_features(data.x, data.layout, widths)
    named = split_features(data.x, data.layout, by_name)
    assert list(named) == list(by_name)
    for first, second, start, width in zip(
        listed.values(), named.values(), starts[:-1], widths, strict=True
    ):
        assert np.array_equal(first.numpy(), data.x[:, start : start + width])
        assert torch.equal(first, second)


@given(st.integers(1, 8), st.integers(1, 40), st.booleans())
def test_even_widths_add_up_or_are_refused(parties: int, available: int, active: bool) -> None:
    if parties + active > available:
        with pytest.raises(SettingsError, match=f" {available} "):
            part_widths(parties, available, active_part=active)
        return
    widths = list(part_widths(parties, available, active_part=active).values())
    assert sum(widths) == available
    assert widths == sorted(widths, reverse=True)
    assert widths[0] - widths[-1] <= 1


def test_the_active_party_has_the_first_part() -> None:
    assert part_widths([3, 2, 1], 8, active_part=True) == {
        ACTIVE: 3,
        "passive-1": 2,
        "passive-2": 1,
    }
    assert part_widths({ACTIVE: 3, "shop": 2}, 8) == {ACTIVE: 3, "shop": 2}


@pytest.mark.parametrize(
    ("parties", "active_part", "message"),
    [
        (0, False, "got 0"),
        (9, False, "got 9"),
        ([], False, "got 0"),
        ([], True, "got -1"),
        ([4], True, "got 0"),
        ({ACTIVE: 4}, False, "got 0"),
        ([1] * 9, False, "got 9"),
        ([4, 0], False, r"\[4, 0\]"),
        ([4, -1], False, r"\[4, -1\]"),
        ([5, 5], False, r"at most 8, .*\[5, 5\]"),
        ({"a": 4, "b": 4}, True, "'active' .* a, b"),
        ({"a/b": 4}, False, "'a/b'"),
        ({"..": 4}, False, r"'\.\.'"),
        ({"": 4}, False, "''"),
    ],
)
def test_parts_that_cannot_be_cut_are_refused(
    parties: Any, active_part: bool, message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        part_widths(parties, 8, active_part=active_part)


@pytest.mark.parametrize(("layout", "fits"), [("image", "strips"), ("views", "views")])
def test_a_split_that_does_not_fit_names_the_one_that_does(layout: Layout, fits: Any) -> None:
    check_split(dataset(layout), fits)
    check_split(dataset(layout), None)
    with pytest.raises(SettingsError, match=rf"'columns'.*'{fits}'"):
        check_split(dataset(layout), "columns")


# --- rows ----------------------------------------------------------------------------------


labels_of_people = st.lists(st.integers(0, 3), min_size=20, max_size=200).filter(
    lambda labels: min(np.bincount(labels)[np.unique(labels)]) >= 5 and len(set(labels)) > 1
)


@given(labels_of_people, st.sampled_from([0.1, 0.2, 0.5]), st.sampled_from([0.0, 0.1, 0.4]))
def test_rows_are_drawn_once_each_and_each_label_in_proportion(
    people: list[int], test: float, validation: float
) -> None:
    labels = np.array(people)
    try:
        rows = draw_rows(labels, test=test, validation=validation, seed=0)
    except DataError:
        assert all(round(test * n) == 0 for n in np.bincount(labels))
        return
    parts = [rows.train, rows.validation, rows.test]
    everyone = torch.cat(parts)
    assert sorted(everyone.tolist()) == list(range(len(labels)))
    assert all(part.tolist() == sorted(part.tolist()) for part in parts)
    for label in np.unique(labels):
        count = int((labels == label).sum())
        tested = int((labels[rows.test.numpy()] == label).sum())
        validated = int((labels[rows.validation.numpy()] == label).sum())
        assert tested == round(test * count)
        assert validated == round(validation * (count - tested))


def test_the_seed_names_the_draw() -> None:
    labels = np.arange(400) % 4

    def draw(seed: int) -> list[list[int]]:
        rows = draw_rows(labels, test=0.2, validation=0.1, seed=seed)
        return [rows.train.tolist(), rows.validation.tolist(), rows.test.tolist()]

    assert draw(3) == draw(3)
    assert draw(3)[2] != draw(4)[2]
    assert draw(3)[1] != draw(4)[1]


@pytest.mark.parametrize("public", [0, 1, 3, 40])
def test_public_rows_come_out_of_the_training_rows_a_tenth_of_a_label_at_most(public: int) -> None:
    labels = np.repeat([0, 1, 2], [400, 60, 5])
    rows = draw_rows(labels, test=0.2, validation=0.1, seed=0, public=public)
    without = draw_rows(labels, test=0.2, validation=0.1, seed=0)
    assert torch.equal(rows.test, without.test)
    assert torch.equal(rows.validation, without.validation)
    together = sorted(rows.train.tolist() + rows.public.tolist())
    assert together == without.train.tolist()
    counts = np.bincount(labels[rows.public.numpy()], minlength=3).tolist()
    assert counts == [min(public, 29), min(public, 4), 0]  # of 288, 43 and 4 rows


def test_an_official_test_part_is_taken_as_it_is() -> None:
    labels = np.arange(60) % 3
    rows = draw_rows(labels, test=np.arange(40, 60), validation=0.25, seed=0)
    assert rows.test.tolist() == list(range(40, 60))
    assert len(rows.validation) == 10  # round(0.25 * 14), round(0.25 * 13) twice
    assert sorted(rows.train.tolist() + rows.validation.tolist()) == list(range(40))


@pytest.mark.parametrize(
    ("labels", "settings", "message"),
    [
        ([0, 1] * 10, {"test": 0.99}, "`validation`"),
        ([0, 1] * 10, {"validation": 0.99}, "`validation`"),
        ([0] * 18 + [1, 1], {"test": 0.8}, "`validation`"),
        ([0, 1] * 10, {"test": 0.01}, "raise `test`"),
    ],
)
def test_a_draw_that_leaves_nothing_is_refused(
    labels: list[int], settings: dict[str, float], message: str
) -> None:
    chosen: dict[str, Any] = {"test": 0.2, "validation": 0.1, **settings}
    with pytest.raises(DataError, match=message):
        draw_rows(np.array(labels), seed=0, **chosen)


def test_a_batch_of_all_training_rows_is_the_largest() -> None:
    rows = torch.arange(16)
    check_batch(16, rows, most=16)
    with pytest.raises(SettingsError, match=r"16 .* 17"):
        check_batch(17, rows, most=100)
    with pytest.raises(SettingsError, match="at most 8"):
        check_batch(9, rows, most=8)
