"""Requests as the desk keeps them: what was asked for, how far it came, and how they are found."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from unlabel.desk.store import Store
from unlabel.errors import RunError

State = Literal[
    "received",
    "planned",
    "running",
    "staged",
    "audited",
    "committed",
    "purged",
    "certified",
    "rolled-back",
    "withdrawn",
]
STATES: tuple[State, ...] = get_args(State)
#: Nothing is left to do but to tell the person.
ANSWERABLE: tuple[State, ...] = ("certified", "rolled-back", "withdrawn")
#: A request that has one of these stands in the way of the next: the run has one at a time.
OPEN: tuple[State, ...] = ("running", "staged", "audited")
#: The last one of these is in the way of carrying out the next, whose audit takes the place of its
#: own in the run, and whose purge removes the version by which an exact one is certified.
UNCERTIFIED: tuple[State, ...] = ("committed", "purged")
#: Requests that are looked at for a form that was sent twice, the newest first.
AT_HAND = 20

# A desk from before letters were noted as sent has the moment of closing for the day of the letter.
SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    state TEXT NOT NULL, received TEXT NOT NULL, due TEXT NOT NULL, ended TEXT NOT NULL,
    created TEXT NOT NULL, created_by TEXT NOT NULL, reference TEXT NOT NULL,
    subject TEXT NOT NULL, facts TEXT NOT NULL
);
UPDATE requests SET ended = '' WHERE length(ended) > 10;
CREATE INDEX IF NOT EXISTS requests_state ON requests (state, number);
CREATE TABLE IF NOT EXISTS people (
    request INTEGER NOT NULL REFERENCES requests (number) ON DELETE CASCADE, id TEXT NOT NULL,
    place INTEGER NOT NULL, PRIMARY KEY (request, place)
);
CREATE INDEX IF NOT EXISTS people_id ON people (id)
"""


@dataclass(frozen=True)
class Request:
    """A request to erase, as the desk knows it.

    received    day on which the demand came in; `due` the last day to answer it
    ended       day on which the letter to the person was sent, empty while it was not
    reference   as the demand calls it, or the number of the case
    labels      the labels that are to be forgotten, or none where it is about people
    people      how many people it is about; their ids are asked for with `Requests.people`
    facts       all else, by name: what the worker and people noted. See `note`
    """

    number: int
    state: State
    received: str
    due: str
    ended: str
    created: str
    created_by: str
    reference: str
    labels: tuple[str, ...]
    people: int
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """What is to be forgotten, in words."""
        if self.people:
            return "one person" if self.people == 1 else f"{self.people:,} people"
        return ("label " if len(self.labels) == 1 else "labels ") + ", ".join(self.labels)

    @property
    def is_ended(self) -> bool:
        """Whether nothing is left to do: the person was told."""
        return bool(self.ended)

    @property
    def can_be_answered(self) -> bool:
        """Whether the person can be told what came of it; a certificate of it has to hold."""
        return self.state in ANSWERABLE and not self.fact("certificate", {}).get("faults")

    def fact(self, name: str, default: Any = None) -> Any:
        """Return what was noted under a name."""
        return self.facts.get(name, default)


@dataclass(frozen=True)
class About:
    """What a request is about, as it is kept; see `Request`."""

    labels: Sequence[str]
    ids: Sequence[str]
    received: str
    due: str
    reference: str = ""


@dataclass(frozen=True)
class Listed:
    """A page of requests, the newest first.

    total  how many there are on all pages
    """

    requests: tuple[Request, ...]
    total: int


class Requests:
    """The requests in a desk's store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, about: About, *, by: str, facts: Mapping[str, Any] | None = None) -> int:
        """Take a request up; return its number."""
        row = (
            *("received", about.received, about.due, "", now(), by, about.reference),
            *(_subject(about.labels, about.ids), json.dumps(dict(facts or {}))),
        )
        with self._store.transaction() as connection:
            cursor = connection.execute(
                "INSERT INTO requests (state, received, due, ended, created, created_by, "
                "reference, subject, facts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )
            number = int(cursor.lastrowid or 0)
            self._set_people(number, about.ids)
        return number

    def change(self, number: int, about: About) -> None:
        """Change what a request is about."""
        subject = _subject(about.labels, about.ids)
        with self._store.transaction() as connection:
            connection.execute(
                "UPDATE requests SET received = ?, due = ?, reference = ?, subject = ? "
                "WHERE number = ?",
                (about.received, about.due, about.reference, subject, number),
            )
            connection.execute("DELETE FROM people WHERE request = ?", (number,))
            self._set_people(number, about.ids)

    def _set_people(self, number: int, ids: Sequence[str]) -> None:
        with self._store.transaction() as connection:
            connection.executemany(
                "INSERT INTO people VALUES (?, ?, ?)",
                [(number, each, place) for place, each in enumerate(ids)],
            )

    def get(self, number: int) -> Request:
        """Return a request."""
        rows = self._store.rows("SELECT * FROM requests WHERE number = ?", number)
        if not rows:
            raise RunError(f"There is no request {number}.", code="no-such-request")
        return _request(rows[0])

    def of_run(self, id: str) -> Request | None:
        """Return the request that has an id in the run."""
        same = "json_extract(facts, '$.request') = ?"
        rows = self._store.rows(f"SELECT * FROM requests WHERE {same}", id)
        return _request(rows[0]) if rows else None

    def people(self, number: int) -> list[str]:
        """Return the ids of the people that a request is about, as they were given."""
        rows = self._store.rows("SELECT id FROM people WHERE request = ? ORDER BY place", number)
        return [row["id"] for row in rows]

    def note(self, number: int, state: State | None = None, **facts: Any) -> None:
        """Note facts of a request, and its state where it changes; a fact of None goes."""
        with self._store.transaction() as connection:
            request = self.get(number)
            known = {**request.facts, **facts}
            kept = {name: value for name, value in known.items() if value is not None}
            state = state or request.state
            ended = kept.get("sent", {}).get("day", "")
            connection.execute(
                "UPDATE requests SET state = ?, ended = ?, facts = ? WHERE number = ?",
                (state, ended, json.dumps(kept), number),
            )

    def of_form(self, once: str) -> int | None:
        """Return the request that the same form was sent for before: somebody clicked twice."""
        latest = self.list(count=AT_HAND).requests if once else ()
        return next((each.number for each in latest if each.fact("once") == once), None)

    def open(self) -> Request | None:
        """Return the request that is being carried out, or waits for a decision."""
        marks = ", ".join("?" * len(OPEN))
        rows = self._store.rows(f"SELECT * FROM requests WHERE state IN ({marks})", *OPEN)
        return _request(rows[0]) if rows else None

    def counts(self) -> dict[State, int]:
        """Return how many requests are in each state."""
        rows = self._store.rows("SELECT state, count(*) AS count FROM requests GROUP BY state")
        known = {row["state"]: row["count"] for row in rows}
        return {state: known.get(state, 0) for state in STATES}

    def list(self, *, words: str = "", state: str = "", count: int = 50, skip: int = 0) -> Listed:
        """Return some requests, the newest first.

        words  to look for: a request's number, an id of a person as it was given, or a part of a
               reference, of a label's name or of the account that took the request up
        state  that they are in, any if empty
        """
        where, values = ["1"], list[Any]()
        if state:
            where.append("state = ?")
            values.append(state)
        words = words.strip()
        if words:
            part = "%" + re_escaped(words) + "%"
            either = [f"{name} LIKE ? ESCAPE '\\'" for name in ("reference", "created_by")]
            labels = "SELECT value FROM json_each(subject, '$.labels')"
            either += [f"EXISTS ({labels} WHERE value LIKE ? ESCAPE '\\')"]
            either += ["number IN (SELECT request FROM people WHERE id = ?)"]
            values += [part, part, part, words]
            if words.lstrip("#").isdecimal() and len(words) < 15:
                either.append("number = ?")
                values.append(int(words.lstrip("#")))
            where.append(f"({' OR '.join(either)})")
        condition = " AND ".join(where)
        total = self._store.rows(f"SELECT count(*) FROM requests WHERE {condition}", *values)
        rows = self._store.rows(
            f"SELECT * FROM requests WHERE {condition} ORDER BY number DESC LIMIT ? OFFSET ?",
            *(*values, count, skip),
        )
        return Listed(tuple(map(_request, rows)), total[0][0])


def re_escaped(words: str) -> str:
    """Return words in which LIKE finds nothing but themselves.

    >>> re_escaped("50%_off")
    '50\\\\%\\\\_off'
    """
    for sign in ("\\", "%", "_"):
        words = words.replace(sign, f"\\{sign}")
    return words


def now() -> str:
    """Return the time as the desk notes it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _subject(labels: Sequence[str], ids: Sequence[str]) -> str:
    return json.dumps({"labels": list(labels), "people": len(ids)}, ensure_ascii=False)


def _request(row: sqlite3.Row) -> Request:
    subject = json.loads(row["subject"])
    return Request(
        **{name: row[name] for name in _AS_THEY_ARE},
        labels=tuple(subject["labels"]),
        people=subject["people"],
        facts=json.loads(row["facts"]),
    )


_AS_THEY_ARE = (
    *("number", "state", "received", "due", "ended", "created", "created_by", "reference"),
)
