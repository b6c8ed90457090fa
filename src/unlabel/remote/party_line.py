"""A passive party's own connection to the label holder's hub.

It is opened outwards, and again whenever it breaks. What keeps it from coming about is said at the
party's own terminal and in its log, once for each reason.
"""

from __future__ import annotations

import logging
import random
import socket
import threading
import time
from collections.abc import Callable

from unlabel.errors import RunError, WireError
from unlabel.remote.frames import Kind, Line, Sealed
from unlabel.remote.health import Contact
from unlabel.remote.kit import Kit
from unlabel.remote.registration import clocks_apart, take_revoked
from unlabel.remote.responder import Responder
from unlabel.remote.tls import RECHECK, client_context, expect_server, expect_valid, why
from unlabel.wire import Endpoint
from unlabel.words import printable

log = logging.getLogger("unlabel.party_line")

#: Seconds between two looks at whether the party is to end.
LOOK = 0.25
#: Seconds that a connection may take to come about, and of silence that is too much: the hub asks
#: every few seconds.
CONNECTS, SILENT = 10.0, 30.0
#: Seconds to wait before another try, the first and the longest time; each is drawn about it.
FIRST, LONGEST = 0.25, 5.0


class PartyLine:
    """Serves one passive party over its connection to the hub.

    notify       is given what its operator should know
    since        when the connection came about, and `heard` when the hub last said anything, by a
                 clock that only runs forward; None without one
    problem      why there is none
    alarm        what was said when another process came with the party's certificate
    connections  how many came about so far
    """

    def __init__(
        self, party: Endpoint, kit: Kit, notify: Callable[[str], None] = log.warning
    ) -> None:
        self.kit = kit
        self.notify = notify
        self.responder = Responder(party, kit.digest, kit.agreement.server.largest)
        self.since: float | None = None
        self.heard: float | None = None
        self.problem = self.alarm = ""
        self.connections = 0
        self._line: Line | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="party-line", daemon=True)

    def serve(self, each: Callable[[], None] = lambda: None) -> None:
        """Serve until closed; `each` is called several times a second."""
        self._thread.start()
        while not self._closing.wait(LOOK):
            each()
        self._thread.join()

    def close(self) -> None:
        """Stop serving; an answer under way is finished first."""
        self._closing.set()
        line = self._line
        if line is not None:
            line.end()

    def contact(self) -> Contact:
        """Return whether the party is registered, and when the hub was last heard."""
        last = 0.0 if self.heard is None else time.time() - time.monotonic() + self.heard
        instance = self.responder.instance
        return Contact(self.since is not None, instance=instance, last=last, alarm=self.alarm)

    def state(self) -> str:
        """Return the same in words."""
        connected = "connected" if self.since is not None else f"not connected: {self.problem}"
        return f"{connected}; sessions served: {self.responder.jobs}"

    def _run(self) -> None:
        wait = FIRST
        while not self._closing.is_set():
            try:
                self._connect()
                self._answer()
            except (OSError, EOFError, WireError, RunError) as error:
                self._note(error)
            except Exception:
                # Nothing that comes over a connection may end the party.
                log.exception("the connection failed")
            if self.since is not None and time.monotonic() > self.since + LONGEST:
                wait = FIRST  # it was well
            if self._line is not None:
                self._line.close()
            self._line = self.since = None
            self._closing.wait(random.uniform(0.5, 1.5) * wait)  # not all at once
            wait = min(2 * wait, LONGEST)

    def _connect(self) -> None:
        server = self.kit.agreement.server
        sealed = Sealed(client_context(self.kit), host=server.host)
        plain = socket.create_connection((server.host, server.port), timeout=CONNECTS)
        self._line = line = Line(plain, sealed)
        line.shake()
        expect_server(self.kit, line.sealed.certificate)
        # From here on: what follows a welcome may arrive with it.
        line.sealed.most = server.largest
        line.send(self.responder.hello())
        reply = line.receive()
        if reply.kind is Kind.REFUSED:
            raise WireError(f"it refuses us: {printable(str(reply.facts().get('reason')))[:200]}")
        if reply.kind is not Kind.WELCOME:
            raise WireError(f"it answered our greeting with a frame {reply.kind.name}")
        plain.settimeout(SILENT)
        self.since = self.heard = time.monotonic()
        self.connections += 1
        self.problem = ""
        log.info("connected to %s:%d", server.host, server.port)
        self.notify(f"Connected to {server.host}:{server.port}.")
        if (sentence := clocks_apart(reply.facts(), "the label holder")) is not None:
            self.notify(sentence)

    def _answer(self) -> None:
        """Answer what comes until the connection ends."""
        line, checked = self._line, time.monotonic()
        assert line is not None
        while not self._closing.is_set():
            frame = line.receive()
            self.heard = time.monotonic()
            if self.heard > checked + RECHECK:
                checked = self.heard
                expect_valid(self.kit, line.sealed.certificate)
            if frame.kind is Kind.REVOKED:
                if take_revoked(self.kit, frame):
                    expect_valid(self.kit, line.sealed.certificate)
                continue
            if frame.kind is Kind.ALARM:
                self._alarm(str(frame.facts().get("address")))
                continue
            answer = self.responder.answer(frame)
            if answer is not None:
                line.send(answer)

    def _alarm(self, address: str) -> None:
        place = printable(address)[:100]
        log.warning("a second process with this party's certificate came from %s", place)
        self.alarm = (
            f"ALARM: a second process came to the label holder with this party's certificate, from "
            f"{place}, and was refused. Unless it is yours, your kit was stolen: have the "
            f"certificate revoked."
        )
        self.notify(self.alarm)

    def _note(self, error: Exception) -> None:
        """Say what is wrong, where that was not said last."""
        if self._closing.is_set():
            return
        server, reason = self.kit.agreement.server, why(error)
        log.info("not connected to %s:%d: %s", server.host, server.port, reason)
        if reason != self.problem:
            self.problem = reason
            self.notify(f"Not connected to {server.host}:{server.port}: {reason}. Trying on.")
