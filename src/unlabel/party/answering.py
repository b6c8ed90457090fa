"""Answers and decisions of different processes keep out of each other's way.

An answer is computed by the models of one version, and must not be given out once another version
is decided on. Two locks of the operating system (`flock`, on folders) see to it:

    answers  on RUN/active/versions: shared by each answer, from before it looks which version is
             decided until it is handed over; held alone by a process while it decides
    gate     on RUN: held alone by that process from when it begins to wait for `answers`; each
             answer passes it first, so that no stream of answers keeps a decision out

A lock goes with the process that holds it, however that ends: there is nothing to clean up, and
nobody waits for the dead.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from unlabel.errors import RunError
from unlabel.files import writing

#: Seconds for which a decision waits for answers that are under way.
PATIENCE = 30.0
#: Seconds between two looks at a lock that somebody holds.
PAUSE = 0.002
VERSIONS, MANIFEST = "versions", ".json"


@dataclass(frozen=True)
class Decided:
    """The newest version that the active party has: what is decided.

    number    of the version
    manifest  inode, time and size of its manifest, which is written once and never changed
    home      inode of the folder it lies in, which is another one after an update of the run
    """

    number: int
    manifest: tuple[int, int, int]
    home: int


def decided_in(home: Path) -> Decided | None:
    """Return what is decided by the files in an active party's folder, None before training."""
    folder = home / VERSIONS
    try:
        stems = [name.removesuffix(MANIFEST) for name in os.listdir(folder) if MANIFEST in name]
        numbers = [int(stem) for stem in stems if stem.isdecimal()]
        if not numbers:
            return None
        about = os.stat(folder / f"{max(numbers):06d}{MANIFEST}")
        lies_in = os.stat(folder).st_ino
    except OSError:  # the run is being replaced
        return None
    return Decided(max(numbers), (about.st_ino, about.st_mtime_ns, about.st_size), lies_in)


class Hold:
    """A shared lock: no version is decided on before it is released; None holds nothing."""

    def __init__(self, handle: int | None) -> None:
        self._handle = handle

    def release(self) -> None:
        """Let decisions go on; to repeat it changes nothing."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)


def hold_answers(home: Path) -> Hold:
    """Keep decisions out until an answer is handed over; raise where one is under way."""
    gate, answers = None, None
    try:
        gate = os.open(home.parent, os.O_RDONLY)
        answers = os.open(home / VERSIONS, os.O_RDONLY)
        fcntl.flock(gate, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(answers, fcntl.LOCK_SH | fcntl.LOCK_NB)
        # The folder may have been replaced before the lock was there, and nobody asks for its lock.
        if not os.path.samestat(os.fstat(answers), os.stat(home / VERSIONS)):
            raise FileNotFoundError
    except BlockingIOError as error:
        _close(answers)
        raise RunError("A request is being decided on; ask again.", code="deciding") from error
    except OSError as error:
        _close(answers)
        raise RunError(
            "There is no trained run in the folder that is served, or it is being replaced.",
            code="no-run",
        ) from error
    finally:
        _close(gate)
    return Hold(answers)


@contextlib.contextmanager
def without_answers(home: Path) -> Iterator[None]:
    """Wait until every answer is handed over, and let none begin for as long as this lasts."""
    deadline = time.monotonic() + PATIENCE
    with contextlib.ExitStack() as held:
        for folder in (home.parent, home / VERSIONS):
            with writing(folder):
                handle = os.open(folder, os.O_RDONLY)
                held.callback(os.close, handle)
            while not _taken(handle):
                if time.monotonic() > deadline:
                    raise RunError(
                        f"A process that serves predictions has not handed over an answer for "
                        f"{PATIENCE:.0f} s, so nothing was decided; end it and try again.",
                        code="in-use",
                    )
                time.sleep(PAUSE)
        yield


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _close(handle: int | None) -> None:
    if handle is not None:
        os.close(handle)
