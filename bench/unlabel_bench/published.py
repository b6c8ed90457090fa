"""Datasets as their authors publish them: only users can bring their files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unlabel.data.folders import LabelledFiles, find_files, read_file
from unlabel.errors import DataError


@dataclass(frozen=True)
class Published:
    """How a dataset is published that only its users can bring.

    name    of the dataset
    at      how to get its folder, to end a sentence with
    inside  name of the folder that its archive unpacks to; the user may name that or the one around
    labels  that must be there, no others; whatever is there if empty
    """

    name: str
    at: str
    inside: str = ""
    labels: tuple[str, ...] = ()

    def folder(self, named: Path | None) -> Path:
        """Return the folder with the files in the one that the user names, if any is named."""
        if named is None:
            raise DataError(f"Dataset '{self.name}' cannot be fetched: {self.at}.")
        return named / self.inside if (named / self.inside).is_dir() else named

    def files(self, named: Path | None, endings: Sequence[str]) -> LabelledFiles:
        """Find the files with one of the endings, of the published labels."""
        files = find_files(self.folder(named), endings, self.name, self.at)
        if self.labels and files.labels != self.labels:
            missing = [name for name in self.labels if name not in files.labels]
            strange = [name for name in files.labels if name not in self.labels]
            wrong = f"there is no '{missing[0]}'" if missing else f"there is '{strange[0]}' too"
            raise DataError(
                f"Folder '{files.root}': expected a folder of {' or '.join(endings)} files for "
                f"each of the {len(self.labels)} labels {', '.join(self.labels)}, but {wrong}: "
                f"{self.at}."
            )
        return files


def read_label_names(folder: Path, name: str, count: int) -> tuple[str, ...]:
    """Read the names of `count` labels from a file that has one a line."""
    path, data = read_file(folder, name)
    lines = data.decode("utf-8-sig", errors="replace").splitlines()
    names = [line.strip() for line in lines if line.strip()]
    if len(set(names)) != count or len(names) != count:
        raise DataError(
            f"File '{path}': expected {count} different names, one a line, but got {len(names)} "
            f"names, {len(set(names))} of them different: get the file again."
        )
    return tuple(names)
