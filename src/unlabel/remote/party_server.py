"""The server of a passive party's own process: it answers what the engine hands in.

One connection is served at a time, the newest: a job that was given up may still have a process at
this site, and what it hands in late must not move the weights under the job that came after it.
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

log = logging.getLogger("unlabel.party_server")

#: Seconds between two looks at whether the server is to be closed.
LOOK = 0.25


class PartyServer:
    """Serves one passive party over its local socket."""

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
            connection = accept(self._listener, LOOK)
            if connection is not None:
                with self._one_at_a_time:
                    hang_up(self._current)
                    self._current = connection
                    self.jobs += 1
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()
            each()

    def close(self) -> None:
        """Stop serving; an answer under way is finished first."""
        self._closing.set()
        with self._one_at_a_time:
            hang_up(self._current)
            self._current = None
        close(self._listener)

    def _answer(self, connection: Connection[bytes, bytes]) -> None:
        with contextlib.closing(connection), contextlib.suppress(EOFError, OSError):
            while True:
                request = connection.recv_bytes()
                with self._one_at_a_time:
                    if connection is not self._current:
                        log.info("dropped a request of a job that was given up")
                        return
                    answer = self.party.serve(request)
                connection.send_bytes(answer)
