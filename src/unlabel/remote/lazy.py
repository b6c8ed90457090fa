"""The way to the partners of a run that needs them seldom: nobody is called before there is need.

A blind run that is trained works on what the label holder keeps. Requests, audits and papers about
them call nobody, so no session is begun for them and no partner can tell that they were made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from unlabel.errors import PartyLost
from unlabel.wire import Message, Transport


class LazyTransport(Transport):
    """Begins a session when the first message is to be sent.

    inner         the way itself, once there is a session
    start         begins the session, or raises
    greet         is called once there is one, before anything else is sent
    is_connected  whether there was a session
    failure       the loss that kept it from starting: nothing has begun, so nothing is repeated
    """

    def __init__(self, inner: Transport, start: Callable[[], None]) -> None:
        super().__init__(inner.parties)
        self._inner = inner
        self._start = start
        self.greet: Callable[[], None] = lambda: None
        self.is_connected = False
        self.failure: PartyLost | None = None

    def connect(self) -> None:
        """Begin a session, where there is none yet."""
        if self.is_connected:
            return
        try:
            self._start()
        except PartyLost as lost:
            self.failure = lost
            raise
        self.is_connected = True
        self.greet()

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        """Deliver the requests."""
        self.connect()
        return self._inner.exchange(requests)

    def flush(self) -> None:
        """Have sent what is held back."""
        self._inner.flush()
