"""The trail: every action on the desk as a line of a ledger, in the form of the parties' own.

A line is written in the transaction that does what it says, so that neither is there without the
other. Lines are kept in the desk's store, since there may be a hundred thousand; exported they are
a ledger that `Ledger.entries` reads and checks. They name accounts and requests, and nobody else:
what cannot be taken back from a chain must not be personal data of those who ask to be forgotten.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from unlabel.desk.store import Store
from unlabel.errors import CheckpointError
from unlabel.party import LedgerEntry

SCHEMA = """
CREATE TABLE IF NOT EXISTS trail (
    line INTEGER PRIMARY KEY, request INTEGER, event TEXT NOT NULL, entry TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS trail_of ON trail (request)
"""
#: Lines that are read at once where all are looked at.
AT_ONCE = 1000


@dataclass(frozen=True)
class Whole:
    """What a look at the whole chain came to: how many lines are whole, and what is broken."""

    lines: int
    head: str
    trouble: str = ""


class Trail:
    """The chain of a desk's actions."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, event: str, request: int | None, by: str, **note: Any) -> LedgerEntry:
        """Add a line.

        event    what was done, in a word or two
        request  the number of the request it was done to, if any
        by       the account that did it, or had it done
        """
        with self._store.transaction() as connection:
            last = connection.execute("SELECT entry FROM trail ORDER BY line DESC LIMIT 1")
            row = last.fetchone()
            before = None if row is None else _entry(row["entry"])
            draft = LedgerEntry(
                index=0 if before is None else before.index + 1,
                event=event,
                request="" if request is None else str(request),
                at=datetime.now(UTC).isoformat(timespec="seconds"),
                note={"by": by, **note},
                previous="" if before is None else before.hash,
                hash="",
            )
            entry = replace(draft, hash=draft.expected_hash())
            values = entry.index, request, event, entry.line()
            connection.execute("INSERT INTO trail VALUES (?, ?, ?, ?)", values)
        return entry

    def of(self, request: int) -> list[LedgerEntry]:
        """Return the lines of a request, the first first."""
        rows = self._store.rows("SELECT entry FROM trail WHERE request = ? ORDER BY line", request)
        return [_entry(row["entry"]) for row in rows]

    def last_of(self, requests: Sequence[int]) -> dict[int, LedgerEntry]:
        """Return the last line of each of some requests."""
        marks = ", ".join("?" * len(requests))
        rows = self._store.rows(
            f"SELECT request, entry, max(line) FROM trail WHERE request IN ({marks}) "
            f"GROUP BY request",
            *requests,
        )
        return {row["request"]: _entry(row["entry"]) for row in rows}

    def page(self, count: int, before: int | None = None) -> list[LedgerEntry]:
        """Return so many lines, the last first; those before a line, if one is named."""
        rows = self._store.rows(
            "SELECT entry FROM trail WHERE line < ? ORDER BY line DESC LIMIT ?",
            2**62 if before is None else before,
            count,
        )
        return [_entry(row["entry"]) for row in rows]

    def pieces(self) -> Iterator[list[str]]:
        """Yield all lines as a ledger's file has them, many at a time."""
        last = -1
        while rows := self._store.rows(
            "SELECT line, entry FROM trail WHERE line > ? ORDER BY line LIMIT ?", last, AT_ONCE
        ):
            yield [f"{row['entry']}\n" for row in rows]
            last = rows[-1]["line"]

    def check(self) -> Whole:
        """Look whether every line is as it was written, and follows from the one before it."""
        previous, index = "", 0
        for line in itertools.chain.from_iterable(self.pieces()):
            try:
                entry = _entry(line)
                is_whole = entry.line() + "\n" == line and entry.hash == entry.expected_hash()
            except CheckpointError:
                is_whole = False
            if not is_whole or entry.previous != previous or entry.index != index:
                return Whole(index, previous, f"The chain breaks at line {index + 1}.")
            previous, index = entry.hash, index + 1
        return Whole(index, previous)


def _entry(line: str) -> LedgerEntry:
    try:
        raw: Mapping[str, Any] = json.loads(line)
        return LedgerEntry(**raw)
    except (ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(
            "The desk's trail was changed: a line of it is unreadable."
        ) from error
