"""Commands and whoever serves predictions take turns with the label holder's kit."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

import pytest
from coded import coded

from unlabel.errors import RunError
from unlabel.remote import turns
from unlabel.remote.kit import Kit
from unlabel.remote.local_cluster import serving_process
from unlabel.remote.party_home import serving


def test_a_command_waits_for_who_serves_predictions_also_where_the_hub_was_started_anew(
    kits: Path,
) -> None:
    kit = Kit.open(kits / "active")
    with kit.lock(turns.SERVING), serving(kit.state), contextlib.ExitStack() as session:
        assert serving_process(kit.state) == os.getpid()
        session.enter_context(kit.lock(turns.COMMAND))

        def give_way() -> None:
            while not turns.is_wanted(kit):
                time.sleep(0.01)
            session.close()

        threading.Thread(target=give_way, daemon=True).start()
        with turns.command_turn(kit, waits=True):
            assert not turns.is_wanted(kit)
        with pytest.raises(RunError, check=coded("in-use")), kit.lock(turns.SERVING):
            pass  # another one that serves
    refused = pytest.raises(RunError, check=coded("in-use"))
    with kit.lock(turns.COMMAND), refused, turns.command_turn(kit, waits=True):
        pass  # nobody serves: it is another command
