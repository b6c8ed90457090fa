"""Commands and who serves predictions take turns, whatever the party's own process does."""

from __future__ import annotations

import contextlib
import fcntl
import threading
import time
from pathlib import Path

import pytest

from unlabel.errors import RunError
from unlabel.remote.kit import Kit
from unlabel.remote.serving_note import serving
from unlabel.remote.turns import COMMAND, PREDICTING, WANTED, command_turn, is_wanted


def test_a_command_gets_its_turn_also_once_the_party_was_started_anew(kits: Path) -> None:
    kit = Kit.read(kits / "active")
    with kit.lock(PREDICTING), contextlib.ExitStack() as session:
        session.enter_context(kit.lock(COMMAND))

        def give_way() -> None:
            while not is_wanted(kit):
                time.sleep(0.01)
            session.close()

        with serving(kit.state):  # which notes that the party serves, and removes the note
            pass
        giving = threading.Thread(target=give_way, daemon=True)
        giving.start()
        with command_turn(kit, waits=True):
            pass
        giving.join()


def test_a_command_does_not_wait_for_another_command(kits: Path) -> None:
    kit = Kit.read(kits / "active")
    with kit.lock(COMMAND), pytest.raises(RunError) as refused, command_turn(kit, waits=True):
        pass
    assert refused.value.code == "in-use"


def test_who_looks_whether_a_command_waits_keeps_none_from_waiting(kits: Path) -> None:
    """A process that serves predictions looks at every question."""
    kit = Kit.read(kits / "active")
    with kit.lock(WANTED):
        pass
    with open(kit.state / WANTED) as look:
        fcntl.flock(look, fcntl.LOCK_SH)  # as `is_locked` has it for a moment
        ending = threading.Timer(0.02, fcntl.flock, (look, fcntl.LOCK_UN))
        ending.start()
        with kit.lock(WANTED):
            assert is_wanted(kit)
        ending.join()
