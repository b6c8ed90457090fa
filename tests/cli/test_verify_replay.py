"""`unlabel verify --replay`: exit 0 where a request comes out again, 3 with what does not match."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cli.command_line import one_thread, unlabel
from report.exact_runs import make_run, quick_measures, replace_tensors

__all__ = ["one_thread"]  # a fixture for every test here


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = make_run(tmp_path_factory.mktemp("blind") / "run")
    with quick_measures():
        assert unlabel("forget", run, "--label", "beech").code == 0
        shown = unlabel("audit", run)
    assert shown.code == 0
    assert "Guarantee: exact, the same weights as a training that never had the label" in shown.out
    assert "Measured all the same" in shown.out
    assert "This is probable" not in shown.out
    assert unlabel("commit", run).code == 0
    written = unlabel("certificate", run)
    assert "Forgotten exactly, by construction." in written.out
    assert "shop, its bottom" in written.out
    return run


def test_a_request_that_comes_out_again_holds(certified: Path) -> None:
    shown = unlabel("verify", certified / "certificate.json", "--replay", certified)
    assert shown.code == 0
    assert "Replayed bit for bit" in shown.err
    assert "Guarantee: exact" in shown.err
    facts = unlabel("verify", certified / "certificate.json", "--replay", certified, "--json").json
    assert (facts["guarantee"], facts["depth"], facts["holds"]) == ("exact", "bottoms", True)
    summary = unlabel("certificate", certified, "--json").json
    assert (summary["guarantee"], summary["signed_bottoms"]) == ("exact", ["shop"])


def test_one_that_does_not_is_named_and_exits_3(certified: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(certified, tmp_path / "run"))
    body = json.loads((run / "certificate.json").read_text())["certificate"]
    path = run / "active" / "versions" / f"{body['version']:06d}.safetensors"
    replace_tensors(path, lambda tensors: [t.add_(1) for t in tensors.values()])
    shown = unlabel("verify", run / "certificate.json", "--replay", run)
    assert shown.code == 3
    assert "is not what comes out when it is computed again from what stays" in shown.err
    assert "does not hold" in shown.finding


def test_a_folder_that_is_no_run_is_refused(certified: Path, tmp_path: Path) -> None:
    shown = unlabel("verify", certified / "certificate.json", "--replay", tmp_path)
    assert shown.code == 1
    assert "is not a run folder" in shown.sentence
