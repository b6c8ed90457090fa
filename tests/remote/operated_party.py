"""A party without a network: lock, control socket, metrics, a loop that turns.

It lives in a copy of the test's own process, which has PyTorch already.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from unlabel.remote.health import Contact
from unlabel.remote.kit import Kit
from unlabel.remote.metrics import Address
from unlabel.remote.operated import Operated, operating, stopping
from unlabel.remote.request_stats import CountedTranscript, RequestStats
from unlabel.remote.serving_note import serving
from unlabel.wire import Refused, Status


class Child:
    """A copy of this process that does something; it is asked as a `subprocess.Popen` is."""

    def __init__(self, act: Callable[[], None], printed: Path) -> None:
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            try:
                act()
                os._exit(0)
            except BaseException:
                printed.write_text(traceback.format_exc())
                os._exit(1)

    def poll(self) -> int | None:
        """Return how it ended, None while it runs."""
        if self.returncode is None and (ended := os.waitpid(self.pid, os.WNOHANG))[0]:
            self.returncode = os.waitstatus_to_exitcode(ended[1])
        return self.returncode

    def wait(self, timeout: float = 60.0) -> int:
        """Wait until it has ended; return how."""
        deadline = time.monotonic() + timeout
        while (code := self.poll()) is None:
            assert time.monotonic() < deadline, "it does not end"
            time.sleep(0.005)
        return code

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)


def operate(folder: Path, told: Path, address: str | None = None) -> None:
    """Run until the party is to stop.

    told  file of JSON that says how it stands with the others; `"hangs": true` in it has its loop
          stand still
    """
    kit = Kit.open(folder)
    stats, ended = RequestStats(), threading.Event()
    kit.prepare()
    transcript = CountedTranscript(kit.home / "transcript.jsonl", stats)
    transcript.log("received", Status(0))
    transcript.log("sent", Refused(0, "no", "policy"))

    def read() -> dict[str, object]:
        found: dict[str, object] = json.loads(told.read_bytes())
        return found

    def contact() -> Contact:
        found = read()
        found.pop("hangs", None)
        return Contact(**found)  # type: ignore[arg-type]

    operated = Operated(kit, ended, contact, stats, lambda: 399)
    metrics = None if address is None else Address.of(address)
    with kit.lock(), stopping(ended), operating(operated, metrics), serving(kit.state):
        while not ended.wait(0.05):
            if not read().get("hangs"):
                operated.turn()
    transcript.flush()
