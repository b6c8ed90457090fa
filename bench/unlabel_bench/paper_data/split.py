"""A split into training and test part that is the same each time, and what is there repeatedly."""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unlabel.data.dataset import Array
from unlabel.files import write_atomically

SEED = 0


def keys_of(x: Array) -> list[bytes]:
    """Return a fingerprint of each row: the same where all of its numbers are."""
    return [hashlib.sha256(np.ascontiguousarray(row).tobytes()).digest() for row in x]


def draw_test(keys: Sequence[bytes], y: Array, share: float, seed: int = SEED) -> Array:
    """Return a mask of test rows: round(share * n) of the n rows of each label.

    Rows whose key is there more than once all stay in training, so that no row stands on both
    sides, whatever the labels of its copies are.

    >>> mask = draw_test([b"a", b"a", b"b", b"c"], np.array([0, 0, 0, 0]), share=0.5)
    >>> mask.tolist()
    [False, False, True, True]
    """
    times = Counter(keys)
    single = np.array([times[key] == 1 for key in keys])
    draw = np.random.default_rng(seed)
    mask = np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        rows = np.flatnonzero((y == label) & single)
        mask[draw.permutation(rows)[: round(share * (y == label).sum())]] = True
    return mask


def count_repeats(keys: Sequence[bytes], y: Array) -> dict[str, int]:
    """Count the groups of equal rows, the rows beyond the first of each, and groups of two labels.

    >>> count_repeats([b"a", b"a", b"b", b"a"], np.array([0, 0, 0, 1]))
    {'groups': 1, 'repeats': 2, 'groups_of_several_labels': 1}
    """
    labels: dict[bytes, list[int]] = {}
    for key, label in zip(keys, y.tolist(), strict=True):
        labels.setdefault(key, []).append(label)
    groups = [members for members in labels.values() if len(members) > 1]
    return {
        "groups": len(groups),
        "repeats": sum(len(members) - 1 for members in groups),
        "groups_of_several_labels": sum(len(set(members)) > 1 for members in groups),
    }


def count_labels(y: Array, test: Array, classes: Sequence[str]) -> dict[str, list[int]]:
    """Return how many training and test rows each label has."""
    return {
        name: [int(((y == label) & ~test).sum()), int(((y == label) & test).sum())]
        for label, name in enumerate(classes)
    }


def write_arrays(
    path: Path, x: Array, y: Array, test: Array, classes: Sequence[str], **more: Array
) -> dict[str, Any]:
    """Write both parts into an `.npz` file of plain arrays; return what is in it."""
    y = y.astype(np.uint8)
    stream = io.BytesIO()
    arrays: dict[str, Any] = {
        "x_train": x[~test],
        "y_train": y[~test],
        "x_test": x[test],
        "y_test": y[test],
        "classes": np.array(classes),
        **more,
    }
    np.savez_compressed(stream, **arrays)
    write_atomically(path, stream.getvalue())
    return {
        "file": path.name,
        "bytes": stream.tell(),
        "shape": list(x.shape[1:]),
        "train": int((~test).sum()),
        "test": int(test.sum()),
        "labels": count_labels(y, test, classes),
    }
