"""Handwritten digits of 8x8 pixels, which scikit-learn brings along."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unlabel.data.dataset import SOURCES, Dataset, Source

LABELS = tuple("0123456789")


def load(folder: Path | None = None) -> Dataset:  # noqa: ARG001 - there is nothing to read
    """Return the 1797 images; their 17 levels of grey are spread over 0..255."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    x = np.rint(digits.images * (255 / 16)).astype(np.uint8)
    return Dataset("digits", x[:, None], digits.target.astype(np.int64), LABELS)


SOURCES.add(
    "digits",
    Source(
        about="handwritten digits, 10 labels, 1797 images of 8x8, part of scikit-learn",
        load=load,
        fetch=None,
        ready=lambda: True,
    ),
)
