"""`unlabel party repair`, as the operator of a party runs it."""

from __future__ import annotations

import json
from pathlib import Path

from cli.command_line import unlabel
from party.test_wedge import locked

from unlabel.party.repair import kept_in
from unlabel.remote.kit import Kit


def test_an_operator_sees_what_lies_there_and_drops_what_nobody_else_has(kits: Path) -> None:
    kit = Kit.open(kits / "shop")
    kit.prepare()
    locked(kit.home)
    shown = unlabel("party", "repair", kits / "shop")
    assert f"Versions here: 0, 1, {2**62}" in " ".join(shown.err.split())
    assert kept_in(kit.home).versions == (0, 1, 2**62)
    with kit.lock():
        assert "already open in process" in unlabel("party", "repair", kits / "shop").sentence
    assert "label holder" in unlabel("party", "repair", kits / "active").sentence
    found = unlabel("party", "repair", kits / "shop", "--newest", 1, "--json")
    assert found.json == {"newest": 1, "dropped": [2**62], "dropped_staged": []}
    assert f"dropped versions {2**62}" in (kit.logs / "commands.log").read_text(encoding="utf-8")
    # All lines are JSON, for whatever collects them, and it says who dropped how many.
    logs = kit.logs.glob("*.log")
    lines = [json.loads(line) for log in logs for line in log.read_text("utf-8").splitlines()]
    events = [(line["event"], line["who"], line.get("count")) for line in lines if "who" in line]
    assert ("repaired", "shop", 1) in events
