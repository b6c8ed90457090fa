"""The process in which a passive party lives: it answers what the engine hands in.

One line is served at a time, the newest: a job that was given up may still have a process at this
site, and what it hands in late must not move the weights under the job that came after it.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from unlabel.link import accept, close, hang_up, listen
from unlabel.wire import Endpoint

log = logging.getLogger("unlabel.office")

#: Seconds between two looks at whether the office is to be closed.
LOOK = 0.25


class Office:
    """Serves one passive party over lines of its house."""

    def __init__(self, party: Endpoint, links: Path, name: str) -> None:
        self.party = party
        self.jobs = 0
        self._listener = listen(links, name)
        self._closing = threading.Event()
        self._one_at_a_time = threading.Lock()
        self._current: Connection[bytes, bytes] | None = None

    def serve(self, each: Callable[[], None] = lambda: None) -> None:
        """Serve until closed; `each` is called several times a second."""
        while not self._closing.is_set():
            line = accept(self._listener, LOOK)
            if line is not None:
                self._take(line)
            each()

    def close(self) -> None:
        """Stop serving; an answer under way is finished first."""
        self._closing.set()
        with self._one_at_a_time:
            hang_up(self._current)
            self._current = None
        close(self._listener)

    def _take(self, line: Connection[bytes, bytes]) -> None:
        with self._one_at_a_time:
            hang_up(self._current)
            self._current = line
            self.jobs += 1
        threading.Thread(target=self._answer, args=(line,), name="line", daemon=True).start()

    def _answer(self, line: Connection[bytes, bytes]) -> None:
        with contextlib.closing(line), contextlib.suppress(EOFError, OSError):
            while True:
                request = line.recv_bytes()
                with self._one_at_a_time:
                    if line is not self._current:
                        log.info("dropped a request of a job that was given up")
                        return
                    answer = self.party.serve(request)
                line.send_bytes(answer)
