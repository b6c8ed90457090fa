"""That a party serves is a fact in its kit, for whoever starts it and waits for it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from unlabel.errors import RunError
from unlabel.remote.local_cluster import PORTS, await_serving, free_port
from unlabel.remote.serving_note import SERVING, serving, serving_process

#: A process that serves a kit until it is ended.
SERVES = """
import sys, time
from pathlib import Path
from unlabel.remote.serving_note import serving

with serving(Path(sys.argv[1]) / "state"):
    time.sleep(60)
"""

Start = Callable[[str], subprocess.Popen[bytes]]


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    (tmp_path / "shop" / "state").mkdir(parents=True)
    (tmp_path / "shop.log").write_bytes(b"")
    return tmp_path / "shop"


@pytest.fixture
def start(kit: Path) -> Iterator[Start]:
    started = []

    def process(program: str) -> subprocess.Popen[bytes]:
        with kit.with_suffix(".log").open("wb") as printed:
            started.append(
                subprocess.Popen(
                    [sys.executable, "-c", program, kit], stdout=printed, stderr=printed
                )
            )
        return started[-1]

    yield process
    for each in started:
        each.kill()
        each.wait()


def test_the_note_is_there_for_as_long_as_a_process_serves(kit: Path) -> None:
    state = kit / "state"
    assert serving_process(state) is None
    with serving(state):
        assert serving_process(state) == os.getpid()
        assert (state / SERVING).stat().st_mode & 0o777 == 0o600
    assert serving_process(state) is None
    with pytest.raises(RunError), serving(state):
        raise RunError("The engine ended.")
    assert list(state.iterdir()) == []


def test_waiting_ends_when_the_process_serves_and_not_before(kit: Path, start: Start) -> None:
    process = start(SERVES)
    await_serving(process, kit, kit.with_suffix(".log"), seconds=30)
    assert serving_process(kit / "state") == process.pid


def test_the_note_of_a_process_that_was_killed_is_no_other_s(kit: Path, start: Start) -> None:
    killed = start(SERVES)
    await_serving(killed, kit, kit.with_suffix(".log"), seconds=30)
    killed.kill()
    killed.wait()
    assert serving_process(kit / "state") == killed.pid
    silent = start("import time; print('Serving. Stop with Ctrl-C.', flush=True); time.sleep(60)")
    with pytest.raises(RunError, match=r"'shop'"):
        await_serving(silent, kit, kit.with_suffix(".log"), seconds=0.5)


def test_a_process_that_ends_before_it_serves_is_quoted(kit: Path, start: Start) -> None:
    process = start("import sys; sys.exit('Error: There is no table.')")
    began = time.monotonic()
    with pytest.raises(RunError, match=r"^Party 'shop' did not start: Error: There is no table\.$"):
        await_serving(process, kit, kit.with_suffix(".log"), seconds=30)
    assert time.monotonic() - began < 20


def test_a_note_that_is_no_number_is_none(kit: Path) -> None:
    for odd in (b"", b"soon", b"\xff"):
        (kit / "state" / SERVING).write_bytes(odd)
        assert serving_process(kit / "state") is None


def test_a_party_whose_disk_is_full_serves_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "state"
    blocked.write_bytes(b"")  # a file, in which nothing can be written
    with serving(blocked):
        pass
    assert "Cannot write" in caplog.text


def test_a_port_that_is_free_stays_so_until_it_is_listened_on() -> None:
    """The system gives it to nobody who calls out meanwhile, and it is given out once."""
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == 50
    with socket.create_server(("localhost", 0)) as listener, contextlib.ExitStack() as calls:
        for _ in range(50):
            caller = calls.enter_context(socket.create_connection(listener.getsockname()))
            assert caller.getsockname()[1] not in PORTS
    with socket.create_server(("localhost", ports[-1] + 1)):
        assert free_port() != ports[-1] + 1
