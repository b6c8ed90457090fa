"""Parts of rows and lists of labels that no label decides but its own.

Where bottoms are made without labels, which rows train, validate and test must not depend on
labels either: partners see it. So a row's part follows from its id alone,

    u(id, part) = BLAKE2b-64(key = seed, part | id) / 2^64,

a row is tested on where u(id, test) is below the share to test, else validated on where
u(id, validation) is below that share, and else trained on. A label that is forgotten, empty or
changed moves nobody from one part to another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from unlabel.align.normal import normalise
from unlabel.config import AlignSettings
from unlabel.data import Rows
from unlabel.data.dataset import Array
from unlabel.errors import DataError
from unlabel.train.label_record import UNKNOWN


def parts_by_id(
    ids: Array, *, test: Array | float, validation: float, seed: int, align: AlignSettings
) -> Rows:
    """Draw the parts; `test` holds the rows of an official test part, or the share to draw."""
    forms = [normalise(text, align) for text in ids.tolist()]
    tested = np.zeros(len(forms), dtype=bool)
    if isinstance(test, float):
        tested = _share(forms, "test", seed) < test
    else:
        tested[test] = True
    validated = ~tested & (_share(forms, "validation", seed) < validation)
    parts = [np.flatnonzero(some) for some in (~tested & ~validated, validated, tested)]
    if len(parts[0]) < 2 or not len(parts[2]):
        raise DataError(
            "Too few rows are left to train or to test on; change `test` and `validation`, or "
            "bring more data."
        )
    return Rows(*(torch.from_numpy(part) for part in parts))


def _share(forms: Sequence[str], part: str, seed: int) -> Array:
    """Return u(id, part) of every id."""
    key, start = str(seed).encode(), f"{part}|".encode()
    marks = (hashlib.blake2b(start + f.encode(), key=key, digest_size=8).digest() for f in forms)
    return np.frombuffer(b"".join(marks), ">u8") / 2.0**64


def expect_learnable(labels: Tensor, names: Sequence[str], train: Tensor) -> None:
    """Raise where fewer than two labels have rows to train on, before any party does anything."""
    occurring = labels[train][labels[train] >= 0].unique()
    if len(occurring) < 2:
        only = f"only label '{names[int(occurring[0])]}' has" if len(occurring) else "none has"
        raise DataError(
            f"Expected at least two labels with rows to train on but {only} any among these "
            f"{len(train)} rows; fill in more label cells.",
            code="one-label",
        )


def known_labels(
    labels: Tensor, names: Sequence[str], forgotten: Sequence[int] = ()
) -> tuple[Tensor, tuple[str, ...]]:
    """Return labels and names as if some rows never had one: only what occurs is named.

    >>> known_labels(torch.tensor([0, 2, 1, 2]), ("a", "b", "c"), [0])
    (tensor([-1,  1,  0,  1]), ('b', 'c'))
    """
    left = labels.clone()
    left[torch.tensor(list(forgotten), dtype=torch.int64)] = UNKNOWN
    stay = left[left >= 0].unique()
    numbers = torch.full((len(names) + 1,), UNKNOWN)  # the last is that of `UNKNOWN` itself
    numbers[stay] = torch.arange(len(stay))
    return numbers[left], tuple(names[number] for number in stay.tolist())
