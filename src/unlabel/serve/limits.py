"""How much one request, and all of them together, may ask for."""

from __future__ import annotations

from dataclasses import dataclass

from unlabel.config import expect


@dataclass(frozen=True)
class Limits:
    """Bounds of a server; what is beyond them is refused with a code, and nothing is computed.

    rows      of a party in one request
    body      bytes of a request
    waiting   requests that wait for the model, one at a time is computed
    reading   seconds in which a request must be there
    handing   seconds in which an answer must be taken; a decision waits no longer for one
    """

    rows: int = 1024
    body: int = 4 * 2**20
    waiting: int = 64
    reading: float = 10.0
    handing: float = 5.0

    def __post_init__(self) -> None:
        expect("rows", self.rows, self.rows >= 1, "at least 1")
        expect("body", self.body, self.body >= 1, "at least 1")
        expect("waiting", self.waiting, self.waiting >= 1, "at least 1")
        expect("reading", self.reading, self.reading > 0, "more than 0 seconds")
        expect("handing", self.handing, 0 < self.handing <= 20, "more than 0 seconds, at most 20")
