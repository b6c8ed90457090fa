"""The server of a passive party's own process where the engine carries: it answers what comes in.

One connection is served at a time, the newest: a job that was given up may still have a process at
this site, and what it hands in late must not move the weights under the job that came after it.
What is handed in is a session of TLS with the label holder's own process, and nothing else is
answered: who reaches this socket, or sends something through the engine, is nobody by that alone.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from unlabel.errors import RunError, WireError
from unlabel.link import Door, close, hang_up
from unlabel.remote.frames import Frame, Kind, Sealed
from unlabel.remote.kit import Kit
from unlabel.remote.registration import clocks_apart, take_revoked
from unlabel.remote.responder import Responder
from unlabel.remote.tls import RECHECK, client_context, expect_server, expect_valid, why
from unlabel.wire import Endpoint

log = logging.getLogger("unlabel.party_server")

#: Seconds between two looks at whether the server is to be closed.
LOOK = 0.25
#: Bytes that the records of TLS add to a frame, at most a hundredth.
RECORDS = 1.01


class PartyServer:
    """Serves one passive party over its local socket.

    links  folder of its sockets, where it is not the kit's own
    """

    def __init__(self, party: Endpoint, kit: Kit, links: Path | None = None) -> None:
        self.kit = kit
        self.responder = Responder(party, kit.digest, kit.agreement.server.largest)
        self._door = Door(links or kit.links, kit.name)
        self._closing = threading.Event()
        self._one_at_a_time = threading.Lock()
        # Of `_current` alone: the loop does not wait for an answer under way.
        self._changing = threading.Lock()
        self._current: Connection[bytes, bytes] | None = None
        self._checked = 0.0

    def serve(self, each: Callable[[], None] = lambda: None) -> None:
        """Serve until closed; `each` is called several times a second."""
        while not self._closing.is_set():
            connection = self._door.accept(LOOK)
            if connection is not None:
                with self._changing:
                    hang_up(self._current)
                    self._current = connection
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()
            each()

    def close(self) -> None:
        """Stop serving; an answer under way is finished first."""
        self._closing.set()
        with self._one_at_a_time, self._changing:
            hang_up(self._current)
            self._current = None
        close(self._door)

    def _answer(self, connection: Connection[bytes, bytes]) -> None:
        """Answer one job, until it ends or hands in what is not of its session."""
        server = self.kit.agreement.server
        with contextlib.ExitStack() as ending, contextlib.suppress(EOFError):
            ending.callback(self._end, connection)
            try:
                sealed = Sealed(client_context(self.kit), host=server.host)
                is_greeted = False
                while True:
                    data = connection.recv_bytes(int(server.largest * RECORDS))
                    frames = sealed.feed(data)
                    if sealed.is_open and not is_greeted:
                        expect_server(self.kit, sealed.certificate)
                        with self._one_at_a_time:  # an answer to the job before is finished first
                            sealed.seal(self.responder.hello())
                        is_greeted, sealed.most = True, server.largest
                    for frame in frames:
                        if not self._take(connection, sealed, frame):
                            return
                    connection.send_bytes(sealed.drain())
            except (OSError, WireError, RunError) as error:
                log.warning("a job of the engine was dropped: %s", why(error))

    def _end(self, connection: Connection[bytes, bytes]) -> None:
        """Close a connection; nobody hangs up on its number then, which the next one may have."""
        with self._changing:
            if self._current is connection:
                self._current = None
            close(connection)

    def _take(self, connection: Connection[bytes, bytes], sealed: Sealed, frame: Frame) -> bool:
        """Answer one frame; return whether the job is still the one that is served."""
        if frame.kind is Kind.WELCOME:
            if (sentence := clocks_apart(frame.facts(), "the label holder")) is not None:
                log.warning("%s", sentence)
            return True
        if frame.kind is Kind.REVOKED:
            if take_revoked(self.kit, frame):
                expect_valid(self.kit, sealed.certificate)
            return True
        with self._one_at_a_time:
            if connection is not self._current:
                log.info("dropped a request of a job that was given up")
                return False
            if time.monotonic() > self._checked + RECHECK:
                expect_valid(self.kit, sealed.certificate)
                self._checked = time.monotonic()
            answer = self.responder.answer(frame)
        if answer is not None:
            sealed.seal(answer)
        return True
