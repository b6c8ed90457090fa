"""The same picture twice, in training and test or in one of them.

Two rows are the same where all their pixels are, whatever their labels and files are called. A test
row that was trained on says nothing about new people, so it is left out, or at least told.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from unlabel.data.dataset import Array, Dataset
from unlabel.errors import DataError


@dataclass(frozen=True)
class Repeats:
    """Which rows of a dataset are there more than once.

    test_in_train  [N] bool: a test row that stands in the training part too
    train_again    [N] bool: a training row that stands earlier in the training part too
    test_again     [N] bool: a test row that stands earlier in the test part, and not in training
    relabelled     how many of all these rows have another label than the row they repeat
    """

    test_in_train: Array
    train_again: Array
    test_again: Array
    relabelled: int


def find_repeats(x: Array, y: Array, test: Array) -> Repeats:
    """Find the rows whose bytes are those of a row before; training rows come before test rows.

    >>> x = np.array([[1], [2], [1], [2], [3]], dtype=np.uint8)
    >>> found = find_repeats(x, np.array([0, 1, 0, 0, 1]), test=np.array([3, 4]))
    >>> np.flatnonzero(found.train_again), np.flatnonzero(found.test_in_train), found.relabelled
    (array([2]), array([3]), 1)
    """
    tested = np.isin(np.arange(len(x)), test)
    in_train, train_again, test_again = (np.zeros(len(x), dtype=bool) for _ in range(3))
    first: dict[bytes, int] = {}
    relabelled = 0
    for row in np.argsort(tested, kind="stable").tolist():
        key = hashlib.sha256(x[row].tobytes()).digest()
        earlier = first.setdefault(key, row)
        if earlier == row:
            continue
        relabelled += int(y[earlier] != y[row])
        if not tested[row]:
            train_again[row] = True
        elif tested[earlier]:
            test_again[row] = True
        else:
            in_train[row] = True
    return Repeats(in_train, train_again, test_again, relabelled)


def without_repeats(dataset: Dataset) -> Dataset:
    """Leave out the test rows that stand in training too, and note what was found.

    Where a test part is still to be drawn, every row is kept once, so that no draw can put the
    same picture on both sides. Repeats within training are told and stay: they do no harm but
    to weigh a little more.
    """
    found = find_repeats(dataset.x, dataset.y, dataset.test)
    drawn = len(dataset.test) == 0
    gone = found.train_again if drawn else found.test_in_train
    notes = list(dataset.notes)
    if drawn and gone.any():
        notes.append(
            f"{gone.sum()} of {len(gone)} images stand in '{dataset.name}' already, pixel for "
            f"pixel, and are left out, so that none can be trained and tested on.{_others(found)}"
        )
    elif gone.any():
        notes.append(
            f"{gone.sum()} of the {len(dataset.test)} test images of '{dataset.name}' stand in its "
            f"training part too, pixel for pixel, and are left out.{_others(found)}"
        )
    if not drawn:
        notes += _within_training(dataset, found)
    if not drawn and gone[dataset.test].all():
        raise DataError(
            f"Dataset '{dataset.name}': all {len(dataset.test)} test images stand in its training "
            f"part too, pixel for pixel; take the test part out to have a share drawn."
        )
    kept = np.flatnonzero(~gone)
    numbers = np.cumsum(~gone) - 1
    test = dataset.test[~gone[dataset.test]]
    return replace(
        dataset, x=dataset.x[kept], y=dataset.y[kept], test=numbers[test], notes=tuple(notes)
    )


def tell_repeats(dataset: Dataset, remedy: str) -> Dataset:
    """Note the test rows that stand in training too, and leave every row where it is.

    remedy  what a person can do about them, to end a sentence with
    """
    found = find_repeats(dataset.x, dataset.y, dataset.test)
    notes = _within_training(dataset, found) if len(dataset.test) else []
    if found.test_in_train.any():
        notes = [
            f"{found.test_in_train.sum()} of the {len(dataset.test)} test rows of "
            f"'{dataset.name}' stand in its training part too, pixel for pixel, and make the test "
            f"too easy: {remedy}.",
            *notes,
        ]
    return replace(dataset, notes=(*dataset.notes, *notes))


def _within_training(dataset: Dataset, found: Repeats) -> list[str]:
    rows = len(dataset.x) - len(dataset.test)
    if not found.train_again.any():
        return []
    return [
        f"{found.train_again.sum()} of the {rows} training rows of '{dataset.name}' repeat others, "
        f"pixel for pixel; they are kept."
    ]


def _others(found: Repeats) -> str:
    """Say how many repeats contradict what they repeat."""
    if not found.relabelled:
        return ""
    return f" Of the repeats, {found.relabelled} have another label than the image they repeat."
