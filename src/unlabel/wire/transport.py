"""How the active party reaches the passive ones: any transport, and the one within a process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol

from unlabel.errors import PartyRefused, WireError
from unlabel.wire.codec import decode, encode
from unlabel.wire.messages import Message, Refused
from unlabel.words import printable


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
                reason = f"Party '{party}' refused: {printable(answer.reason)}"
                raise PartyRefused(reason, answer.code)
        return answers


class Endpoint(Protocol):
    """A passive party as the wire sees it."""

    def handle(self, message: Message) -> Message:
        """Answer one message."""

    def serve(self, data: bytes) -> bytes:
        """Answer one message given and returned as bytes."""


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
