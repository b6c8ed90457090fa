"""The two small protocols other rooms register into: a handler and a filter."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from unlabel.errors import SettingsError
from unlabel.wire import Message

if TYPE_CHECKING:
    from unlabel.party.passive import PassiveParty

M = TypeVar("M", bound=Message)


class Filter(Protocol):
    """Changes what a party sends, for example by adding noise; returns what goes out instead."""

    def __call__(self, message: Message, /) -> Message:
        """Return the message to send."""


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
