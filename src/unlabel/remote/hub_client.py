"""A command's way to the parties over the hub: a session of the connections that it holds."""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any

from unlabel.errors import WireError
from unlabel.link import ACTIVE_SOCKET, call, close, pack, set_patience, unpack
from unlabel.remote.client import Away, PartyClient

#: Seconds in which the hub answers for itself.
SOON = 10.0


class HubClient(PartyClient):
    """Begins sessions at the hub."""

    way = "the label holder's own process"
    remedy = (
        "The label holder's own process does not answer; look whether `unlabel party start` runs "
        "for the kit of the active party."
    )
    look = 0.2
    _command: Connection[bytes, bytes] | None = None

    def presence(self) -> dict[str, dict[str, Any]]:
        """Return what the hub knows of each party that is connected, or raise `Away`."""
        parties: dict[str, dict[str, Any]] = self._ask(ask="presence")["parties"]
        return parties

    def _missing(self) -> list[str]:
        there = self.presence()
        self.busy = tuple(name for name, facts in there.items() if facts["busy"])
        parties = self.transport.parties
        return [name for name in parties if name not in there or name in self.busy]

    def _begin(self, least: int) -> bool:
        reply = self._ask(ask="session", least=least)
        if not reply["epoch"]:
            return False
        self.absent = tuple(p for p in self.transport.parties if p not in reply["parties"])
        command, self._command = self._command, None
        self.transport.connect(command)
        return True

    def close(self) -> None:
        """End the session."""
        super().close()
        self._hang_up()

    def _ask(self, **question: Any) -> dict[str, Any]:
        """Return what the hub answers, or raise `Away`."""
        try:
            if self._command is None:
                self._command = call(self.kit.links, ACTIVE_SOCKET, SOON)
                set_patience(self._command, 0.0)  # parties may take longer than the hub itself
            self._command.send_bytes(pack({}, **question))
            if not self._command.poll(SOON):
                raise EOFError("it does not answer")
            return unpack(self._command.recv_bytes())[0]
        except (OSError, EOFError, WireError) as error:
            self._hang_up()
            raise Away(str(error) or type(error).__name__) from error

    def _hang_up(self) -> None:
        close(self._command)
        self._command = None
