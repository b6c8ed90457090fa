"""What names the forgotten label on the active party's disk, nobody else can read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli.command_line import one_thread
from forget.one_piece import federation

from unlabel.forget import ForgetSettings
from unlabel.forget.methods.hidden import Hidden

__all__ = ["one_thread"]  # a fixture for every test here


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Let new files be readable to everybody who is not kept out."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_the_active_party_keeps_its_versions_and_its_ledger_to_itself(tmp_path: Path) -> None:
    fed = federation(parties=2, epochs=1, folder=tmp_path)
    fed.train()
    method = Hidden(steps=5, batch=16)
    fed.forget([1], settings=ForgetSettings(method=method, allow_collapse=True)).commit(force=True)
    fed.forget([3], settings=ForgetSettings(method=method, allow_collapse=True)).rollback()
    fed.forget([2], settings=ForgetSettings(method=method, allow_collapse=True))

    def readable(party: str) -> list[Path]:
        files = [path for path in (tmp_path / party).rglob("*") if path.is_file()]
        assert {path.parent.name for path in files} >= {party, "versions", "staged"}
        return [path for path in files if path.stat().st_mode & 0o077]

    assert readable("active") == []
    assert '"birch"' in (tmp_path / "active" / "ledger.jsonl").read_text()
    manifest = next((tmp_path / "active" / "staged").glob("*.json"))
    assert json.loads(manifest.read_text())["facts"]["note"]["labels"] == ["cedar"]
    assert {path.name for path in readable("passive-1")} >= {"ledger.jsonl", manifest.name}
