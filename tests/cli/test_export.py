"""`unlabel export`, and what `verify` and `serve` say of an export before and after a commit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli.command_line import QUICK, one_thread, unlabel

from unlabel.cli.exits import DONE, ERROR, NOT_PASSED, USAGE

__all__ = ["one_thread"]

BLIND = (*QUICK[:4], "--bottoms", "blind", "--label-free-epochs", 1)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "run"
    assert unlabel("train", *BLIND, "--out", folder).code == DONE
    return folder


def test_an_export_is_verified_until_a_commit_and_then_neither_verified_nor_served(
    run: Path, tmp_path: Path
) -> None:
    top, note = tmp_path / "top.safetensors", run / "exports.json"
    exported = unlabel("export", run, "--out", top, "--json")
    assert exported.code == DONE
    facts = json.loads(exported.out)
    assert (facts["file"], facts["revocations"]) == (str(top), str(note))
    some: tuple[list[object], ...] = (["--run", run], ["--revocations", note], [])
    for flags in some:
        assert unlabel("verify", top, *flags).code == DONE
    assert unlabel("forget", run, "--label", 3).code == DONE
    assert unlabel("verify", top, "--run", run).code == DONE, "nothing was decided yet"
    assert unlabel("commit", run, "--force").code == DONE
    for flags in some[:2]:
        assert unlabel("verify", top, *flags).code == NOT_PASSED
        flags = [run] if run in flags else flags
        assert unlabel("serve", *flags, "--top", top, "--port", 0).code == ERROR
    checked = json.loads(unlabel("verify", top, "--run", run, "--json").out)
    assert not checked["holds"]
    assert all(fault.endswith(".") for fault in checked["faults"])


def test_what_cannot_be_meant_is_refused(run: Path, tmp_path: Path) -> None:
    assert unlabel("export", run, "--out", tmp_path / "top.bin").code == ERROR
    assert unlabel("serve", "--top", tmp_path / "nothing.safetensors").code == ERROR
    words = ("--top", tmp_path / "top.safetensors", "--device", "cpu")
    assert unlabel("serve", run, *words).code == USAGE
    assert list(tmp_path.iterdir()) == []
