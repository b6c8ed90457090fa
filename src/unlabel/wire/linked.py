"""Parties of other organisations, reached over a connection to another process of the active party.

That process (the hub, or one that stands between here and the engine) asks all parties side by side
and returns their answers, so a step costs the slowest party and not the sum. A party that does not
answer in time is missing from the answers: they are counted here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from unlabel.errors import PartyLost, WireError
from unlabel.link import close, join, pack, split, unpack
from unlabel.wire.codec import decode, encode
from unlabel.wire.messages import Message
from unlabel.wire.transport import Transport
from unlabel.words import printable

#: Seconds that the other process may take beyond the timeout of a call before it counts as lost.
GRACE = 10.0


class Link(Protocol):
    """A connection to the process that asks the parties; `multiprocessing` has them."""

    def send_bytes(self, data: bytes, /) -> None:
        """Send one frame."""

    def recv_bytes(self) -> bytes:
        """Return one frame; raise `EOFError` where the other process has ended."""

    def poll(self, seconds: float, /) -> bool:
        """Return whether a frame comes within so many seconds."""

    def close(self) -> None:
        """End the connection."""


class LinkedTransport(Transport):
    """Carries messages as bytes in one session.

    An exchange returns an answer of every party or raises `PartyLost`; then the session is over,
    and the caller begins another and continues with `connect`.

    timeout  seconds that a party may take to answer
    largest  bytes of the longest frame to one party
    way      what carries the messages, for people
    """

    def __init__(
        self,
        parties: Sequence[str],
        *,
        timeout: float,
        largest: int = 2**32,
        way: str = "the label holder's process",
    ) -> None:
        super().__init__(parties)
        self.timeout = timeout
        self._largest = largest
        self._way = way
        self._lost = PartyLost("The federation is not connected.")
        self._calls = 0
        self._link: Link | None = None

    def connect(self, link: Link | None) -> None:
        """Continue over the connection to another session, or to none."""
        close(self._link)
        self._link = link

    def _lose(self, reason: str, parties: Sequence[str] = ()) -> PartyLost:
        """Give the session up; calls before the next `connect` fail with the same reason."""
        self.connect(None)
        self._lost = PartyLost(reason, parties)
        return self._lost

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Send all requests at once and wait for every answer, or raise `PartyLost`."""
        answers = self.exchange_in_turn({party: [each] for party, each in requests.items()})
        return {party: _single(party, messages) for party, messages in answers.items()}

    def exchange_in_turn(
        self, requests: Mapping[str, Sequence[Message]]
    ) -> dict[str, list[Message]]:
        """Send each party its requests in one frame and wait for every answer."""
        parts = {party: join([encode(each) for each in some]) for party, some in requests.items()}
        for party, part in parts.items():
            if len(part) > self._largest:
                raise WireError(
                    f"Messages of {len(part):,} bytes to party '{party}' are over the "
                    f"{self._largest:,} that one frame may have (`server.frame`)."
                )
        header, answers = self.carry(parts, self.timeout)
        lost = [party for party in requests if party not in answers]
        if lost:
            raise self._lose(_lost(lost, header.get("lost", {}), self.timeout), lost)
        return {party: _decoded(party, part) for party, part in answers.items()}

    def carry(
        self, parts: Mapping[str, bytes], timeout: float, **header: Any
    ) -> tuple[dict[str, Any], dict[str, bytes]]:
        """Send bytes to the other process; return its header and answers, or raise `PartyLost`."""
        if self._link is None:
            raise PartyLost(str(self._lost), self._lost.parties)
        self._calls += 1
        try:
            self._link.send_bytes(pack(parts, timeout=timeout, call=self._calls, **header))
            if not self._link.poll(timeout + GRACE):
                raise EOFError
            reply, answers = unpack(self._link.recv_bytes())
        except (OSError, EOFError) as error:
            raise self._lose(f"The way over {self._way} ended while parties were asked.") from error
        if reply.get("call") != self._calls:
            # A caller was interrupted between a question and its answer, which comes only now.
            raise self._lose("An answer came to a question that was asked before.")
        return reply, answers


def _decoded(party: str, part: bytes) -> list[Message]:
    try:
        return [decode(data) for data in split(part)]
    except WireError as error:
        raise WireError(f"Party '{party}' sent no message: {error}") from error


def _single(party: str, messages: Sequence[Message]) -> Message:
    if len(messages) != 1:
        raise WireError(f"Party '{party}' sent {len(messages)} answers to one message.")
    return messages[0]


def _lost(parties: Sequence[str], reasons: Mapping[str, str], timeout: float) -> str:
    names = " and ".join(f"'{party}'" for party in parties)
    known = [printable(str(reasons[party]))[:200] for party in parties if party in reasons]
    detail = f" ({'; '.join(known)})" if known else ""
    word = "Party" if len(parties) == 1 else "Parties"
    return f"{word} {names} did not answer within {timeout:g} seconds{detail}."
