"""All parties of a federation on one machine, each in a process of its own.

For a demonstration, a test or a benchmark; otherwise each party's operator starts their own.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from unlabel.errors import RunError
from unlabel.remote.engine import end_with_parent
from unlabel.remote.serving_note import serving_process

#: Seconds that a party may take until it serves, and until it has ended.
STARTS, ENDS = 60.0, 20.0
#: Seconds between two looks at whether a party serves.
LOOK = 0.1
#: Ports that systems leave to those who listen, and how many were asked for.
PORTS = range(20_000, 32_768)
_ASKED = itertools.count()
#: Last characters of what a party printed that an error repeats.
PRINTED = 500


class LocalCluster:
    """Starts `unlabel party start` for each kit, and ends it again.

    kits    folder of each party's kit, by its name
    tables  each party's table, by its name
    """

    def __init__(self, kits: Mapping[str, Path], tables: Mapping[str, Path]) -> None:
        self.kits = dict(kits)
        self.tables = dict(tables)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> LocalCluster:
        try:
            for party in self.kits:
                self.start(party)
            for party in self.kits:
                self.wait(party)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, party: str) -> None:
        """Start one party."""
        # A party ends also where this process is killed and cannot stop it. The system takes the
        # thread that started a process for its parent.
        in_main_thread = threading.current_thread() is threading.main_thread()
        ends = functools.partial(end_with_parent, signal.SIGTERM) if in_main_thread else None
        with self.log(party).open("wb") as output:
            self.processes[party] = subprocess.Popen(
                self.command(party),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
                start_new_session=True,
                preexec_fn=ends,
            )

    def command(self, party: str) -> list[str]:
        """Return the command line of one party."""
        return [
            *(sys.executable, "-m", "unlabel", "party", "start", str(self.kits[party])),
            *("--data", str(self.tables[party]), "--plain"),
        ]

    def wait(self, party: str) -> None:
        """Wait until a party serves; raise with what it printed where it does not."""
        await_serving(self.processes[party], self.kits[party], self.log(party), seconds=STARTS)

    def stop(self) -> None:
        """End all parties, politely first."""
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(timeout=ENDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def log(self, party: str) -> Path:
        """Return the file of a party's output."""
        return self.kits[party].parent / f"{party}.log"


def free_port() -> int:
    """Return a port of this machine that nobody uses now, another one each time.

    None of those that the system gives to whoever calls: one that is let go of, to be listened on a
    moment later, would be gone now and then. Processes that run at once begin at different ones.
    """
    for turn in _ASKED:
        port = PORTS[(os.getpid() * 97 + turn) % len(PORTS)]
        with socket.socket() as taken, contextlib.suppress(OSError):
            taken.bind(("localhost", port))
            return port
    raise AssertionError("counting has an end")


class Process(Protocol):
    """A process that was started, as `subprocess` has it."""

    @property
    def pid(self) -> int:
        """Its id."""

    def poll(self) -> int | None:
        """Return how it ended, None while it runs."""


def await_serving(process: Process, kit: Path, printed: Path, *, seconds: float) -> None:
    """Wait until a process serves the party of a kit; raise with its output if it ends instead.

    printed  the file of that output
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if serving_process(kit / "state") == process.pid:
            return
        if process.poll() is not None:
            output = printed.read_text(encoding="utf-8", errors="replace").strip()
            raise RunError(f"Party '{kit.name}' did not start: {output[-PRINTED:]}")
        time.sleep(LOOK)
    raise RunError(f"Party '{kit.name}' did not serve within {seconds:g} seconds.")
