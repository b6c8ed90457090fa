"""All parties in one process: tensors are handed over where they lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from unlabel.wire.codec import decode, encode
from unlabel.wire.messages import Message
from unlabel.wire.transport import Transport


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
        self._endpoints = dict(endpoints)
        self._encoded = encoded

    @property
    def parties(self) -> Sequence[str]:
        """The names of the passive parties."""
        return list(self._endpoints)

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Deliver the requests one after the other."""
        if self._encoded:
            return {
                party: decode(self._endpoints[party].serve(encode(request)))
                for party, request in requests.items()
            }
        return {party: self._endpoints[party].handle(m) for party, m in requests.items()}
