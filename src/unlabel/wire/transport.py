"""How the active party reaches the passive ones: any transport, and the one within a process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol

from unlabel.errors import PartyRefused, WireError
from unlabel.wire.codec import decode, encode, kind_in
from unlabel.wire.messages import Message, Refused
from unlabel.words import printable

#: Messages to one party in one frame at most.
MOST_IN_TURN = 8


class Transport(ABC):
    """Carries requests to the passive parties and brings their answers back.

    A transport implements `exchange`; the active party calls `ask` and `tell`.

    parties  names of the passive parties, in the order of their embeddings
    """

    def __init__(self, parties: Sequence[str]) -> None:
        self.parties = list(parties)

    @abstractmethod
    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Deliver one request to each named party and return each one's answer.

        Parties work side by side where the transport allows it. An answer is missing only if
        the party could not be reached, and then this raises instead of returning.
        """

    def exchange_in_turn(
        self, requests: Mapping[str, Sequence[Message]]
    ) -> dict[str, list[Message]]:
        """Deliver several requests to each named party; return the answers in the same order.

        A party carries its requests out one after the other, up to the first that it refuses. A
        transport that can send several messages in one frame does so here.
        """
        answers: dict[str, list[Message]] = {party: [] for party in requests}
        for turn in range(max(map(len, requests.values()), default=0)):
            due = {
                party: messages[turn]
                for party, messages in requests.items()
                if turn < len(messages) and not isinstance(_last(answers[party]), Refused)
            }
            for party, answer in (self.exchange(due) if due else {}).items():
                answers[party].append(answer)
        return answers

    def flush(self) -> None:  # noqa: B027 - most have nothing to do
        """Send what is held back (see `Pipelined`); by default nothing is."""

    def ask(self, request: Message) -> dict[str, Message]:
        """Send the same request to every party; raise `PartyRefused` if one declines."""
        return self.tell(dict.fromkeys(self.parties, request))

    def tell(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Send each party its own request; raise `PartyRefused` if one declines."""
        unordered = self.exchange(requests)
        if unordered.keys() != requests.keys():
            raise WireError(
                f"Expected an answer of {list(requests)} but got one of {list(unordered)}."
            )
        # In the order of the requests: embeddings of one width could be swapped unnoticed.
        answers = {party: unordered[party] for party in requests}
        for party, answer in answers.items():
            if isinstance(answer, Refused):
                raise refused(party, answer)
        return answers


def refused(party: str, answer: Refused) -> PartyRefused:
    """Return the error of a party that declines."""
    return PartyRefused(f"Party '{party}' refused: {printable(answer.reason)}", answer.code)


def _last(answers: Sequence[Message]) -> Message | None:
    return answers[-1] if answers else None


class Endpoint(Protocol):
    """A passive party as the wire sees it."""

    def handle(self, message: Message) -> Message:
        """Answer one message."""

    def serve(self, data: bytes) -> bytes:
        """Answer one message given and returned as bytes."""


def serve_in_turn(party: Endpoint, requests: Sequence[bytes]) -> list[bytes]:
    """Answer the messages of one frame in their order, up to the first that is refused."""
    if not 1 <= len(requests) <= MOST_IN_TURN:
        reason = f"a frame holds 1 to {MOST_IN_TURN} messages, not {len(requests)}."
        return [encode(Refused(0, reason, "unknown-message"))]
    answers: list[bytes] = []
    for request in requests:
        answers.append(party.serve(request))
        if kind_in(answers[-1]) is Refused:
            break
    return answers


class LocalTransport(Transport):
    """Calls the parties directly, without copying or encoding.

    With `encoded=True` every message goes through the codec both ways, as it would over a
    network; the results are the same to the last bit.
    """

    def __init__(self, endpoints: Mapping[str, Endpoint], *, encoded: bool = False) -> None:
        super().__init__(list(endpoints))
        self._endpoints = dict(endpoints)
        self._encoded = encoded

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Deliver the requests one after the other."""
        sides = self._endpoints
        if self._encoded:
            return {p: decode(sides[p].serve(encode(m))) for p, m in requests.items()}
        return {p: sides[p].handle(m) for p, m in requests.items()}
