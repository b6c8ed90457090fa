"""A party's log as JSON: of bounded size, without what must not be in it, and never in the way."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest
from cli.command_line import unlabel

from unlabel.cli.noting import operator
from unlabel.remote import json_log
from unlabel.remote.json_log import FIELDS, logging_to
from unlabel.remote.kit import Kit

log = logging.getLogger("unlabel.test_json_log")


def test_a_line_is_an_object_with_the_listed_fields_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "party.log"
    facts = {"event": "refused", "kind": "Embed", "code": "policy", "bytes": 7}
    with logging_to(path, "json", "shop"):
        log.warning("shop refused %s", "Embed", extra={**facts, "label": "quokka", "ids": ["w-1"]})
        try:
            raise KeyError("nothing")
        except KeyError:
            log.exception("it failed in\ntwo lines")
    first, second = map(json.loads, path.read_text().splitlines())
    assert {name: first[name] for name in facts} == facts
    assert first.keys() - set(FIELDS) == {"time", "level", "event", "message", "party"}
    assert (first["party"], first["level"]) == ("shop", "WARNING")
    assert "quokka" not in path.read_text()
    assert "KeyError" in second["traceback"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_log_takes_no_more_room_than_four_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_log, "FULL", 2_000)
    with logging_to(tmp_path / "party.log", "json", "shop"):
        for number in range(200):
            log.warning("line %d", number)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 1 + json_log.OLD
    assert sum(path.stat().st_size for path in files) <= 2_000 * len(files)
    assert json.loads(files[0].read_text().splitlines()[-1])["message"] == "line 199"


def test_a_record_of_another_thread_that_comes_late_does_not_open_the_log_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "party.log"
    with logging_to(path, "json", "shop"):
        handler = logging.getLogger("unlabel").handlers[-1]  # as a thread has it in hand
        log.warning("in time")
    handler.handle(log.makeRecord(log.name, logging.WARNING, "", 0, "late", (), None))
    assert isinstance(handler, logging.FileHandler)
    assert handler.stream is None  # no file is left open
    assert len(path.read_text().splitlines()) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
def test_a_full_disk_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    (tmp_path / "party.log").symlink_to("/dev/full")
    with logging_to(tmp_path / "party.log", "json", "shop"):
        for _ in range(3):
            log.warning("nobody will read this")


def test_another_format_is_refused(kits: Path) -> None:
    assert "text" in unlabel("party", "start", kits / "shop", "--log-format", "xml").sentence


def commands(kit: Path, who: str = "") -> list[dict[str, object]]:
    """Return what the log of commands says of each, without its times."""
    lines = (kit / "state" / "logs" / "commands.log").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    assert {each.pop("who") for each in found} == {who or operator()}
    return [{n: each[n] for n in ("event", "command", "code") if n in each} for each in found]


def test_every_command_leaves_who_what_when_and_how_it_ended(kits: Path, tmp_path: Path) -> None:
    for name in ("active", "shop"):
        Kit.read(kits / name).prepare()
    assert unlabel("forget", "--federation", kits / "active", "--label", "quokka").code == 1
    assert commands(kits / "active") == [
        {"event": "command", "command": "forget"},
        {"event": "ended", "command": "forget", "code": "no-table"},
    ]
    assert "quokka" not in (kits / "active/state/logs/commands.log").read_text()
    (kits / "shop" / "ours.py").write_text("x = 1")
    assert unlabel("federation", "accept", kits / "shop", "ours.py").code == 0
    assert unlabel("party", "backup", kits / "shop", tmp_path / "shop.tar").code == 0
    assert unlabel("party", "restore", tmp_path / "shop.tar", kits / "shop").code == 0
    ended = {"event": "ended", "code": "done"}
    assert commands(kits / "shop") == [  # also those from before the folder was restored
        {**ended, "command": f"{first} {second}"}
        for first, second in (("federation", "accept"), ("party", "backup"), ("party", "restore"))
    ]


def test_a_user_without_a_name_is_noted_by_its_number(
    kits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container may run under any number."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    Kit.read(kits / "shop").prepare()
    assert unlabel("party", "backup", kits / "shop", tmp_path / "shop.tar").code == 0
    line = {"event": "ended", "command": "party backup", "code": "done"}
    assert commands(kits / "shop", "54321") == [line]


def test_where_nothing_was_started_no_state_is_made_for_a_line(kits: Path) -> None:
    assert unlabel("federation", "request", kits / "bank", "--out", kits / "bank.csr").code == 0
    assert not (kits / "bank" / "state").exists()
