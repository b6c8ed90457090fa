"""What was made from a user's own files, kept in the cache so that the next run need not wait.

A file of the cache is named after its data and the digest of everything it was made from: the names
of the files, their bytes, and how they were read. Times are not looked at: archives give all their
files one. Changed files make another name, so nothing old is taken for new, and a damaged file is
made again. They are as private as what they were made from, so their owner alone can read them. All
of them can be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from unlabel.data.dataset import Array, Dataset, Pictures, Source, Watch, watch_nothing
from unlabel.data.fetch import Parts, cache_folder, keep_arrays
from unlabel.data.folders import Found
from unlabel.data.npz import read_arrays
from unlabel.errors import DataError
from unlabel.files import OWNER_ONLY, sha256


def prepare(
    name: str, found: Found, read: Callable[[Path], Array], how: Mapping[str, Any], watch: Watch
) -> Parts:
    """Read every file that was found, or take what the cache keeps of them.

    name   of the dataset
    read   makes an array of a file, of one shape for all
    how    everything but the file that decides what `read` returns
    watch  is told how many files are read
    """
    key = _key(found, how)
    path = cache_folder() / f"{name}-{key[:32]}.npz"
    kept = _kept(path)
    if kept is not None:
        return kept
    rows = []
    for number, (file, _) in enumerate(found.rows, start=1):
        rows.append(read(file))
        watch(number, len(found.rows), file.name)
    labels = np.array([label for _, label in found.rows], dtype=np.int64)
    parts = Parts(np.stack(rows), labels, np.arange(found.train, len(labels)))
    keep_arrays(path, parts, OWNER_ONLY)
    return parts


def own_copy(about: str, draw: Callable[[Path | None, Pictures, Watch], Dataset]) -> Source:
    """Return the source of data whose files only the user can bring."""
    return Source(
        about=f"{about} (own copy)",
        load=lambda folder: draw(folder, Pictures(), watch_nothing),
        fetch=None,
        ready=lambda: False,
        draw=draw,
    )


def _kept(path: Path) -> Parts | None:
    """Return what the cache keeps, None where that is nothing or damaged."""
    try:
        # The file carries checksums of its arrays, and reading holds them against these.
        return Parts(**read_arrays(path, Parts._fields))
    except (DataError, TypeError):  # TypeError: an array is missing
        return None


def _key(found: Found, how: Mapping[str, Any]) -> str:
    """Return a digest of what the arrays are made from."""
    files = []
    for path, label in found.rows:
        try:
            with path.open("rb") as file:
                bytes_of = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise DataError(
                f"File '{path}' cannot be read ({error.strerror}): check its permissions."
            ) from error
        files.append([path.relative_to(found.root).as_posix(), label, bytes_of])
    told = {"how": dict(how), "labels": found.labels, "train": found.train, "files": files}
    return sha256(json.dumps(told, sort_keys=True).encode())
