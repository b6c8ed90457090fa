"""Handwritten digits of 8x8 pixels, which scikit-learn brings along."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unlabel.data.dataset import SOURCES, Dataset, Source

LABELS = tuple("0123456789")


def load(folder: Path | None = None) -> Dataset:  # noqa: ARG001 - there is nothing to read
    """Return the 1797 images; their 17 levels of grey are spread over 0..255."""
    levels, labels = _digits()
    x = np.rint(levels * (255 / 16)).astype(np.uint8)
    return Dataset("digits", x[:, None], labels.astype(np.int64), LABELS)


@functools.cache
def _digits() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return images and labels as they are; their text takes longer to read than small models."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return bunch.images, bunch.target


ABOUT = "handwritten digits, 10 labels, 1797 images of 8x8, part of scikit-learn"
SOURCES.add("digits", Source(ABOUT, load, ready=lambda: True))
