"""What other packages add to a party: handlers of messages, and filters of what it sends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from unlabel.errors import SettingsError
from unlabel.party.randomness import Stream, secret_stream
from unlabel.wire import Message, kind_of

if TYPE_CHECKING:
    from unlabel.party.passive import PassiveParty


class Filter(Protocol):
    """Changes what a party sends, for example by adding noise; returns what goes out instead.

    message  that is about to be sent
    peer     name of the party it goes to; a passive party's is "active"
    stream   the sender's secret random numbers for this filter and this message; where a test or
             a bench asked for repeatable ones, those of (seed, sender, filter, peer, kind)
    """

    def __call__(self, message: Message, peer: str, stream: Stream, /) -> Message:
        """Return the message to send."""


@dataclass(frozen=True)
class Filters:
    """The filters of one party, in the order in which they are applied.

    sender  name of the party
    each    the filters
    seed    of repeatable random numbers; None draws secret ones
    """

    sender: str
    each: Sequence[Filter] = ()
    seed: int | None = None

    def __call__(self, message: Message, peer: str) -> Message:
        """Return what goes out to a party in place of a message."""
        for number, change in enumerate(self.each):
            who = f"{self.sender}/filter {number}/{peer}/{kind_of(message)}"
            stream = secret_stream(who) if self.seed is None else Stream(self.seed, who)
            message = change(message, peer, stream)
        return message


Handler = Callable[["PassiveParty", Any], Message]

_HANDLERS: dict[type[Message], Handler] = {}


def handles(kind: type[Message]) -> Callable[[Handler], Handler]:
    """Register what follows as the handler of one kind of message (a decorator).

    A handler is given the party and the message and returns the answer; it declines by raising
    `PartyRefused`. A kind has one handler: a second one is refused.
    """

    def register(handler: Handler) -> Handler:
        if kind in _HANDLERS:
            raise SettingsError(f"Two handlers serve '{kind.__name__}'; remove one of them.")
        _HANDLERS[kind] = handler
        return handler

    return register


def handler_of(kind: type[Message]) -> Handler | None:
    """Return the handler of a kind of message, if there is one."""
    return _HANDLERS.get(kind)
