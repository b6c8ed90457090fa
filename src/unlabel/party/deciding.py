"""An update of a run, and decisions on its requests, keep out of each other's way.

An update reads what was forgotten, trains for as long as that takes, and replaces the run. What was
decided meanwhile would be gone with the run that it replaces. Two locks see to it (`files`):

    updating  on RUN/active/updating: held by an update until the run is replaced
    deciding  on RUN/active: held for as long as one decision, or one line of a queue, takes

Who decides looks for the first lock once he has the second, and an update that has the first waits
for the second before it reads: it knows all that was decided before, and nothing is decided after.
Who only reads needs neither. A lock goes with its process; its file may stay, and means nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from unlabel.errors import RunError
from unlabel.files import alone_in, is_at, is_locked, locked

UPDATING = "updating"


@contextlib.contextmanager
def deciding(home: Path) -> Iterator[None]:
    """Let one process at a time decide in an active party's folder; raise during an update."""
    with alone_in(home) as handle:
        expect_no_update(home)
        # After that look: else one may have ended since, and this lock is of the run it replaced.
        if not is_at(handle, home):
            raise RunError(_updated_now(home), code="in-use")
        yield


@contextlib.contextmanager
def updating(home: Path) -> Iterator[None]:
    """Have nothing decided until an update ends; raise where another is under way."""
    path = home / UPDATING
    with locked(path, lambda _: _updated_now(home)) as handle:
        if not is_at(handle, path):  # one that ended in this moment has removed the file
            raise RunError(_updated_now(home), code="in-use")
        try:
            with alone_in(home):
                pass  # who was deciding is done
            yield
        except BaseException:  # else it went with the run that was replaced
            path.unlink(missing_ok=True)
            raise


def expect_no_update(home: Path) -> None:
    """Raise where an update of the run is under way."""
    if is_locked(home / UPDATING):
        raise RunError(_updated_now(home), code="in-use")


def _updated_now(home: Path) -> str:
    return (
        f"An update of run '{home.parent}' is under way, and what is decided now would be gone "
        f"once it has ended; wait for it or stop it, then try again."
    )
