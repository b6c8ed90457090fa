"""A made table: 846 rows, 18 columns and 4 labels, as large as a classic one of vehicles."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unlabel.data.dataset import SOURCES, Dataset, Source


def load(folder: Path | None) -> Dataset:  # noqa: ARG001 - there is nothing to read
    """Return rows around two centres a label, with columns that bend and overlap."""
    from sklearn.datasets import make_classification

    x, y = make_classification(
        n_samples=846,
        n_features=18,
        n_informative=10,
        n_redundant=4,
        n_classes=4,
        n_clusters_per_class=2,
        class_sep=1.5,
        random_state=0,
    )
    bent = np.concatenate([x[:, ::2], np.tanh(x[:, 1::2])], 1).astype(np.float32)
    return Dataset("made-table", bent, y, ("bus", "opel", "saab", "van"), layout="table")


ABOUT = "a made table, 846 rows of 18 columns, 4 labels"
SOURCES.add("made-table", Source(ABOUT, load, ready=lambda: True))
