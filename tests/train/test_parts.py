"""Parts of rows that follow from ids alone, labels that are numbered as if some never were."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from coded import coded
from hypothesis import given
from hypothesis import strategies as st

from unlabel.config import AlignSettings
from unlabel.data import Rows
from unlabel.data.dataset import Array
from unlabel.errors import DataError
from unlabel.train.parts import expect_learnable, known_labels, parts_by_id

IDS = np.array([f"P-{number}" for number in range(2000)])


def drawn(ids: Array = IDS, seed: int = 0, test: Array | float = 0.2) -> Rows:
    return parts_by_id(ids, test=test, validation=0.1, seed=seed, align=AlignSettings())


def named(ids: Array, rows: torch.Tensor) -> set[str]:
    return set(ids[rows.numpy()].tolist())


def test_shares_are_those_that_were_asked_for_and_every_row_has_one_part() -> None:
    rows = drawn()
    assert abs(len(rows.test) / len(IDS) - 0.2) < 0.03
    assert abs(len(rows.validation) / len(IDS) - 0.1 * 0.8) < 0.03
    every = torch.cat((rows.train, rows.validation, rows.test))
    assert every.sort().values.tolist() == list(range(len(IDS)))


def test_other_rows_and_another_order_move_nobody() -> None:
    rows, some = drawn(), np.random.default_rng(0).permutation(IDS)[:900]
    fewer = drawn(some)
    for part in ("train", "validation", "test"):
        before = named(IDS, getattr(rows, part)) & set(some.tolist())
        assert named(some, getattr(fewer, part)) == before


def test_another_seed_draws_others_and_an_official_test_part_stays() -> None:
    assert not torch.equal(drawn(seed=1).test, drawn().test)
    official = np.array([3, 5, 8])
    assert drawn(test=official).test.tolist() == [3, 5, 8]


def test_too_few_rows_are_refused() -> None:
    with pytest.raises(DataError):
        drawn(IDS[:2])


@given(
    labels=st.lists(st.integers(-1, 4), min_size=1, max_size=30),
    data=st.data(),
)
def test_labels_are_numbered_as_if_the_forgotten_rows_never_had_one(
    labels: list[int], data: st.DataObject
) -> None:
    names = tuple("abcde")
    forgotten = data.draw(st.lists(st.integers(0, len(labels) - 1), unique=True))
    numbers, left = known_labels(torch.tensor(labels), names, forgotten)
    texts = [(*names, "")[label] for label in labels]
    expected = ["" if row in forgotten else text for row, text in enumerate(texts)]
    assert [(*left, "")[number] for number in numbers.tolist()] == expected
    assert left == tuple(sorted(set(expected) - {""}))
    renumbered, same = known_labels(numbers, left, forgotten)
    assert same == left
    assert torch.equal(renumbered, numbers)


@pytest.mark.parametrize("labels", [[0, 0, 0, 1], [0, 0, -1, 1], [-1, -1, -1, 1]])
def test_fewer_than_two_labels_to_train_on_are_refused(labels: list[int]) -> None:
    with pytest.raises(DataError, check=coded("one-label")):
        expect_learnable(torch.tensor(labels), ("a", "b"), torch.arange(3))
    expect_learnable(torch.tensor([0, 1, -1]), ("a", "b"), torch.arange(3))
