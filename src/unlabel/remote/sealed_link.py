"""Sessions of TLS with the parties' own processes, inside frames that the engine carries.

The command's process is the server of each session, as the hub is on a connection of its own. The
engine's processes at either end, whoever runs them and whoever else uses their machines see
enciphered bytes; what they change, repeat or leave out ends the session, and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

from unlabel.errors import WireError
from unlabel.link import close, pack, unpack
from unlabel.remote import revocation
from unlabel.remote.frames import PROTOCOL, Frame, Kind, Sealed, expect
from unlabel.remote.kit import Kit
from unlabel.remote.registration import revoked_frame, welcome
from unlabel.remote.tls import RECHECK, caller, expect_valid, server_context, why

#: Rounds of calls that a handshake takes at most, and seconds for each.
ROUNDS, SHAKE = 6, 15.0


class SealedLink:
    """A connection to the engine's job, over which the parties' own processes are asked."""

    def __init__(self, kit: Kit, job: Connection[bytes, bytes], parties: Sequence[str]) -> None:
        self.job = job
        self._kit = kit
        self._sealed = {party: Sealed(server_context(kit)) for party in parties}
        self._call = 0
        self._checked = time.monotonic()
        self._lists = revocation.numbers(kit)
        self._refused: dict[str, str] = {}

    def shake(self) -> None:
        """Shake hands with every party and take its greeting; raise `WireError` where one fails."""
        waiting = set(self._sealed)
        for _ in range(ROUNDS):
            if not waiting:
                return
            self._pass_on({party: self._sealed[party].drain() for party in waiting}, SHAKE)
            if not self.job.poll(2 * SHAKE):
                break
            frames, lost, _ = self._receive()
            if lost:
                raise WireError("; ".join(f"{party}: {reason}" for party, reason in lost.items()))
            for party, received in frames.items():
                if received:
                    self._greet(party, received)
                    waiting.discard(party)
        raise WireError("a handshake over the engine did not come to an end")

    def _greet(self, party: str, frames: Sequence[Frame]) -> None:
        sealed = self._sealed[party]
        name = caller(self._kit, sealed.certificate)
        if name != party or expect(frames, Kind.HELLO).facts().get("protocol") != PROTOCOL:
            raise WireError(f"in place of '{party}' answers '{name}', or another release")
        sealed.most = self._kit.agreement.server.largest
        sealed.seal(welcome())
        if (revoked := revoked_frame(self._kit)) is not None:
            sealed.seal(revoked)

    def send_bytes(self, data: bytes, /) -> None:
        """Send each party's messages."""
        header, parts = unpack(data)
        self._call = int(header["call"])
        self._check()
        valid = {party: part for party, part in parts.items() if party not in self._refused}
        for party, part in valid.items():
            self._sealed[party].seal(Frame(Kind.REQUEST, part, 1, self._call))
        sealed = {party: self._sealed[party].drain() for party in valid}
        self._pass_on(sealed, float(header["timeout"]))

    def _check(self) -> None:
        """See whether the parties' certificates still hold; hand them newer lists of revoked."""
        now, numbers = time.monotonic(), revocation.numbers(self._kit)
        if now < self._checked + RECHECK and numbers == self._lists:
            return
        revoked = revoked_frame(self._kit) if numbers != self._lists else None
        self._checked, self._lists = now, numbers
        for party, sealed in self._sealed.items():
            try:
                expect_valid(self._kit, sealed.certificate)
            except WireError as error:
                self._refused[party] = str(error)
            if revoked is not None:
                sealed.seal(revoked)

    def recv_bytes(self) -> bytes:
        """Return the parties' answers, and why others are missing."""
        frames, lost, header = self._receive()
        lost |= self._refused
        answers = {}
        for party, received in frames.items():
            answer = received[0] if len(received) == 1 else None
            if answer is None or answer.kind is not Kind.ANSWER or answer.call != self._call:
                lost[party] = "it sent no answer"
            else:
                answers[party] = answer.body
        return pack(answers, lost=lost, call=header.get("call"))

    def poll(self, seconds: float, /) -> bool:
        """Return whether answers come within so many seconds."""
        return self.job.poll(seconds)

    def close(self) -> None:
        """End the connection to the job."""
        close(self.job)

    def _pass_on(self, parts: Mapping[str, bytes], timeout: float) -> None:
        self.job.send_bytes(pack(parts, timeout=timeout, call=self._call))

    def _receive(self) -> tuple[dict[str, list[Frame]], dict[str, str], dict[str, Any]]:
        """Return each party's frames, why others are missing, and the header of it all."""
        header, parts = unpack(self.job.recv_bytes())
        lost = {party: str(reason) for party, reason in header.get("lost", {}).items()}
        frames: dict[str, list[Frame]] = {}
        for party, part in parts.items():
            try:
                frames[party] = self._sealed[party].feed(part)
            except (OSError, EOFError, WireError) as error:
                lost[party] = why(error)
        return frames, lost, header
