"""A ledger only grows, and a line that was tampered with is found."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unlabel.errors import CheckpointError
from unlabel.party.ledger import Ledger


def make_ledger(folder: Path) -> Ledger:
    """Write four lines: two requests, one of them committed and purged, one dropped."""
    ledger = Ledger(folder)
    ledger.append("commit", "9f", {"labels": ["7"], "method": "grün\u2028"})
    ledger.append("rollback", "a1", {"people": 3})
    ledger.append("purge", "9f", {"version": 8})
    ledger.append("commit", "b2", {"commitment": "cd"})
    return ledger


def lines_of(ledger: Ledger) -> list[bytes]:
    return ledger.path.read_bytes().splitlines(keepends=True)


def broken(ledger: Ledger) -> str:
    with pytest.raises(CheckpointError) as caught:
        ledger.entries()
    for use in (ledger.head, lambda: ledger.append("commit", "c3", {})):
        with pytest.raises(CheckpointError):
            use()
    return str(caught.value)


def test_before_the_first_line_there_is_no_file_and_no_end(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    assert (ledger.entries(), ledger.head()) == ([], "")
    assert list(tmp_path.iterdir()) == []


def test_each_hash_covers_the_line_and_the_hash_before_it(tmp_path: Path) -> None:
    ledger = make_ledger(tmp_path)
    previous = ""
    for index, line in enumerate(lines_of(ledger)):
        fields = json.loads(line)
        told = fields.pop("hash")
        assert (fields["index"], fields["previous"]) == (index, previous)
        text = json.dumps(fields, sort_keys=True).encode()
        assert told == hashlib.sha256(text).hexdigest()
        previous = told
    assert ledger.head() == previous
    assert [(e.event, e.request) for e in ledger.entries()] == [
        *(("commit", "9f"), ("rollback", "a1"), ("purge", "9f"), ("commit", "b2")),
    ]
    assert ledger.entries()[0].note == {"labels": ["7"], "method": "grün\u2028"}


def test_lines_are_added_and_none_is_ever_written_differently(tmp_path: Path) -> None:
    ledger = make_ledger(tmp_path)
    before = ledger.path.read_bytes()
    ledger.append("purge", "b2", {"version": 9})
    after = ledger.path.read_bytes()
    assert after.startswith(before)
    assert after[len(before) :].count(b"\n") == 1


def test_what_was_said_of_a_request_is_not_said_twice(tmp_path: Path) -> None:
    ledger = make_ledger(tmp_path)
    before = ledger.path.read_bytes()
    for _ in range(2):
        ledger.append("commit", "9f", {"labels": ["another"]})
        ledger.append("rollback", "a1", {})
    assert ledger.path.read_bytes() == before


def test_every_line_that_is_dropped_is_found(tmp_path: Path) -> None:
    ledger = make_ledger(tmp_path)
    lines, end = lines_of(ledger), ledger.head()
    for index in range(len(lines)):
        ledger.path.write_bytes(b"".join(lines[:index] + lines[index + 1 :]))
        if index < len(lines) - 1:
            assert f"its chain breaks at line {index + 1}." in broken(ledger)
        else:  # a chain does not know that it once was longer, but whoever was told its end does
            assert ledger.head() != end


def test_every_line_that_is_moved_or_repeated_is_found(tmp_path: Path) -> None:
    ledger = make_ledger(tmp_path)
    lines = lines_of(ledger)
    for source in range(len(lines)):
        rest = lines[:source] + lines[source + 1 :]
        for target in range(len(lines)):
            if target != source:
                ledger.path.write_bytes(b"".join([*rest[:target], lines[source], *rest[target:]]))
                broken(ledger)
        for target in range(len(lines) + 1):
            ledger.path.write_bytes(b"".join([*lines[:target], lines[source], *lines[target:]]))
            broken(ledger)


def test_every_line_that_is_inserted_is_found(tmp_path: Path) -> None:
    ledger = make_ledger(tmp_path)
    lines = lines_of(ledger)
    other = Ledger(tmp_path / "other")
    for request in ("d4", "e5", "f6", "07", "18"):
        other.append("commit", request, {})
    for foreign in (*lines_of(other), b"\n", b"{}\n", b"[]\n", b"null\n", b"\xff\n", b"[" * 5_000):
        for target in range(len(lines) + 1):
            ledger.path.write_bytes(b"".join([*lines[:target], foreign, *lines[target:]]))
            broken(ledger)


def test_a_single_byte_that_is_changed_dropped_or_added_is_found(tmp_path: Path) -> None:
    ledger = make_ledger(tmp_path)
    data = ledger.path.read_bytes()
    for position in range(len(data) - 1):
        changes = (
            data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :],
            data[:position] + data[position + 1 :],
            data[:position] + b" " + data[position:],
        )
        ledger.path.write_bytes(changes[position % 3])
        with pytest.raises(CheckpointError):
            ledger.entries()


def test_a_field_that_is_said_twice_in_a_line_is_found(tmp_path: Path) -> None:
    ledger = make_ledger(tmp_path)
    data = ledger.path.read_bytes()
    ledger.path.write_bytes(data.replace(b'{"index": 0', b'{"note": "hidden", "index": 0', 1))
    assert "its chain breaks at line 1." in broken(ledger)


@pytest.mark.parametrize("data", [b"", b"\n", b"\n\n"])
def test_a_ledger_that_was_emptied_is_found(tmp_path: Path, data: bytes) -> None:
    ledger = make_ledger(tmp_path)
    ledger.path.write_bytes(data)
    assert "is truncated or was changed" in broken(ledger)


def test_a_line_with_a_hash_of_its_own_does_not_fit_into_the_chain(tmp_path: Path) -> None:
    ledger = make_ledger(tmp_path)
    lines = lines_of(ledger)
    fields = json.loads(lines[1])
    fields["note"] = {"people": 0}
    plain = {name: value for name, value in fields.items() if name != "hash"}
    fields["hash"] = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    lines[1] = json.dumps(fields).encode() + b"\n"
    ledger.path.write_bytes(b"".join(lines))
    assert "its chain breaks at line 3." in broken(ledger)


flat = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()


@given(st.dictionaries(st.text(), flat | st.lists(flat)))
def test_whatever_a_note_says_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, note: dict[str, object]
) -> None:
    ledger = Ledger(tmp_path_factory.mktemp("ledger"))
    ledger.append("commit", "9f", note)
    ledger.append("purge", "9f", {})
    assert [entry.note for entry in ledger.entries()] == [note, {}]


#: Forks once for each system call that Python reports while a line is added, and ends the child
#: right before that call, as if the machine had lost its power.
PROGRAM = """
import os, sys
from pathlib import Path
from unlabel.party.ledger import Ledger

folder = Path(sys.argv[1])
ledger = Ledger(folder)
ledger.append("commit", "9f", {"labels": ["7"]})
old = ledger.path.read_bytes()
found = []
for moment in range(1_000):
    ledger.path.write_bytes(old)
    child = os.fork()
    if child == 0:
        left = moment
        def hook(event, arguments):
            global left
            if event == "open" or event.startswith("os."):
                if left == 0:
                    os._exit(9)
                left -= 1
        sys.addaudithook(hook)
        fsync = os.fsync
        os.fsync = lambda handle: (hook("os.fsync", ()), fsync(handle))
        ledger.append("rollback", "a1", {"people": 3})
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    events = [entry.event for entry in ledger.entries()]
    assert ledger.path.read_bytes().startswith(old)
    found.append(len(events))
    ledger.append("rollback", "a1", {"people": 3})
    assert [entry.event for entry in ledger.entries()] == ["commit", "rollback"]
    assert sorted(path.name for path in folder.iterdir()) == ["ledger.jsonl"]
    if code == 0:
        break
    assert code == 9
print(*found)
"""


def test_a_crash_while_a_line_is_added_leaves_the_old_ledger_or_the_new(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lengths = [int(text) for text in done.stdout.split()]
    assert lengths == sorted(lengths)
    assert set(lengths) == {1, 2}
    assert len(lengths) >= 5
