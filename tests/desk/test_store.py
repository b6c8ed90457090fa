"""What the desk remembers: all of a transaction or nothing, also after a kill."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
from pathlib import Path

import pytest
from forget.crashing import in_child

from unlabel.desk.store import Store
from unlabel.errors import CheckpointError, RunError

TABLES = [
    "CREATE TABLE IF NOT EXISTS one (name TEXT PRIMARY KEY);"
    "CREATE TABLE IF NOT EXISTS two (name TEXT REFERENCES one(name))"
]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "desk" / "desk.sqlite", TABLES)


def names(store: Store) -> list[str]:
    return [row["name"] for row in store.rows("SELECT name FROM one ORDER BY name")]


def test_a_transaction_is_kept_wholly_or_not_at_all(store: Store) -> None:
    with store.transaction() as connection:
        connection.execute("INSERT INTO one VALUES ('a')")

    def fail() -> None:
        with store.transaction() as connection:
            connection.execute("INSERT INTO one VALUES ('b')")
            assert names(store) == ["a", "b"]
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        fail()
    assert names(store) == ["a"]
    assert [row["name"] for row in store.rows("SELECT name FROM one WHERE name = ?", "a")] == ["a"]


def test_a_transaction_within_another_is_part_of_it(store: Store) -> None:
    def fail() -> None:
        with store.transaction():
            with store.transaction() as connection:
                connection.execute("INSERT INTO one VALUES ('a')")
            _ = 1 / 0

    with pytest.raises(ZeroDivisionError):
        fail()
    assert names(store) == []


def test_a_killed_transaction_leaves_nothing_and_one_that_ended_stays(store: Store) -> None:
    path = store.path
    store.close()

    def killed() -> None:
        child = Store(path, TABLES)
        with child.transaction() as connection:
            connection.execute("INSERT INTO one VALUES ('kept')")
        with child.transaction() as connection:
            connection.execute("INSERT INTO one VALUES ('lost')")
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(killed) == -signal.SIGKILL
    assert names(Store(path, TABLES)) == ["kept"]


def test_threads_write_one_after_another_and_lose_nothing(store: Store) -> None:
    def write(first: int) -> None:
        for number in range(10):
            with store.transaction() as connection:
                (count,) = connection.execute("SELECT count(*) FROM one").fetchone()
                connection.execute("INSERT INTO one VALUES (?)", (f"{count} {first} {number}",))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(int(name.split()[0]) for name in names(store)) == list(range(40))


def test_connections_of_threads_that_ended_are_closed(store: Store) -> None:
    for _ in range(20):
        thread = threading.Thread(target=names, args=(store,))
        thread.start()
        thread.join()
    assert names(store) == []
    files = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.exists()]
    assert files.count(str(store.path)) < 5  # of this thread and the last; SQLite keeps one more


def test_references_are_checked_and_nobody_else_may_read(store: Store) -> None:
    with pytest.raises(sqlite3.IntegrityError), store.transaction() as connection:
        connection.execute("INSERT INTO two VALUES ('nobody')")
    modes = {path.name: path.stat().st_mode & 0o777 for path in store.path.parent.iterdir()}
    assert set(modes.values()) == {0o600}
    assert "desk.sqlite-wal" in modes
    assert store.path.parent.stat().st_mode & 0o777 == 0o700


def test_what_was_deleted_is_in_no_file_once_the_store_is_closed(store: Store) -> None:
    secret = "C-10007-who-is-to-be-forgotten"
    with store.transaction() as connection:
        connection.execute("INSERT INTO one VALUES (?)", (secret,))
    with store.transaction() as connection:
        connection.execute("DELETE FROM one")
    folder = store.path.parent
    assert any(secret.encode() in path.read_bytes() for path in folder.iterdir())
    store.close()
    assert not any(secret.encode() in path.read_bytes() for path in folder.iterdir())


def test_a_file_that_is_no_database_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "desk.sqlite"
    path.write_bytes(b"neither a database nor anything else " * 40)
    with pytest.raises(CheckpointError) as caught:
        Store(path, TABLES)
    assert str(path) in str(caught.value)


def test_a_folder_that_takes_nothing_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "desk").write_text("a file where the folder is to be")
    with pytest.raises(RunError) as caught:
        Store(tmp_path / "desk" / "desk.sqlite", TABLES)
    assert caught.value.code == "not-written"


def test_who_waits_too_long_for_another_process_gets_one_sentence(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unlabel.desk.store.PATIENCE", 0.05)
    other = Store(store.path, TABLES)
    with store.transaction(), pytest.raises(RunError) as caught, other.transaction():
        pass
    assert caught.value.code == "busy"
