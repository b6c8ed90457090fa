"""CIFAR-100: colour pictures of 32x32 pixels with a hundred labels, from the user's folder."""

from __future__ import annotations

from pathlib import Path

from unlabel.data.cifar10 import read_batch
from unlabel.data.dataset import SOURCES, Array, Dataset, Source
from unlabel.data.fetch import Parts, check_names, read_file
from unlabel.errors import DataError

CLASSES = 100
NAMES = "fine_label_names.txt"
#: What the official archive unpacks to, and what the one of the Python version does.
BINARY, PICKLES = "cifar-100-binary", "cifar-100-python"
WHERE = (
    "download the 'CIFAR-100 binary version' from the dataset's page at the University of Toronto, "
    f"unpack it, and pass the folder that holds train.bin, test.bin and {NAMES} with `--folder`"
)


def load(folder: Path | None = None) -> Dataset:
    """Read the official binary files from the folder."""
    if folder is None:
        raise DataError(f"CIFAR-100 cannot be fetched: {WHERE}.")
    folder = folder / BINARY if (folder / BINARY).is_dir() else folder
    if (folder / PICKLES).is_dir() or (folder / "meta").is_file():
        raise DataError(
            f"Folder '{folder}' holds CIFAR-100 as Python objects, which are never loaded: {WHERE}."
        )
    parts = Parts.join(_read(folder, "train.bin"), _read(folder, "test.bin"))
    return Dataset(
        "cifar100",
        parts.x,
        parts.y,
        _read_names(folder),
        test=parts.test,
        augment="crop",
    )


def _read(folder: Path, name: str) -> tuple[Array, Array]:
    x, y = read_batch(folder, name, label_bytes=2)
    return x, y[:, 1]  # a coarse label stands before the fine one


def _read_names(folder: Path) -> tuple[str, ...]:
    path, data = read_file(folder, NAMES)
    return check_names(path, data.decode("utf-8", errors="replace").split(), CLASSES)


SOURCES.add(
    "cifar100",
    Source(
        about="things and animals, 100 labels, 50000 + 10000 colour images of 32x32 (own copy)",
        load=load,
        fetch=None,
        ready=lambda: False,
    ),
)
