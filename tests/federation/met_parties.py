"""A hub and the parties that are connected to it, all in threads of this process."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from unlabel.data import ACTIVE
from unlabel.link import join, split
from unlabel.remote.connect import keep_table
from unlabel.remote.frames import Frame, Kind, Line, Sealed, stating
from unlabel.remote.hub import Hub
from unlabel.remote.hub_sessions import HubSessions
from unlabel.remote.kit import Kit
from unlabel.remote.party_home import open_party
from unlabel.remote.party_line import PartyLine
from unlabel.remote.registration import welcome
from unlabel.remote.tls import client_context, server_context
from unlabel.wire import Describe, Done, Endpoint, Message, decode, encode


class Echo:
    """A party that has nothing to say, and notes the steps of what it is asked."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    def handle(self, message: Message) -> Message:
        """Take note."""
        self.steps.append(message.step)
        return Done(message.step)

    def serve(self, data: bytes) -> bytes:
        """Answer as a party does."""
        return encode(self.handle(decode(data)))


class Holder:
    """The label holder's end of a session, whose bytes somebody else carries."""

    def __init__(self, kit: Kit, carry: Callable[[bytes], bytes]) -> None:
        self._carry = carry
        self._sealed = Sealed(server_context(kit))
        self._calls = 0
        while not (frames := self._sealed.feed(carry(self._sealed.drain()))):
            pass
        self.hello = frames[0].facts()
        self._sealed.seal(welcome())

    def sealed_request(self, *steps: int, epoch: int = 1, call: int | None = None) -> bytes:
        """Return the next request as it travels."""
        self._calls += 1
        body = join([encode(Describe(step)) for step in steps])
        self._sealed.seal(Frame(Kind.REQUEST, body, epoch, self._calls if call is None else call))
        return self._sealed.drain()

    def ask(self, *steps: int, **place: Any) -> None:
        """Send requests and take the answers."""
        (answer,) = self._sealed.feed(self._carry(self.sealed_request(*steps, **place)))
        found = [decode(each) for each in split(answer.body)]
        assert [(type(each), each.step) for each in found] == [(Done, step) for step in steps]


def line_of(kit: Kit, **hello: Any) -> Line:
    """Connect to the hub as a party that says what it likes."""
    line = Line(
        socket.create_connection(("localhost", kit.agreement.server.port), timeout=5),
        Sealed(client_context(kit), host="localhost"),
    )
    line.shake()
    line.sealed.most = 2**20
    line.send(stating(Kind.HELLO, **{"protocol": 1, "instance": "mine", **hello}))
    return line


@contextlib.contextmanager
def hub_of(kit: Kit, said: list[str] | None = None) -> Iterator[Hub]:
    """Run the hub of an active party, as `unlabel party start` does."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(kit.lock())
        hub = Hub(kit, notify=(said if said is not None else []).append)
        stack.callback(hub.stop)
        sessions = HubSessions(hub)
        stack.callback(sessions.stop)
        hub.start()
        sessions.start()
        yield hub


@contextlib.contextmanager
def joined(party: Endpoint, kit: Kit, said: list[str] | None = None) -> Iterator[PartyLine]:
    """Run the connection of a passive party."""
    line = PartyLine(party, kit, notify=(said if said is not None else []).append)
    serving = threading.Thread(target=line.serve, daemon=True)
    serving.start()
    try:
        yield line
    finally:
        line.close()
        serving.join(timeout=10)
        assert not serving.is_alive()


@contextlib.contextmanager
def connected(kits: Mapping[str, Path], tables: Mapping[str, Path]) -> Iterator[Hub]:
    """Run a hub and all passive parties of some kits."""
    opened = {name: Kit.open(kit) for name, kit in kits.items()}
    keep_table(opened[ACTIVE], tables[ACTIVE])
    with contextlib.ExitStack() as stack:
        hub = stack.enter_context(hub_of(opened[ACTIVE]))
        for name, kit in opened.items():
            if name != ACTIVE:
                kit.prepare()
                stack.enter_context(joined(open_party(kit, tables[name]).party, kit))
        yield hub
