"""Files sorted into folders by label, in the ways that people publish them.

    FOLDER/LABEL/FILE                    a test share is drawn later
    FOLDER/LABEL/images/FILE             the same, with masks or other things beside the images
    FOLDER/train/LABEL/FILE              and FOLDER/test/LABEL/FILE: a test part of its own
    FOLDER/LABEL/train/FILE              and FOLDER/LABEL/test/FILE: the same

Labels stand in the alphabetical order of their folders, whatever the case of letters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
class Found:
    """The files of a dataset.

    root    the folder that they were found in
    labels  the name of each label
    rows    every file with the number of its label, training files first
    train   how many of the files are for training
    """

    root: Path
    labels: tuple[str, ...]
    rows: tuple[tuple[Path, int], ...]
    train: int


def find_files(
    folder: Path,
    endings: Sequence[str],
    *,
    inside: str = "",
    labels: Sequence[str] = (),
    at: str = "check `folder`",
) -> Found:
    """Find the files with one of the endings, and their labels.

    inside  name of the folder that the official archive unpacks to; `folder` may hold it or be it
    labels  the labels that must be there, no others; whatever is there if empty
    at      what to do where it is not so, to end a sentence with
    """
    root = folder / inside if inside and (folder / inside).is_dir() else folder
    if not root.is_dir():
        raise DataError(f"Folder '{root}' does not exist: {at}.")
    try:
        parts = _parts(root, endings)
    except OSError as error:
        raise DataError(
            f"Folder '{error.filename or root}' cannot be read ({error.strerror}): check its "
            f"permissions."
        ) from error
    names = sorted({label for part in parts for label in part}, key=lambda n: (n.casefold(), n))
    if labels and names != list(labels):
        missing = [name for name in labels if name not in names]
        strange = [name for name in names if name not in labels]
        wrong = f"there is no '{missing[0]}'" if missing else f"there is '{strange[0]}' too"
        raise DataError(
            f"Folder '{root}': expected a folder of {_listed(endings)} files for each of the "
            f"{len(labels)} labels {', '.join(labels)}, but {wrong}: {at}."
        )
    if len(names) < 2:
        raise DataError(
            f"Folder '{root}': expected a folder of {_listed(endings)} files for each of two "
            f"labels or more but found {f'that of {names[0]!r} alone' if names else 'none'}: {at}."
        )
    train, test = (
        [(path, names.index(n)) for n in names for path in part.get(n, ())] for part in parts
    )
    if test and set(parts[1]) - set(parts[0]):
        only = min(set(parts[1]) - set(parts[0]))
        raise DataError(
            f"Folder '{root}': label '{only}' has files to test on but none to train on: {at}."
        )
    return Found(root, tuple(names), (*train, *test), len(train))


def _parts(root: Path, endings: Sequence[str]) -> tuple[dict[str, list[Path]], ...]:
    """Return the files to train on and those to test on, by label."""
    tops = _folders(root)
    by_part = any(top.name.casefold() in TRAIN for top in tops)
    found: tuple[dict[str, list[Path]], ...] = ({}, {})
    for top in tops:
        for below in _folders(top):
            part, label = (top, below) if by_part else (below, top)
            which = _which(part.name)
            if which is not None:
                _add(found[which], label.name, _files([below], endings))
        if not by_part:
            _add(found[0], top.name, _files([top, top / BETWEEN], endings))
    return found


def _which(part: str) -> int | None:
    name = part.casefold()
    return 0 if name in TRAIN else 1 if name in TEST else None


def _add(part: dict[str, list[Path]], label: str, files: Iterable[Path]) -> None:
    found = [*part.get(label, ()), *files]
    if found:
        part[label] = found


def _folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, without those that a system or an archiver left there."""
    return [
        p for p in sorted(folder.iterdir()) if p.is_dir() and not p.name.startswith((".", "__"))
    ]


def _files(folders: Iterable[Path], endings: Sequence[str]) -> list[Path]:
    return [
        path
        for folder in folders
        if folder.is_dir()
        for path in sorted(folder.iterdir())
        if path.suffix.casefold() in endings and not path.name.startswith(".") and path.is_file()
    ]


def _listed(endings: Sequence[str]) -> str:
    return " or ".join(endings)
