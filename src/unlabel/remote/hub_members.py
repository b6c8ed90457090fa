"""The parties that are connected to the hub, and what each of them is to answer."""

from __future__ import annotations

import queue
from dataclasses import dataclass, field
from typing import Any

from unlabel.remote.frames import Line


@dataclass
class Pending:
    """A request that a party has not answered yet."""

    epoch: int
    call: int
    deadline: float
    answer: queue.SimpleQueue[bytes | None] = field(default_factory=queue.SimpleQueue)


@dataclass
class Member:
    """A passive party that is connected.

    hello    what it said of itself: instance, release, agreement
    since    when it came, `heard` when it last said anything, by the clock
    pending  what it is to answer
    welcome  whether it was told that it is registered: nothing else may reach it before that
    lost     why it is not connected any more
    lists    numbers of the lists of revoked certificates that it was handed
    """

    name: str
    line: Line
    address: str
    hello: dict[str, Any]
    since: float
    heard: float
    asked: float = 0.0
    checked: float = 0.0
    pending: Pending | None = None
    welcome: bool = False
    lost: str = ""
    lists: list[int] = field(default_factory=list)

    @property
    def instance(self) -> str:
        """Which process of the party it is."""
        return str(self.hello["instance"])
