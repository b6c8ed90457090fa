"""All parties of a federation on one machine, each in a process of its own.

This is how a demonstration, a test or a bench runs a federation; in earnest each party's operator
starts their own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from unlabel.operate.engine import end_with_parent
from unlabel.operate.readiness import await_serving

#: Seconds for which a party may take until it serves, and until it has ended.
STARTS, ENDS = 60.0, 20.0


class Neighbours:
    """Starts `unlabel party start` for each kit, and ends it again.

    kits    folder of each party's kit, by its name
    tables  each party's table, by its name
    """

    def __init__(self, kits: Mapping[str, Path], tables: Mapping[str, Path]) -> None:
        self.kits = dict(kits)
        self.tables = dict(tables)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Neighbours:
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
        # The system takes the thread that started a process for its parent.
        main = threading.main_thread()
        with self.log(party).open("wb") as said:
            self.processes[party] = subprocess.Popen(
                [
                    *(sys.executable, "-m", "unlabel", "party", "start", str(self.kits[party])),
                    *("--data", str(self.tables[party]), "--plain"),
                ],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
                start_new_session=True,
                preexec_fn=_end_with_us if threading.current_thread() is main else None,
            )

    def wait(self, party: str) -> None:
        """Wait until a party serves; raise with its own words where it does not."""
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
        """Return where a party's words go."""
        return self.kits[party].parent / f"{party}.log"


def _end_with_us() -> None:
    """Have a party end also where this process is killed and cannot say goodbye."""
    end_with_parent(signal.SIGTERM)


def free_port() -> int:
    """Return a port of this machine that nobody uses now."""
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        return int(taken.getsockname()[1])
