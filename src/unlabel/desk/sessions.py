"""Who is signed in: tokens that the browser keeps and the desk has as hashes only.

A session ends after half an hour in which nobody did anything, after twelve hours, when its
account goes or gets another password, and when its owner signs out. Each sign-in draws a token, so
a token that somebody put into a browser before is worth nothing. A form's token follows from the
session's and not the other way round: it fits the forms of this session alone.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from unlabel.desk.accounts import Account
from unlabel.desk.store import Store
from unlabel.files import sha256

SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (
    token TEXT PRIMARY KEY,
    account TEXT NOT NULL REFERENCES accounts (name) ON DELETE CASCADE ON UPDATE CASCADE,
    began REAL NOT NULL, seen REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS sessions_of ON sessions (account)
"""

#: Seconds without a request, and altogether, after which a session ends.
IDLE, LONGEST = 30 * 60.0, 12 * 3600.0
#: Seconds between two notes of when a session was last used.
NOTED = 30.0
#: Bytes of a token, 256 bits.
SIZE = 32
#: Sessions that an account has at once; the oldest ends where there is one more.
MOST = 10


@dataclass(frozen=True)
class Session:
    """Somebody signed in.

    account  whose it is
    form     the token that every form of this session carries
    """

    account: Account
    form: str


class Sessions:
    """The sessions of a desk."""

    def __init__(self, store: Store, *, now: Callable[[], float] = time.time) -> None:
        self._store, self._now = store, now

    def begin(self, account: Account) -> str:
        """Begin a session; return its token, which is for the browser alone."""
        token, now = draw(), self._now()
        with self._store.transaction() as connection:
            connection.execute(
                "DELETE FROM sessions WHERE seen < ? OR began < ?", (now - IDLE, now - LONGEST)
            )
            connection.execute(
                "DELETE FROM sessions WHERE account = ? AND token NOT IN (SELECT token FROM "
                "sessions WHERE account = ? ORDER BY seen DESC LIMIT ?)",
                (account.name, account.name, MOST - 1),
            )
            row = sha256(token.encode()), account.name, now, now
            connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?)", row)
        return token

    def find(self, token: str, *, using: bool = True) -> Session | None:
        """Return the session of a token, None where there is none or it has ended.

        using  its owner does something, so that its half hour begins anew
        """
        rows = self._store.rows(
            "SELECT name, role, began, seen FROM sessions JOIN accounts ON account = name "
            "WHERE token = ?",
            sha256(token.encode()),
        )
        now = self._now()
        if not rows or now - rows[0]["seen"] >= IDLE or now - rows[0]["began"] >= LONGEST:
            return None
        if using and now - rows[0]["seen"] >= NOTED:
            with self._store.transaction() as connection:
                connection.execute(
                    "UPDATE sessions SET seen = ? WHERE token = ?", (now, sha256(token.encode()))
                )
        return Session(Account(rows[0]["name"], rows[0]["role"]), form_token(token))

    def end(self, token: str) -> None:
        """End a session, if there is one."""
        with self._store.transaction() as connection:
            connection.execute("DELETE FROM sessions WHERE token = ?", (sha256(token.encode()),))


def draw() -> str:
    """Draw a token."""
    return secrets.token_urlsafe(SIZE)


def form_token(token: str) -> str:
    """Return the token of the forms that belong to a token of a browser."""
    return hashlib.sha256(b"form " + token.encode()).hexdigest()


def fits(token: str, brought: str) -> bool:
    """Return whether a form brought the token that belongs to a browser's."""
    return hmac.compare_digest(form_token(token).encode(), brought.encode(errors="replace"))
