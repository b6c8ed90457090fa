"""How a long piece of work reports its progress."""

from __future__ import annotations

from collections.abc import Callable

#: Called with how much is done, of how much, and a note on what it is.
Watch = Callable[[int, int, str], None]


def watch_nothing(done: int, total: int, note: str) -> None:
    """Report nothing."""
