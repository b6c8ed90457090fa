"""CIFAR-100: colour pictures of 32x32 pixels with a hundred labels, from the user's folder."""

from __future__ import annotations

from pathlib import Path

from unlabel.data.cache import Parts
from unlabel.data.dataset import SOURCES, Array, Dataset, Source
from unlabel.data.sources.cifar10 import read_batch
from unlabel.errors import DataError
from unlabel_bench.published import Published, read_label_names

NAMES = "fine_label_names.txt"
#: What the official archive of the Python version unpacks to.
PICKLES = "cifar-100-python"
OFFICIAL = Published(
    "cifar100",
    "download the 'CIFAR-100 binary version' from the dataset's page at the University of Toronto, "
    f"unpack it, and pass the folder that holds train.bin, test.bin and {NAMES} with `--folder`",
    inside="cifar-100-binary",
)


def load(folder: Path | None = None) -> Dataset:
    """Read the official binary files from the folder."""
    folder = OFFICIAL.folder(folder)
    if (folder / PICKLES).is_dir() or (folder / "meta").is_file():
        raise DataError(
            f"Folder '{folder}' holds CIFAR-100 as Python objects, which are never loaded: "
            f"{OFFICIAL.at}."
        )
    parts = Parts.join(_read(folder, "train.bin"), _read(folder, "test.bin"))
    labels = read_label_names(folder, NAMES, count=100)
    return Dataset("cifar100", parts.x, parts.y, labels, test=parts.test, augment="crop")


def _read(folder: Path, name: str) -> tuple[Array, Array]:
    x, y = read_batch(folder, name, label_bytes=2)
    return x, y[:, 1]  # a coarse label stands before the fine one


SOURCES.add(
    "cifar100",
    Source("things and animals, 100 labels, 50000 + 10000 colour images of 32x32 (own copy)", load),
)
