"""Commands and a process that serves predictions take turns with the kit of a label holder.

command     held by whoever has the session with the parties
wanted      held by a command that waits for its turn; who predicts gives the session up then
predicting  held by a process that serves predictions for as long as it lives
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from unlabel.errors import RunError
from unlabel.files import is_locked
from unlabel.remote.kit import Kit

#: PREDICTING is not the note `serving`, which the label holder's own process replaces.
COMMAND, WANTED, PREDICTING = "command", "wanted", "predicting"
#: Seconds for which a command waits for its turn: longer than one answer takes.
PATIENCE = 90.0
PAUSE = 0.05


@contextlib.contextmanager
def command_turn(kit: Kit, *, waits: bool) -> Iterator[None]:
    """Hold the kit for a command.

    waits  until a process that serves predictions has given way, where that is who holds it
    """
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(kit.lock(COMMAND))
        except RunError:
            if not waits or not is_locked(kit.state / PREDICTING):
                raise
            held.enter_context(_after_serving(kit))
        yield


@contextlib.contextmanager
def _after_serving(kit: Kit) -> Iterator[None]:
    deadline = time.monotonic() + PATIENCE
    with contextlib.ExitStack() as held:
        with kit.lock(WANTED):  # raises where another command waits already
            while True:
                try:
                    held.enter_context(kit.lock(COMMAND))
                    break
                except RunError:
                    if time.monotonic() > deadline:
                        raise
                time.sleep(PAUSE)
        yield


def is_wanted(kit: Kit) -> bool:
    """Return whether a command waits for its turn."""
    return is_locked(kit.state / WANTED)
