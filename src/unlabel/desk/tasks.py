"""What the desk has yet to do, one thing after the other: a table that outlives the process.

A task is noted in the transaction in which a person asks for it, and ended in the one that notes
what it came to. One that a killed desk had begun is begun again: each verb looks first how much of
it is done already (`verbs.py`).
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from unlabel.desk.requests import now
from unlabel.desk.store import Store
from unlabel.errors import RunError

Verb = Literal["plan", "forget", "audit", "commit", "rollback", "purge", "certify", "look"]
#: They change nothing before they have ended, or put all back, so that a person may stop them.
CANCELLABLE: tuple[Verb, ...] = ("plan", "forget", "audit", "look")
#: What a task is called while it is under way.
DOING: dict[Verb, str] = {
    "plan": "Looking at what each choice would mean",
    "forget": "Forgetting",
    "audit": "Auditing",
    "commit": "Committing at every party",
    "rollback": "Rolling back at every party",
    "purge": "Purging at every party",
    "certify": "Collecting signatures for the certificate",
    "look": "Asking every party where it stands",
}

SCHEMA = """
CREATE TABLE IF NOT EXISTS tasks (
    number INTEGER PRIMARY KEY AUTOINCREMENT, request INTEGER, verb TEXT NOT NULL,
    options TEXT NOT NULL, asked_by TEXT NOT NULL, asked TEXT NOT NULL,
    state TEXT NOT NULL, stop TEXT NOT NULL, tries INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS tasks_state ON tasks (state, number);
CREATE UNIQUE INDEX IF NOT EXISTS tasks_live ON tasks (ifnull(request, 0))
    WHERE state IN ('waiting', 'running')
"""


@dataclass(frozen=True)
class Task:
    """Something to do.

    request   it is for; None where it is for none
    asked_by  the account that wants it
    state     waiting, running, done, failed or stopped
    stop      the account that wants it stopped, empty if none does
    tries     how often it was begun
    """

    number: int
    request: int | None
    verb: Verb
    asked_by: str
    asked: str
    state: str
    stop: str
    tries: int
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def doing(self) -> str:
        """What it is called while it is under way."""
        return DOING[self.verb]

    @property
    def can_stop(self) -> bool:
        """Whether a person may stop it now."""
        return self.state == "waiting" or self.verb in CANCELLABLE


class Tasks:
    """The tasks in a desk's store; a request has one at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(self, verb: Verb, request: int | None, by: str, **options: Any) -> int:
        """Note something to do; return its number."""
        with self._store.transaction() as connection:
            if self.live(request) is not None:
                raise RunError(
                    "Something is under way for this request already; wait for it, or stop it.",
                    code="busy",
                )
            row = request, verb, json.dumps(options), by, now(), "waiting", "", 0
            cursor = connection.execute(
                "INSERT INTO tasks (request, verb, options, asked_by, asked, state, stop, "
                "tries) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )
        return int(cursor.lastrowid or 0)

    def live(self, request: int | None) -> Task | None:
        """Return what is waiting or under way for a request."""
        rows = self._store.rows(
            "SELECT * FROM tasks WHERE ifnull(request, 0) = ? AND state IN ('waiting', 'running')",
            request or 0,
        )
        return _task(rows[0]) if rows else None

    def next(self) -> Task | None:
        """Return what is to be done next: what was begun, else what was asked for first."""
        rows = self._store.rows(
            "SELECT * FROM tasks WHERE state IN ('waiting', 'running') "
            "ORDER BY state = 'waiting', number LIMIT 1"
        )
        return _task(rows[0]) if rows else None

    def before(self, task: Task) -> int:
        """Return how many tasks are done before one that waits."""
        rows = self._store.rows(
            "SELECT count(*) FROM tasks WHERE state = 'running' OR (state = 'waiting' AND "
            "number < ?)",
            task.number,
        )
        return int(rows[0][0])

    def begin(self, task: Task) -> None:
        """Note that a task is under way."""
        with self._store.transaction() as connection:
            connection.execute(
                "UPDATE tasks SET state = 'running', tries = tries + 1 WHERE number = ?",
                (task.number,),
            )

    def put_off(self, task: Task) -> None:
        """Note that a task is done later, as if it had not been begun."""
        with self._store.transaction() as connection:
            connection.execute(
                "UPDATE tasks SET state = 'waiting', tries = tries - 1 WHERE number = ?",
                (task.number,),
            )

    def end(self, task: Task, state: str) -> None:
        """Note that a task is done, failed or stopped."""
        with self._store.transaction() as connection:
            connection.execute("UPDATE tasks SET state = ? WHERE number = ?", (state, task.number))

    def stop(self, task: Task, by: str) -> None:
        """Note that a person wants a task stopped."""
        with self._store.transaction() as connection:
            connection.execute(
                "UPDATE tasks SET stop = ? WHERE number = ? AND state IN ('waiting', 'running')",
                (by, task.number),
            )

    def stopped_by(self, task: Task) -> str:
        """Return who wants a task stopped, empty if nobody does."""
        return str(
            self._store.rows("SELECT stop FROM tasks WHERE number = ?", task.number)[0]["stop"]
        )


def _task(row: sqlite3.Row) -> Task:
    names = ("number", "request", "verb", "asked_by", "asked", "state", "stop", "tries")
    return Task(**{name: row[name] for name in names}, options=json.loads(row["options"]))
