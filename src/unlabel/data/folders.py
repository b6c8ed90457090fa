"""Files sorted into folders by label, in the ways that people publish them.

    FOLDER/LABEL/FILE                    a test share is drawn later
    FOLDER/LABEL/images/FILE             the same, with masks or other things beside the images
    FOLDER/train/LABEL/FILE              and FOLDER/test/LABEL/FILE: a test part of its own
    FOLDER/LABEL/train/FILE              and FOLDER/LABEL/test/FILE: the same

Labels stand in the alphabetical order of their folders, whatever the case of letters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from unlabel.errors import DataError

#: What folders of the two parts are called. A run draws validation rows of its own, so a folder
#: of them is more to train on.
TRAIN = ("train", "training", "val", "valid", "validation")
TEST = ("test", "testing")
#: A folder between a label and its files.
BETWEEN = "images"


@dataclass(frozen=True)
class LabelledFiles:
    """The files of a dataset.

    root    the folder that holds them
    labels  the name of each label
    rows    every file with the number of its label, training files first
    train   how many of the files are for training
    """

    root: Path
    labels: tuple[str, ...]
    rows: tuple[tuple[Path, int], ...]
    train: int


def find_files(folder: Path | None, endings: Sequence[str], name: str, at: str) -> LabelledFiles:
    """Find the files with one of the endings in the folder a user names, and their labels.

    name  of the dataset
    at    how to get its folder, to end a sentence with
    """
    if folder is None:
        raise DataError(f"Dataset '{name}' cannot be fetched: {at}.")
    if not folder.is_dir():
        raise DataError(f"Folder '{folder}' does not exist: {at}.")
    with reading(folder):
        parts = _parts(folder, endings)
    names = sorted({label for part in parts for label in part}, key=lambda n: (n.casefold(), n))
    if len(names) < 2:
        raise DataError(
            f"Folder '{folder}': expected a folder of {' or '.join(endings)} files for each of two "
            f"labels or more but found {f'that of {names[0]!r} alone' if names else 'none'}: {at}."
        )
    train, test = (
        [(path, names.index(n)) for n in names for path in part.get(n, ())] for part in parts
    )
    untrained = set(parts[1]) - set(parts[0])
    if untrained:
        raise DataError(
            f"Folder '{folder}': label '{min(untrained)}' has files to test on but none to train "
            f"on: {at}."
        )
    return LabelledFiles(folder, tuple(names), (*train, *test), len(train))


def _parts(root: Path, endings: Sequence[str]) -> tuple[dict[str, list[Path]], ...]:
    """Return the files to train on and those to test on, by label."""
    tops = _folders(root)
    by_part = any(top.name.casefold() in TRAIN for top in tops)
    parts: tuple[dict[str, list[Path]], ...] = ({}, {})
    for top in tops:
        if by_part:
            places = [(top.name, below.name, below) for below in _folders(top)]
        else:
            places = [(below.name, top.name, below) for below in _folders(top)]
            places += [(TRAIN[0], top.name, folder) for folder in (top, top / BETWEEN)]
        for part, label, folder in places:
            if part.casefold() in TRAIN + TEST:
                files = _files(folder, endings)
                parts[part.casefold() in TEST].setdefault(label, []).extend(files)
    return tuple({label: files for label, files in part.items() if files} for part in parts)


def _folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, without those that a system or an archiver left there."""
    return [
        p for p in sorted(folder.iterdir()) if p.is_dir() and not p.name.startswith((".", "__"))
    ]


def _files(folder: Path, endings: Sequence[str]) -> list[Path]:
    return [
        path
        for path in (sorted(folder.iterdir()) if folder.is_dir() else ())
        if path.suffix.casefold() in endings and not path.name.startswith(".") and path.is_file()
    ]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn a file or folder that cannot be read into one sentence about it."""
    try:
        yield
    except OSError as error:
        raise DataError(
            f"'{error.filename or path}' cannot be read ({error.strerror}): check the path and its "
            f"permissions."
        ) from error


def read_file(folder: Path, *names: str) -> tuple[Path, bytes]:
    """Read the first of the files `names` that the folder has."""
    for name in names:
        path = folder / name
        if path.is_file():
            with reading(path):
                return path, path.read_bytes()
    raise DataError(
        f"Folder '{folder}' has no file '{' or '.join(names)}': pass the folder that holds the "
        f"dataset's official files with `--folder`."
    )
