"""Parties in other houses, reached through NVIDIA FLARE.

The engine's job process calls all parties side by side and hands their answers back over a line
(see `link`), so a step costs the slowest party and not the sum. Who does not answer in time is
missing from what comes back, with no error of the engine's: therefore answers are counted here.
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

    Every exchange either brings an answer of every party or raises `PartyLost`; after that the
    job is of no use any more, and whoever holds the transport starts another with `renew`.
    """

    def __init__(self, parties: Sequence[str], *, timeout: float) -> None:
        self._parties = list(parties)
        self.timeout = timeout
        self._lost = PartyLost("The federation is not connected.")
        self._calls = 0
        self._line: Connection[bytes, bytes] | None = None

    @property
    def parties(self) -> Sequence[str]:
        """The names of the passive parties."""
        return self._parties

    def renew(self, line: Connection[bytes, bytes] | None) -> None:
        """Go on over the line of another job, or over none."""
        close(self._line)
        self._line = line

    def _lose(self, reason: str, parties: Sequence[str] = ()) -> PartyLost:
        """Give the job up; whoever asks again before there is another hears the same reason."""
        self.renew(None)
        self._lost = PartyLost(reason, parties)
        return self._lost

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Send all requests at once and wait for every answer, or raise `PartyLost`."""
        encoded = {party: encode(message) for party, message in requests.items()}
        header, answers = self.carry(encoded, self.timeout)
        lost = [party for party in requests if party not in answers]
        if lost:
            raise self._lose(_lost(lost, header.get("lost", {}), self.timeout), lost)
        found: dict[str, Message] = {}
        for party, data in answers.items():
            try:
                found[party] = decode(data)
            except WireError as error:
                raise WireError(f"Party '{party}' sent no message: {error}") from error
        return found

    def carry(
        self, parts: Mapping[str, bytes], timeout: float, **header: Any
    ) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Hand bytes to the job's process; return what comes back, or raise `PartyLost`."""
        if self._line is None:
            raise PartyLost(str(self._lost), self._lost.parties)
        self._calls += 1
        try:
            self._line.send_bytes(pack(parts, timeout=timeout, call=self._calls, **header))
            if not self._line.poll(timeout + GRACE):
                raise EOFError
            told, answers = unpack(self._line.recv_bytes())
        except (OSError, EOFError) as error:
            raise self._lose("The engine's job ended while parties were asked.") from error
        if told.get("call") != self._calls:
            # Somebody was interrupted between a question and its answer, which comes only now.
            raise self._lose("An answer came to a question that was asked before.")
        return told, answers


def _lost(parties: Sequence[str], reasons: Mapping[str, str], timeout: float) -> str:
    names = " and ".join(f"'{party}'" for party in parties)
    said = [printable(str(reasons[party]))[:200] for party in parties if party in reasons]
    detail = f" ({'; '.join(said)})" if said else ""
    word = "Party" if len(parties) == 1 else "Parties"
    return f"{word} {names} did not answer within {timeout:g} seconds{detail}."
