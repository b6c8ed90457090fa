"""The same picture twice, in training and test or in one of them.

Two rows are the same where all their pixels are, whatever their labels and files are called. A test
row that was trained on says nothing about new people, so it is left out, or at least noted.
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
    train_twice    [N] bool: a training row that stands earlier in the training part too
    relabelled     how many repeats, in any part, have another label than the row they repeat
    """

    test_in_train: Array
    train_twice: Array
    relabelled: int


def find_repeats(x: Array, y: Array, test: Array) -> Repeats:
    """Find the rows whose bytes are those of a row before; training rows come before test rows.

    >>> x = np.array([[1], [2], [1], [2], [3]], dtype=np.uint8)
    >>> repeats = find_repeats(x, np.array([0, 1, 0, 0, 1]), test=np.array([3, 4]))
    >>> np.flatnonzero(repeats.train_twice), np.flatnonzero(repeats.test_in_train)
    (array([2]), array([3]))
    """
    tested = np.isin(np.arange(len(x)), test)
    first: dict[bytes, int] = {}
    original = np.arange(len(x))
    for row in np.argsort(tested, kind="stable").tolist():
        original[row] = first.setdefault(hashlib.sha256(x[row].tobytes()).digest(), row)
    of_training = (original != np.arange(len(x))) & ~tested[original]
    return Repeats(of_training & tested, of_training & ~tested, int((y != y[original]).sum()))


def without_repeats(dataset: Dataset) -> Dataset:
    """Leave out the test rows that stand in training too, and note it.

    Where a test part is still to be drawn, every row is kept once, so that no draw can put the
    same picture on both sides. Repeats within training are noted and stay: they only weigh more.
    """
    repeats = find_repeats(dataset.x, dataset.y, dataset.test)
    drawn = len(dataset.test) == 0
    left_out = repeats.train_twice if drawn else repeats.test_in_train
    notes = list(dataset.notes)
    if left_out.any():
        which = (
            f"{len(left_out)} images stand in '{dataset.name}' already, pixel for pixel, and are "
            f"left out, so that none can be trained and tested on."
            if drawn
            else f"the {len(dataset.test)} test images of '{dataset.name}' stand in its training "
            f"part too, pixel for pixel, and are left out."
        )
        notes.append(f"{left_out.sum()} of {which}")
        if repeats.relabelled:
            notes[-1] += (
                f" Of the repeats, {repeats.relabelled} have another label than the image they "
                f"repeat."
            )
    if not drawn:
        notes += _within_training(dataset, repeats)
    if not drawn and left_out[dataset.test].all():
        raise DataError(
            f"Dataset '{dataset.name}': all {len(dataset.test)} test images stand in its training "
            f"part too, pixel for pixel; take the test part out to have a share drawn."
        )
    kept = np.flatnonzero(~left_out)
    test = np.flatnonzero(np.isin(kept, dataset.test))
    return replace(dataset, x=dataset.x[kept], y=dataset.y[kept], test=test, notes=tuple(notes))


def note_repeats(dataset: Dataset, remedy: str) -> Dataset:
    """Note the test rows that stand in training too, and leave every row where it is.

    remedy  what a person can do about them, to end a sentence with
    """
    repeats = find_repeats(dataset.x, dataset.y, dataset.test)
    notes = _within_training(dataset, repeats) if len(dataset.test) else []
    if repeats.test_in_train.any():
        note = (
            f"{repeats.test_in_train.sum()} of the {len(dataset.test)} test rows of "
            f"'{dataset.name}' stand in its training part too, pixel for pixel, and make the test "
            f"too easy: {remedy}."
        )
        notes.insert(0, note)
    return replace(dataset, notes=(*dataset.notes, *notes))


def _within_training(dataset: Dataset, repeats: Repeats) -> list[str]:
    count, rows = repeats.train_twice.sum(), len(dataset.x) - len(dataset.test)
    repeated = f"{count} of the {rows} training rows of '{dataset.name}' repeat others"
    return [f"{repeated}, pixel for pixel; they are kept."] if count else []
