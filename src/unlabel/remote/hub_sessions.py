"""Commands at the hub: who may use the parties' connections, one command at a time.

A command connects over the private socket of its kit and says what it wants, in the frames of
`link`: `session` begins an epoch, `presence` tells who is there. In a session it sends every
party's messages in one frame and gets all answers in one, with a reason for each that is missing.
The newest command has the session: that the one before has ended is what its kit's lock says.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from unlabel.errors import WireError
from unlabel.link import ACTIVE_SOCKET, Door, close, pack, unpack
from unlabel.remote.hub import Hub
from unlabel.remote.hub_members import Member, Pending

log = logging.getLogger("unlabel.hub")

#: Seconds between two looks at whether the hub is to be stopped.
LOOK = 0.5


@dataclass
class Session:
    """What a command has of the parties."""

    epoch: int = 0
    members: dict[str, Member] = field(default_factory=dict)


class HubSessions:
    """Serves the commands of the active party.

    sessions  how many were begun
    """

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.sessions = 0
        self._door = Door(hub.kit.links, ACTIVE_SOCKET)
        self._closing = threading.Event()

    def start(self) -> None:
        """Serve commands from now on."""
        threading.Thread(target=self._accept, name="hub-sessions", daemon=True).start()

    def stop(self) -> None:
        """Let no more commands in."""
        self._closing.set()
        close(self._door)

    def _accept(self) -> None:
        while not self._closing.is_set():
            command = self._door.accept(LOOK)
            if command is not None:
                threading.Thread(target=self._serve, args=(command,), daemon=True).start()

    def _serve(self, command: Connection[bytes, bytes]) -> None:
        session = Session()
        try:
            while True:
                header, parts = unpack(command.recv_bytes())
                if header.get("ask") == "presence":
                    command.send_bytes(pack({}, parties=self.presence()))
                elif header.get("ask") == "session":
                    session, busy = self._begin(int(header.get("least", 1)))
                    there = sorted(session.members)
                    facts = {"epoch": session.epoch, "parties": there, "busy": busy}
                    command.send_bytes(pack({}, **facts))
                else:
                    command.send_bytes(self._carry(session, header, parts))
        except (EOFError, OSError):
            log.info("a command has closed its connection")
        except (WireError, KeyError, TypeError, ValueError) as error:
            log.warning("a command sent what the hub does not understand: %s", error)
        finally:
            close(command)

    def presence(self) -> dict[str, dict[str, Any]]:
        """Return who is connected: since when, when it was last heard of, in seconds ago."""
        now = time.monotonic()
        return {
            name: {
                "instance": member.instance,
                "release": str(member.hello.get("release", "")),
                "agreement": str(member.hello.get("agreement", "")),
                "address": member.address,
                "since": round(now - member.since, 1),
                "heard": round(now - member.heard, 1),
                "busy": member.pending is not None,
            }
            for name, member in sorted(self.hub.present().items())
        }

    def _begin(self, least: int) -> tuple[Session, list[str]]:
        """Begin a session with at least so many parties; else it has no epoch."""
        epoch, there, busy = self.hub.begin()
        if len(there) < least:
            return Session(0, there), busy
        self.sessions += 1
        log.info("session %d begins with %s", epoch, ", ".join(sorted(there)))
        return Session(epoch, there), busy

    def _carry(
        self, session: Session, header: Mapping[str, Any], parts: Mapping[str, bytes]
    ) -> bytes:
        """Ask parties side by side; return the answers, and why others are missing."""
        call, seconds = int(header["call"]), float(header["timeout"])
        asked: dict[str, Pending] = {}
        lost: dict[str, str] = {}
        for name, part in parts.items():
            member = session.members.get(name)
            if member is None:
                lost[name] = "it is not part of this session"
            else:
                asked[name] = self.hub.ask(member, session.epoch, call, part, seconds)
        answers: dict[str, bytes] = {}
        for name, pending in asked.items():
            answer = None
            with contextlib.suppress(queue.Empty):
                answer = pending.answer.get(timeout=max(0.0, pending.deadline - time.monotonic()))
            if answer is None:
                lost[name] = session.members[name].lost or "no answer"
            else:
                answers[name] = answer
        return pack(answers, lost=lost, call=call)
