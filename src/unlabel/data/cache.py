"""Arrays of datasets in the cache folder: fetched ones, and what was made from a user's files.

A fetched dataset is known by the sha256 of its arrays, which is in its source file and compared
when the data arrives and each time the cache is read.

What was made from a user's files is named after the digest of everything it was made from: the
names of the files, their bytes, and how they were read. Changed files make another name, and a
damaged file is made again. It is as private as the files, so its owner alone can read it. It says
nothing of labels, so that one that is forgotten is not left there: the folders have them.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unlabel.data.dataset import Array
from unlabel.data.folders import LabelledFiles, reading
from unlabel.data.npz import read_arrays
from unlabel.errors import DataError, RunError
from unlabel.files import OWNER_ONLY, cache_folder, sha256, write_shared
from unlabel.progress import Watch


class Parts(NamedTuple):
    """The arrays of a dataset: features, labels, and the rows of the official test part."""

    x: Array
    y: Array
    test: Array

    @classmethod
    def join(cls, train: tuple[Array, Array], test: tuple[Array, Array]) -> Parts:
        """Put the training rows first and the test rows after them."""
        y = np.concatenate([train[1], test[1]]).astype(np.int64)
        return cls(np.concatenate([train[0], test[0]]), y, np.arange(len(train[1]), len(y)))


@dataclass(frozen=True)
class Cached:
    """The copy of one fetched dataset in the cache.

    name     the dataset's name, which names the file too
    sha256   the `digest` its arrays must have
    by_hand  how to get the data without fetching, to end a sentence with
    """

    name: str
    sha256: str
    by_hand: str

    @property
    def path(self) -> Path:
        """Return where the file lies, or will lie."""
        return cache_folder() / f"{self.name}.npz"

    def ready(self) -> bool:
        """Return whether the file is there."""
        return self.path.is_file()

    def check(self, parts: Parts) -> Parts:
        """Return `parts` if they are the pinned ones, else refuse them."""
        actual = digest(parts)
        if actual != self.sha256:
            raise DataError(
                f"The data of '{self.name}' has sha256 {actual} where {self.sha256} is expected, "
                f"so none of it was kept."
            )
        return parts

    def fetch(self, *ways: Callable[[], Parts]) -> Path:
        """Write into the cache what the first of several ways brings that is the pinned data."""
        failures = []
        for way in ways:
            try:
                parts = self.check(way())
            except DataError as error:
                failures.append(str(error))
                continue
            write_arrays(self.path, parts._asdict())
            return self.path
        raise DataError(
            f"Dataset '{self.name}' could not be fetched. {' '.join(failures)} Fetch again, or "
            f"{self.by_hand}."
        )

    def read(self) -> Parts:
        """Read the arrays back, and refuse a file that has changed since it was written."""
        if not self.ready():
            raise DataError(
                f"Dataset '{self.name}' is not in the cache '{cache_folder()}': run "
                f"`unlabel data fetch {self.name}`, or {self.by_hand}."
            )
        try:
            return self.check(Parts(**read_arrays(self.path, Parts._fields)))
        except (DataError, TypeError) as error:  # TypeError: an array is missing altogether
            raise DataError(
                f"Cache file '{self.path}' is truncated or changed: delete it and run "
                f"`unlabel data fetch {self.name}` again."
            ) from error


def write_arrays(path: Path, arrays: Mapping[str, Array], mode: int = 0o666) -> None:
    """Write arrays into a file of the cache; `mode` says who may read it, as for any file."""
    data = io.BytesIO()
    np.savez(data, allow_pickle=False, **arrays)
    try:
        write_shared(path, data.getvalue(), mode)
    except RunError as error:
        how = "with the environment variable UNLABEL_CACHE"
        raise DataError(f"{str(error).rstrip('.')} {how}.") from error


def digest(parts: Parts) -> str:
    """Return the sha256 of the arrays: names, types, shapes and little-endian bytes."""
    sha = hashlib.sha256()
    for name, array in parts._asdict().items():
        plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        sha.update(f"{name} {plain.dtype.str} {plain.shape}\n".encode())
        sha.update(plain.reshape(-1).data)
    return sha.hexdigest()


def read_files(
    name: str,
    files: LabelledFiles,
    read: Callable[[Path], Array],
    how: Mapping[str, Any],
    watch: Watch,
) -> Parts:
    """Read every file, or take what the cache holds of them.

    name   of the dataset
    read   makes an array of a file, of one shape for all
    how    everything but the file that decides what `read` returns
    watch  called with how many files are read
    """
    digests = [_digest(file) for file, _ in files.rows]
    path = cache_folder() / f"{name}-{_key(files, digests, how)[:32]}.npz"
    labels = np.array([label for _, label in files.rows], dtype=np.int64)
    order = np.argsort(digests, kind="stable")  # that of the files would tell labels apart
    try:
        # The file carries checksums of its arrays, and reading compares them.
        held = read_arrays(path, Parts._fields)
    except DataError:  # not there, or damaged
        held = {}
    if held.keys() == {"x"}:
        x = held["x"][np.argsort(order)]
    else:  # earlier versions kept the labels too
        rows = []
        for number, (file, _) in enumerate(files.rows, start=1):
            rows.append(read(file))
            watch(number, len(files.rows), file.name)
        x = np.stack(rows)
        write_arrays(path, {"x": x[order]}, OWNER_ONLY)
    return Parts(x, labels, np.arange(files.train, len(labels)))


def _digest(path: Path) -> str:
    with reading(path), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _key(files: LabelledFiles, digests: Sequence[str], how: Mapping[str, Any]) -> str:
    """Return a digest of what the arrays are made from."""
    listed = [
        [path.relative_to(files.root).as_posix(), label, content]
        for (path, label), content in zip(files.rows, digests, strict=True)
    ]
    parts = {"how": dict(how), "labels": files.labels, "train": files.train, "files": listed}
    return sha256(json.dumps(parts, sort_keys=True).encode())
