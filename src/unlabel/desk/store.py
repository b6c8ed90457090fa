"""What the desk remembers: one SQLite file, which a crash leaves as some transaction left it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from unlabel.errors import CheckpointError, RunError
from unlabel.files import OWNER_ONLY

#: Mode of the folder that it lies in: nobody else lists what the desk keeps.
FOLDER_MODE = 0o700
#: Seconds for which a transaction waits for another one.
PATIENCE = 20.0
#: Codes of SQLite that say that the disk took nothing, by their names.
NOT_WRITTEN = {"SQLITE_FULL", "SQLITE_READONLY", "SQLITE_IOERR", "SQLITE_CANTOPEN"}


class Store:
    """A database in one file, for all threads of a process; each has a connection of its own.

    schemas  statements that make the tables, each of them repeatable

    What is deleted is overwritten; it leaves the log of writes when SQLite next empties that, at
    the latest when the store is closed.
    """

    def __init__(self, path: Path, schemas: Sequence[str]) -> None:
        self.path = path
        self._local = threading.local()
        self._open: list[tuple[threading.Thread, sqlite3.Connection]] = []
        self._lock = threading.Lock()
        with _in_words(path):
            path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            # The two files that SQLite puts beside it take its mode from it.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, OWNER_ONLY))
            with self.transaction() as connection:
                for schema in schemas:
                    for statement in schema.split(";"):
                        connection.execute(statement)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Have all of what is written inside or nothing of it, safe on the disk at the end.

        One at a time, of all threads and processes. Within another of this thread it is part of
        that one.
        """
        with _in_words(self.path):
            connection = self._connection()
            if connection.in_transaction:
                yield connection
                return
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    def rows(self, sql: str, *values: object) -> list[sqlite3.Row]:
        """Return what a query finds; a transaction of this thread sees its own writes."""
        with _in_words(self.path):
            return list(self._connection().execute(sql, values))

    def close(self) -> None:
        """Close every thread's connection."""
        self._local = threading.local()
        self._close(lambda _: True)

    def _close(self, ends: Callable[[threading.Thread], bool]) -> None:
        """Close the connections of some threads."""
        with self._lock:
            closing = [pair for pair in self._open if ends(pair[0])]
            self._open = [pair for pair in self._open if pair not in closing]
        for _, connection in closing:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _connection(self) -> sqlite3.Connection:
        """Return this thread's connection."""
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = sqlite3.connect(
                self.path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            connection.row_factory = sqlite3.Row
            # FULL: what was answered to a person is on the disk, also where the power fails.
            for setting in (
                *("journal_mode = WAL", "synchronous = FULL"),
                *("foreign_keys = ON", "secure_delete = ON"),
            ):
                connection.execute(f"PRAGMA {setting}").fetchall()
            self._local.connection = connection
            self._close(lambda thread: not thread.is_alive())  # a server's come and go
            with self._lock:
                self._open.append((threading.current_thread(), connection))
        return connection


@contextlib.contextmanager
def _in_words(path: Path) -> Iterator[None]:
    """Turn what SQLite and the disk say of the file into one sentence."""
    try:
        yield
    except (OSError, sqlite3.OperationalError) as error:
        name = getattr(error, "sqlite_errorname", "")
        if isinstance(error, OSError) or any(name.startswith(each) for each in NOT_WRITTEN):
            raise RunError(
                f"Cannot write '{path}' ({error}); free some room, or see who may write there.",
                code="not-written",
            ) from error
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise RunError(
                f"'{path}' is being written by another process; try it once more.", code="busy"
            ) from error
        raise
    except sqlite3.IntegrityError:
        raise  # for whoever writes: a name that is taken, say
    except sqlite3.DatabaseError as error:
        raise CheckpointError(
            f"'{path}' is no database of the desk, or damaged ({error}); restore it from a backup."
        ) from error
