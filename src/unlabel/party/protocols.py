"""The two small protocols other rooms register into: a handler and a filter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from unlabel.errors import SettingsError
from unlabel.party.noise import secret_stream
from unlabel.party.randomness import Stream
from unlabel.wire import Message, kind_of

if TYPE_CHECKING:
    from unlabel.party.passive import PassiveParty

M = TypeVar("M", bound=Message)


class Filter(Protocol):
    """Changes what a party sends, for example by adding noise; returns what goes out instead.

    message  that is about to be sent
    peer     name of the party it goes to; a passive party's is "active"
    stream   the sender's random numbers for this filter and this message. They are secret and no
             message gets them again, unless a test or a bench asked for repeatable ones: then
             they are those of (seed, sender, filter, peer, kind), and the step names the rest.
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


def handles(
    kind: type[M],
) -> Callable[[Callable[[PassiveParty, M], Message]], Callable[[PassiveParty, M], Message]]:
    """Register what follows as the handler of one kind of message (a decorator).

    A handler is given the party and the message and returns the answer; it declines by raising
    `PartyRefused`. A kind has one handler: a second one is refused.
    """

    def register(
        handler: Callable[[PassiveParty, M], Message],
    ) -> Callable[[PassiveParty, M], Message]:
        if kind in _HANDLERS:
            raise SettingsError(f"Two handlers serve '{kind.__name__}'; remove one of them.")
        _HANDLERS[kind] = handler
        return handler

    return register


def handler_of(kind: type[Message]) -> Handler | None:
    """Return the handler of a kind of message, if there is one."""
    return _HANDLERS.get(kind)
