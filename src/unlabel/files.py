"""Files that are either wholly there or not there at all."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from unlabel.errors import RunError

#: The settings of a run, as a person writes them and as the run's folder keeps them.
RUN_FILE = "run.yaml"
#: In the same folder: the note that revokes exported tops (`export/form.py`).
EXPORTS = "exports.json"
#: Beside a run's folder: what an update makes of the run, also of one that was killed.
DRAFT = "update"
#: Mode of a file that its owner alone may read.
OWNER_ONLY = 0o600
#: The file in a kit's state whose lock is held by the process that keeps the party running.
LOCK = "lock"
#: Seconds for which somebody who only looks whether a file is locked may hold its lock.
LOOKING = 0.05


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn a full, read-only or missing disk into one sentence about `path`."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"Cannot write '{path}': {error.strerror or error}; free some room or choose another "
            f"folder.",
            code="not-written",
        ) from error


def write_atomically(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a file so that a crash leaves the old content or the new, never a part of it.

    `mode` says who may read a new file, less what the user's umask takes away.
    """
    # One fixed name beside the target, so that a crash leaves at most one stray file behind.
    draft = path.with_name(path.name + ".part")
    with writing(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft.unlink(missing_ok=True)  # one of another mode, that a crash left
            with open(draft, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
            sync_folder(path.parent)
        except BaseException:  # also where a person interrupts it
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise


def write_shared(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Write a file of a cache that another process may be writing now; the last one stays."""
    draft = path.with_name(f"{os.getpid()}-{path.name}")
    write_atomically(draft, data, mode)
    with writing(path):
        draft.replace(path)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder as durable as the files they point to."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[int]:
    """Let one process at a time into a block, by a lock on a folder that is there; others wait.

    Give a handle of the folder.
    """
    with writing(folder):
        handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)  # which also lets the lock go


@contextlib.contextmanager
def locked(path: Path, taken: Callable[[str], str]) -> Iterator[int]:
    """Hold the lock of a file inside the block, or raise where another process holds it.

    Give a handle of the file.

    taken  says so in a sentence; it is given the number of that process, "" if it is not known
    """
    with writing(path):
        # Not truncated: it holds the number of the process that has the lock.
        handle = os.open(path, os.O_RDWR | os.O_CREAT, OWNER_ONLY)
    try:
        deadline = time.monotonic() + LOOKING
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() > deadline:
                    holder = os.pread(handle, 32, 0).decode("ascii", "replace").strip()
                    raise RunError(taken(holder), code="in-use") from error
            time.sleep(LOOKING / 20)
        with writing(path):
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield handle
    finally:
        os.close(handle)  # which also lets the lock go


def is_at(handle: int, path: Path) -> bool:
    """Tell whether what a handle is of still lies at a path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of a file."""
    try:
        handle = os.open(path, os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def beside(run: Path, what: str) -> Path:
    """Return the folder beside a run's in which an update keeps something while it lasts."""
    path = run.resolve()
    return path.with_name(f".{path.name}.{what}")


def cache_folder() -> Path:
    """Return the folder of what can be had again: $UNLABEL_CACHE, else the user's cache folder."""
    chosen = os.environ.get("UNLABEL_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "unlabel"


def sha256(data: bytes) -> str:
    """Return the SHA-256 digest in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
