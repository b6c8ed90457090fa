"""Every command at a kit leaves its line: who gave it, when, and how it ended."""

from __future__ import annotations

import contextlib
import getpass
import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import typer

from unlabel.events import note

OPTION = "--federation"


def operator() -> str:
    """Return the account of whoever gives a command: its name, or its number where it has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # as in a container that runs under a number
        return str(os.getuid())


@contextlib.contextmanager
def noted(kit: Path | None) -> Iterator[None]:
    """Note that a command began at a kit, and how it ended, also where it could not begin."""
    if kit is None:
        yield
        return
    from unlabel.remote.noting import noted_as

    with noted_as(kit, operator(), _command(), code_of=_code_of):
        yield


def _code_of(error: BaseException) -> str:
    return f"status {error.exit_code}" if isinstance(error, typer.Exit) else "stopped"


def note_done(kit: Path) -> None:
    """Note that a command has changed a kit; one that was refused changes nothing, and no log."""
    from unlabel.remote.noting import DONE, log_of

    with log_of(kit):
        note("ended", operator(), command=_command(), code=DONE, seconds=0.0)


def named_kit() -> Path | None:
    """Return the kit of the active party that a command line names, None where it names none."""
    for word, following in itertools.pairwise([*sys.argv[1:], ""]):
        if word == OPTION or word.startswith(f"{OPTION}="):
            return Path(word.partition("=")[2] or following)
    return None


def _command() -> str:
    """Return the words of the command, `train` or `party backup`, and none of what it is given."""
    words = sys.argv[1 : 3 if sys.argv[1:2] in (["party"], ["federation"]) else 2]
    return " ".join(words) if all(word.isalpha() for word in words) and words else "unknown"
