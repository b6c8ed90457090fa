"""Parties of other organisations, reached through NVIDIA FLARE.

The engine's job process calls all parties side by side and returns their answers over a connection
(see `link`), so a step costs the slowest party and not the sum. A party that does not answer in
time is missing from the answers, without an error of the engine: they are counted here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

from unlabel.errors import PartyLost, WireError
from unlabel.link import close, pack, unpack
from unlabel.wire.codec import decode, encode
from unlabel.wire.messages import Message
from unlabel.wire.transport import Transport
from unlabel.words import printable

#: Seconds that the engine may take beyond the timeout of a call before it counts as lost itself.
GRACE = 10.0


class FlareTransport(Transport):
    """Carries messages as bytes over one job of the engine.

    An exchange returns an answer of every party or raises `PartyLost`; then the job is over, and
    the caller starts another and continues with `connect`.
    """

    def __init__(self, parties: Sequence[str], *, timeout: float) -> None:
        super().__init__(parties)
        self.timeout = timeout
        self._lost = PartyLost("The federation is not connected.")
        self._calls = 0
        self._line: Connection[bytes, bytes] | None = None

    def connect(self, line: Connection[bytes, bytes] | None) -> None:
        """Continue over the connection to another job, or to none."""
        close(self._line)
        self._line = line

    def _lose(self, reason: str, parties: Sequence[str] = ()) -> PartyLost:
        """Give the job up; calls before the next `connect` fail with the same reason."""
        self.connect(None)
        self._lost = PartyLost(reason, parties)
        return self._lost

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Send all requests at once and wait for every answer, or raise `PartyLost`."""
        encoded = {party: encode(message) for party, message in requests.items()}
        header, answers = self.carry(encoded, self.timeout)
        lost = [party for party in requests if party not in answers]
        if lost:
            raise self._lose(_lost(lost, header.get("lost", {}), self.timeout), lost)
        return {party: _decode(party, data) for party, data in answers.items()}

    def carry(
        self, parts: Mapping[str, bytes], timeout: float, **header: Any
    ) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Send bytes to the job's process; return its header and answers, or raise `PartyLost`."""
        if self._line is None:
            raise PartyLost(str(self._lost), self._lost.parties)
        self._calls += 1
        try:
            self._line.send_bytes(pack(parts, timeout=timeout, call=self._calls, **header))
            if not self._line.poll(timeout + GRACE):
                raise EOFError
            reply, answers = unpack(self._line.recv_bytes())
        except (OSError, EOFError) as error:
            raise self._lose("The engine's job ended while parties were asked.") from error
        if reply.get("call") != self._calls:
            # A caller was interrupted between a question and its answer, which comes only now.
            raise self._lose("An answer came to a question that was asked before.")
        return reply, answers


def _decode(party: str, data: bytes) -> Message:
    try:
        return decode(data)
    except WireError as error:
        raise WireError(f"Party '{party}' sent no message: {error}") from error


def _lost(parties: Sequence[str], reasons: Mapping[str, str], timeout: float) -> str:
    names = " and ".join(f"'{party}'" for party in parties)
    known = [printable(str(reasons[party]))[:200] for party in parties if party in reasons]
    detail = f" ({'; '.join(known)})" if known else ""
    word = "Party" if len(parties) == 1 else "Parties"
    return f"{word} {names} did not answer within {timeout:g} seconds{detail}."
