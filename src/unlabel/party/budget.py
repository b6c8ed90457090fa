"""What a passive party serves in a day, at most: rows, steps and requests to forget.

    budget.json   {"day": "2026-11-18", "rows": 51200, "steps": 800, "requests": 1}

Days are those of UTC. What was served is counted ahead of time, in pieces of a fiftieth of a limit:
the file is written once a piece, before any of it is served, so that a party that is killed and
started again has never more left than before. A clock that is set back begins no new day.

A count depends on which messages came and on nothing in them, and the messages of a hidden request
are the same whatever its label: a budget cannot tell two of them apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path

from unlabel.config import Policy
from unlabel.errors import CheckpointError, PartyRefused
from unlabel.files import write_atomically

BUDGET = "budget.json"
#: Pieces of a limit that are counted ahead.
PIECES = 50


@dataclass
class Served:
    """What a party has served on a day of UTC."""

    day: str = ""
    rows: int = 0
    steps: int = 0
    requests: int = 0


def today() -> str:
    """Return the day by UTC, as 2026-11-18."""
    return datetime.now(UTC).date().isoformat()


class Budget:
    """Counts what a party serves in a day, and refuses what is over its policy.

    home  the party's folder; without one the count ends with the process
    """

    def __init__(self, policy: Policy, home: Path | None, clock: Callable[[], str] = today) -> None:
        self._limits = {
            "rows": policy.max_rows_a_day,
            "steps": policy.max_steps_a_day,
            "requests": policy.max_requests_a_day,
        }
        self._path = None if home is None else home / BUDGET
        self._clock = clock
        self.served = self._read()
        self._noted = Served(**asdict(self.served))

    def spend(self, what: str, count: int) -> None:
        """Count something that is to be served, or refuse where the day's budget has too little."""
        limit = self._limits[what]
        if not limit:
            return
        if self._clock() > self.served.day:
            self.served, self._noted = Served(self._clock()), Served()
        total = getattr(self.served, what) + count
        serves = f"it serves {limit} {what} a day (`max_{what}_a_day`)"
        if count > limit:
            raise PartyRefused(f"{serves}, and {count} were asked for at once.", "budget")
        if total > limit:
            raise PartyRefused(
                f"{serves}, {limit - total + count} are left and {count} were asked for; "
                f"{self.ahead() or 'it serves again from 00:00 UTC'}.",
                "budget",
            )
        if (self.served.day, total) > (self._noted.day, getattr(self._noted, what)):
            self._note(what, min(limit, total + limit // PIECES))
        setattr(self.served, what, total)

    def ahead(self) -> str:
        """Say so where the day that is counted lies ahead of the clock; else return nothing."""
        if not any(self._limits.values()) or self.served.day <= self._clock():
            return ""
        return (
            f"the day that it counts is {self.served.day}, which lies ahead of its clock: its "
            f"operator sets the clock right, or stops it and removes {BUDGET}"
        )

    def _note(self, what: str, total: int) -> None:
        """Write what may be served before the file is written again."""
        noted = Served(**{**asdict(self._noted), "day": self.served.day, what: total})
        if self._path is not None:
            write_atomically(self._path, json.dumps(asdict(noted)).encode())
        self._noted = noted

    def _read(self) -> Served:
        if self._path is None or not self._path.exists():
            return Served()
        try:
            entry = json.loads(self._path.read_bytes())
            served = Served(**entry)
            if any(type(getattr(served, f.name)) is not type(f.default) for f in fields(served)):
                raise TypeError
        except (OSError, ValueError, TypeError) as error:
            raise CheckpointError(
                f"'{self._path}' cannot be read; restore it, or remove it to count the day anew."
            ) from error
        return served
