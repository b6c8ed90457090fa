"""What a running party serves with: its own connection or hub, or the engine, as was agreed."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

from unlabel.errors import RunError
from unlabel.remote.engine import Engine
from unlabel.remote.health import Contact
from unlabel.remote.hub import Hub
from unlabel.remote.hub_sessions import HubSessions
from unlabel.remote.kit import Kit
from unlabel.remote.party_line import PartyLine
from unlabel.remote.party_server import PartyServer
from unlabel.wire import Endpoint

#: Seconds between two turns of a party's loop.
TURN = 0.25

Notify = Callable[[str], None]


class Carrier(Protocol):
    """What brings requests to a party, or from it to the others."""

    def serve(self, each: Callable[[], None]) -> None:
        """Serve until closed; `each` is called several times a second."""

    def close(self) -> None:
        """Stop serving; an answer under way is finished first."""

    def contact(self) -> Contact:
        """Return how the party stands with the others."""

    def state(self) -> str:
        """Return the same in words."""


@contextlib.contextmanager
def carrier_of(kit: Kit, party: Endpoint | None, notify: Notify) -> Iterator[Carrier]:
    """Yield what the agreement says that a party serves with.

    party  who answers, at a passive party
    """
    with contextlib.ExitStack() as stack:
        if kit.agreement.server.carrier == "direct":
            yield _hub(kit, notify, stack) if party is None else PartyLine(party, kit, notify)
            return
        server = None
        if party is not None:
            server = stack.enter_context(contextlib.closing(PartyServer(party, kit)))
        engine = Engine(kit, notify=notify)
        stack.callback(engine.stop)
        engine.start()
        yield EngineCarrier(engine, server)


def _hub(kit: Kit, notify: Notify, stack: contextlib.ExitStack) -> HubCarrier:
    hub = Hub(kit, notify=notify)
    stack.callback(hub.stop)
    sessions = HubSessions(hub)
    stack.callback(sessions.stop)
    hub.start()
    sessions.start()
    return HubCarrier(hub, sessions)


class HubCarrier:
    """The active party's: the hub, which works in threads of its own."""

    def __init__(self, hub: Hub, sessions: HubSessions) -> None:
        self.hub = hub
        self.sessions = sessions
        self._closing = threading.Event()

    def serve(self, each: Callable[[], None]) -> None:
        """Serve until closed; `each` is called several times a second."""
        while not self._closing.wait(TURN):
            each()

    def close(self) -> None:
        """Stop serving."""
        self._closing.set()

    def contact(self) -> Contact:
        """Return who is registered, and when each was last heard."""
        away = time.time() - time.monotonic()
        peers = {name: away + each.heard for name, each in sorted(self.hub.present().items())}
        last = max(peers.values(), default=0.0)
        return Contact(self.hub.is_listening(), peers, last=last, alarm=self.hub.alarm)

    def state(self) -> str:
        """Return the same in words."""
        there = ", ".join(sorted(self.hub.present())) or "nobody"
        return f"connected: {there}; sessions served: {self.sessions.sessions}"


class EngineCarrier:
    """The engine, and the server that it hands requests to; at the active party there is none."""

    def __init__(self, engine: Engine, server: PartyServer | None) -> None:
        self.engine = engine
        self.server = server
        self._closing = threading.Event()

    def serve(self, each: Callable[[], None]) -> None:
        """Serve until closed, or until the engine has failed for good."""

        def turn() -> None:
            if self.engine.failed is not None:
                raise RunError(f"{self.engine.failed} Its log is '{self.engine.log_file}'.")
            each()

        if self.server is not None:
            self.server.serve(turn)
        while self.server is None and not self._closing.wait(TURN):
            turn()

    def close(self) -> None:
        """Stop serving; an answer under way is finished first."""
        self._closing.set()
        if self.server is not None:
            self.server.close()

    def contact(self) -> Contact:
        """Return whether the engine is connected; who else is there only it knows."""
        instance = "" if self.server is None else self.server.responder.instance
        return Contact(self.engine.is_connected(), instance=instance)

    def state(self) -> str:
        """Return the same in words."""
        alive = "running" if self.engine.is_alive() else "starting"
        served = "" if self.server is None else f"; jobs served: {self.server.responder.jobs}"
        return f"engine {alive}, restarted {self.engine.restarts} times{served}"
