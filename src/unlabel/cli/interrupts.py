"""What Ctrl-C does: it ends the command with one sentence on where things stand, and status 130."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from unlabel.compat import run_file
from unlabel.errors import UnlabelError

if TYPE_CHECKING:
    from unlabel.federation import Federation

#: What is said where no command knows better.
UNKNOWN = "Interrupted; `unlabel status RUN` shows where a run stands."
#: What is said where nothing was written yet, or all of it was put back.
UNCHANGED = "Interrupted; every party's model is unchanged."
#: What the second Ctrl-C is answered with.
PUTTING_BACK = b"Putting things back; press Ctrl-C once more to leave at once.\n"


class Interrupted(BaseException):
    """A person interrupted a command; the message is the sentence to leave with.

    It is no `KeyboardInterrupt`, which Typer would turn into an exit without a word.
    """


@contextlib.contextmanager
def on_interrupt(sentence: str | Callable[[], str]) -> Iterator[None]:
    """Leave with a sentence where a person interrupts what happens inside; the innermost counts.

    sentence  what to say, or a function that looks where things stand, once all is put back
    """
    try:
        yield
    except (KeyboardInterrupt, UnlabelError) as error:
        if not was_interrupted(error):
            raise
        raise Interrupted(sentence if isinstance(sentence, str) else sentence()) from error


def was_interrupted(error: BaseException | None) -> bool:
    """Return whether an error is an interrupt, or came up while one was being dealt with."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


@contextlib.contextmanager
def patient_interrupts() -> Iterator[None]:
    """Let the first Ctrl-C interrupt what happens inside, and the second wait for its end.

    What a command has begun it puts back on its way out, which an impatient second Ctrl-C is not
    to cut short; the third does, for a person must be able to leave. Where interrupts are ignored
    or somebody else handles them already, nothing is done.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    count = 0

    def interrupt(*_: object) -> None:
        nonlocal count
        count += 1
        if count == 2:
            with contextlib.suppress(OSError):
                os.write(2, PUTTING_BACK)  # standard error's own buffer may be in use right now
            return
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def standing(federation: Federation, name: str) -> Callable[[], str]:
    """Return what says where a run stands, should a command be interrupted from here on.

    name  how a person names the run on the command line
    """
    before = _files(federation)

    def sentence() -> str:
        if federation.is_remote:  # what the others have written cannot be seen from here
            return (
                f"Interrupted; where a request was under way, `unlabel recover {name}` finishes "
                f"or drops it."
            )
        request = _agreed(federation)
        if request is None:
            return (
                f"Interrupted half-way; run `unlabel recover {name}`, which finishes or drops "
                f"what was begun."
            )
        if _files(federation) == before:
            return UNCHANGED
        if request:
            return (
                f"Interrupted; request {request} is staged, so run `unlabel commit {name}` or "
                f"`unlabel rollback {name}`."
            )
        return f"Interrupted; the parties agree, and `unlabel status {name}` shows on what."

    return sentence


def training(run: Path, command: str, *, resumed: bool = False) -> Callable[[], str]:
    """Return what says how a training goes on, should it be interrupted from here on.

    command  that goes on with it
    resumed  whether the run was there before
    """
    before = _mark(run_file(run))

    def sentence() -> str:
        now = _mark(run_file(run))
        if now is None or (now == before and not resumed):
            return "Interrupted; the training had not begun, and nothing was written."
        return f"Interrupted; go on with: {command}"

    return sentence


def _mark(path: Path) -> tuple[int, int] | None:
    """Return what tells one writing of a file from another; None where there is no file."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns


def _files(federation: Federation) -> dict[str, object]:
    """Return the versions and the staged versions of every party in this process.

    They are read from the disk: to ask would be one message more in the parties' transcripts.
    """
    stores = {"active": federation.active.versions.store}
    stores |= {n: party.store for n, party in federation.passives.items() if party.store}
    return {name: (store.versions(), store.staged.versions()) for name, store in stores.items()}


def _agreed(federation: Federation) -> str | None:
    """Return the request that all parties have staged, "" for none; None where they differ."""
    from unlabel.forget import Transaction

    try:
        transaction = Transaction(federation.active)
        transaction.expect_together()
        waiting = transaction.staged()
        request = "" if waiting is None else waiting.id
        others = {stands.staged for stands in transaction.statuses().values()}
    except UnlabelError:
        return None
    return request if others <= {request} else None
