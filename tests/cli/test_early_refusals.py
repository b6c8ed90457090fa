"""A request that cannot work is refused by what lies here: no party is opened or asked for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli.command_line import QUICK, unlabel

from unlabel import Federation


def test_requests_that_cannot_work_open_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    assert unlabel("train", *QUICK, "--out", run).code == 0
    with monkeypatch.context() as closed:
        closed.setattr(Federation, "open", None)
        assert "Unknown label 'quokka'" in unlabel("forget", run, "--label", "quokka").sentence
    assert unlabel("forget", run, "--label", 3, "--any-public").code == 0
    with monkeypatch.context() as closed:
        closed.setattr(Federation, "open", None)
        assert "is staged; commit it" in unlabel("forget", run, "--label", 4).sentence
    assert unlabel("commit", run, "--force").code == 0
    with monkeypatch.context() as closed:
        closed.setattr(Federation, "open", None)
        refused = unlabel("forget", run, "--label", 3).sentence
    assert "Label '3' was already forgotten." in refused
