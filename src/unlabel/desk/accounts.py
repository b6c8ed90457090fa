"""Who may sign in to the desk: names, roles, passwords, and waits that grow where one is guessed.

A password is kept as an argon2 hash. An attempt is counted before it is looked at, so that a
thousand at once are as slow as a thousand in turn; it is counted for the name, whether there is
such an account or not, and for the address it comes from. A name that nobody has takes the same
work as one that somebody has, and waits as long.
"""

from __future__ import annotations

import functools
import re
import threading
import time
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, get_args

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError

from unlabel.desk.store import Store
from unlabel.errors import RunError, SettingsError, unknown
from unlabel.files import sha256

Role = Literal["caseworker", "approver", "auditor"]
ROLES: tuple[Role, ...] = get_args(Role)

SCHEMA = """
CREATE TABLE IF NOT EXISTS accounts (
    name TEXT PRIMARY KEY, role TEXT NOT NULL, password TEXT NOT NULL, created TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS attempts (
    subject TEXT PRIMARY KEY, failures INTEGER NOT NULL, last REAL NOT NULL
)
"""

#: Characters of the shortest and the longest password.
SHORTEST, LONGEST = 12, 256
#: Passwords of twelve characters and more that every guesser tries, and letters they are made of.
GUESSED = frozenset(
    {
        *("123456789012", "1234567890123", "qwertyuiop12", "qwertyuiop123", "qwertyuiop[]"),
        *("password1234", "password12345", "passwordpassword", "administrator", "correcthorse"),
        *("letmeinletmein", "welcome12345", "1q2w3e4r5t6y", "abcdefghijkl", "iloveyou1234"),
    }
)
FEWEST_LETTERS = 5
#: Failures that cost no wait: for one name, and for one address, behind which may be many people.
FREE = {"name": 5, "address": 30}
#: Seconds of the longest wait, and after which failures are forgotten.
LONGEST_WAIT, FORGET = 900.0, 3600.0
#: Hashes computed at once: each takes 64 MiB.
AT_ONCE = 2


@dataclass(frozen=True)
class Account:
    """Somebody who may sign in."""

    name: str
    role: Role


class SignInRefused(RunError, code="sign-in"):
    """A name and a password that do not open an account; `wait` is in seconds, 0 if none."""

    def __init__(self, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.wait = wait


class Accounts:
    """The accounts of a desk."""

    def __init__(
        self,
        store: Store,
        *,
        hasher: PasswordHasher | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._hasher, self._now = store, hasher or PasswordHasher(), now
        self._places = threading.BoundedSemaphore(AT_ONCE)

    def all(self) -> list[Account]:
        """Return all accounts, by name."""
        rows = self._store.rows("SELECT name, role FROM accounts ORDER BY name")
        return [Account(row["name"], row["role"]) for row in rows]

    def get(self, name: str) -> Account:
        """Return an account, or say which there are."""
        rows = self._store.rows("SELECT name, role FROM accounts WHERE name = ?", plain(name))
        if not rows:
            raise RunError(unknown("account", name, [each.name for each in self.all()]))
        return Account(rows[0]["name"], rows[0]["role"])

    def add(self, name: str, role: str, password: str) -> Account:
        """Make an account."""
        name = plain(name)
        if not re.fullmatch(r"[a-z0-9][a-z0-9._+@-]{0,63}", name):
            raise SettingsError(
                f"Expected a name of at most 64 letters, digits and any of . _ + @ - but got "
                f"'{name[:80]}'."
            )
        if role not in ROLES:
            raise SettingsError(unknown("role", role, ROLES))
        hashed = self._hashed(name, password)
        created = datetime.now(UTC).isoformat(timespec="seconds")
        with self._store.transaction() as connection:
            if connection.execute("SELECT 1 FROM accounts WHERE name = ?", (name,)).fetchone():
                raise RunError(f"There is an account '{name}' already; choose another name.")
            row = name, role, hashed, created
            connection.execute("INSERT INTO accounts VALUES (?, ?, ?, ?)", row)
        return Account(name, role)

    def remove(self, name: str) -> None:
        """Remove an account, which ends its sessions."""
        account = self.get(name)
        with self._store.transaction() as connection:
            connection.execute("DELETE FROM accounts WHERE name = ?", (account.name,))

    def set_password(self, name: str, password: str) -> None:
        """Change a password, which ends the account's sessions and its waits."""
        account = self.get(name)
        hashed = self._hashed(account.name, password)
        with self._store.transaction() as connection:
            connection.execute(
                "UPDATE accounts SET password = ? WHERE name = ?", (hashed, account.name)
            )
            connection.execute("DELETE FROM sessions WHERE account = ?", (account.name,))
            connection.execute("DELETE FROM attempts WHERE subject = ?", (_subject(account.name),))

    def sign_in(self, name: str, password: str, address: str) -> Account:
        """Return the account that a name and a password open.

        address  where the attempt comes from
        """
        name = plain(name)
        subjects = {_subject(name): FREE["name"], f"address {address}": FREE["address"]}
        self._count(subjects)
        rows = self._store.rows("SELECT role, password FROM accounts WHERE name = ?", name)
        hashed = rows[0]["password"] if rows else _decoy(self._hasher)
        if not self._fits(hashed, password) or not rows:
            raise SignInRefused("The name and the password do not open an account.")
        with self._store.transaction() as connection:
            connection.execute("DELETE FROM attempts WHERE subject = ?", (_subject(name),))
            connection.execute(
                "UPDATE attempts SET failures = failures - 1 WHERE subject = ?",
                (f"address {address}",),
            )
            if self._hasher.check_needs_rehash(hashed):
                connection.execute(
                    "UPDATE accounts SET password = ? WHERE name = ? AND password = ?",
                    (self._hasher.hash(_normal(password)), name, hashed),
                )
        return Account(name, rows[0]["role"])

    def _count(self, subjects: dict[str, int]) -> None:
        """Count an attempt as a failure for now, or raise where it comes before its time."""
        now = self._now()
        with self._store.transaction() as connection:
            connection.execute("DELETE FROM attempts WHERE last < ?", (now - FORGET,))
            for subject, free in subjects.items():
                row = connection.execute(
                    "SELECT failures, last FROM attempts WHERE subject = ?", (subject,)
                ).fetchone()
                wait = row["last"] + wait_after(row["failures"] - free) - now if row else 0.0
                if wait > 0:
                    raise SignInRefused(
                        f"There were too many attempts; try again in {_in_words(wait)}.", wait
                    )
            for subject in subjects:
                connection.execute(
                    "INSERT INTO attempts VALUES (?, 1, ?) ON CONFLICT (subject) DO UPDATE SET "
                    "failures = failures + 1, last = excluded.last",
                    (subject, now),
                )

    def _hashed(self, name: str, password: str) -> str:
        """Return the hash of a password that is fit to be one."""
        normal = _normal(password)
        if not SHORTEST <= len(normal) <= LONGEST:
            raise SettingsError(
                f"Expected a password of {SHORTEST} to {LONGEST} characters but got {len(normal)}."
            )
        guessed = normal.casefold() in GUESSED or len(set(normal)) < FEWEST_LETTERS
        if guessed or (len(name) > 3 and name in normal.casefold()):
            raise SettingsError(
                "Expected a password that is not easily guessed; take several words that have "
                "nothing to do with each other, and not the account's name."
            )
        with self._places:
            return self._hasher.hash(normal)

    def _fits(self, hashed: str, password: str) -> bool:
        with self._places:
            try:
                typed = _normal(password[: 4 * LONGEST]).encode(errors="replace")
                return self._hasher.verify(hashed, typed)
            except VerifyMismatchError:
                return False
            except (VerificationError, InvalidHashError) as error:
                raise RunError(
                    "The account's password cannot be checked; set it with `unlabel account "
                    "password`."
                ) from error


def plain(name: str) -> str:
    """Return a name as accounts have it: however it was typed.

    >>> plain(" Ada ")
    'ada'
    """
    return name.strip().lower()


def wait_after(failures: int) -> float:
    """Return the seconds to wait after so many failures beyond those that are free.

    >>> [wait_after(failures) for failures in (-1, 0, 1, 4, 40)]
    [0.0, 1.0, 2.0, 16.0, 900.0]
    """
    return 0.0 if failures < 0 else min(LONGEST_WAIT, 2.0 ** min(failures, 20))


def _subject(name: str) -> str:
    """Return what a name's attempts are kept under: people type passwords for names."""
    return f"name {sha256(name.encode(errors='replace'))}"


def _normal(password: str) -> str:
    """Return a password in the one form that keyboards of different systems share."""
    return unicodedata.normalize("NFKC", password)


@functools.cache
def _decoy(hasher: PasswordHasher) -> str:
    """Return a hash that nobody's password has, as dear to compare with as others."""
    return hasher.hash("nobody has this password")


def _in_words(seconds: float) -> str:
    """Return a wait for people.

    >>> _in_words(0.4), _in_words(61)
    ('1 second', '2 minutes')
    """
    count, unit = (-(-seconds // 60), "minute") if seconds > 60 else (-(-seconds // 1), "second")
    return f"{count:.0f} {unit}{'' if count == 1 else 's'}"
