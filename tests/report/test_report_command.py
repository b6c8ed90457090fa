"""`unlabel report`: from a run with an audit to a page, and what it says where there is none."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import nothing_written, one_thread, unlabel
from report import verdicts
from report.certified import keep_audit

from unlabel.audit import Verdict, observe
from unlabel.audit.pictures import picture_data
from unlabel.audit.verdict import FORMAT, KINDS, read_verdict
from unlabel.errors import RunError
from unlabel.federation import Federation
from unlabel.party import LedgerEntry
from unlabel.report.service import purge_times, state_since

__all__ = ["one_thread"]


def keep(run: Path, found: Any) -> Path:
    """Write what an audit would have written."""
    if isinstance(found, Verdict):
        return keep_audit(run, found)
    path = run / "active" / "audit.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found))
    return path


def plain(verdict: Verdict) -> dict[str, Any]:
    found = json.loads(json.dumps(verdict.to_json(), allow_nan=False))
    assert isinstance(found, dict)
    return found


def entry(event: str, request: str, at: str = "then") -> LedgerEntry:
    return LedgerEntry(0, event, request, at, {}, "", "")


# --- reading -------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [verdicts.full, verdicts.bare, verdicts.top_only])
def test_a_verdict_comes_back_from_its_file_as_it_was(tmp_path: Path, made: Any) -> None:
    found = read_verdict(keep(tmp_path, made()))
    assert plain(found) == plain(made())
    assert found.findings == made().findings


def test_every_part_of_a_verdict_is_asked_for(tmp_path: Path) -> None:
    whole = plain(verdicts.full())
    for name in KINDS:
        for broken in ({k: v for k, v in whole.items() if k != name}, {**whole, name: None}):
            with pytest.raises(RunError, match=f"`{name}` is not there or of another kind"):
                read_verdict(keep(tmp_path, broken))


def test_a_purge_counts_for_the_requests_that_were_committed_before_it() -> None:
    lines = [
        *(entry("commit", "one"), entry("commit", "two"), entry("purge", "one", "late")),
        *(entry("purge", "two", "first"), entry("purge", "two", "again")),
    ]
    ledgers = {"left": lines, "right": lines[:2]}
    assert purge_times(ledgers, "two") == {"left": "first", "right": None}
    assert purge_times(ledgers, "one") == {"left": "late", "right": None}
    assert purge_times(ledgers, "other") == {"left": None, "right": None}


def test_what_was_decided_after_the_audit_is_known_from_the_ledger() -> None:
    lines = [entry("commit", "one"), entry("purge", "one"), entry("rollback", "two")]
    assert state_since(lines, "one", "staged") == "committed"
    assert state_since(lines, "two", "staged") == "rolled-back"
    assert state_since(lines, "three", "staged") == "staged"


# --- the command ---------------------------------------------------------------------------


def test_a_run_that_forgot_gets_its_page(tmp_path: Path) -> None:
    run = tmp_path / "run"
    unlabel("train", "--data", "digits", "--model", "mlp", "--epochs", "4", "--out", run)
    before = Federation.open(run)
    names = before.labels
    original = observe(before.active, before.holdings.rows, names)
    request = unlabel("forget", run, "--label", "3", "--json").json["request"]
    assert unlabel("commit", run, "--force", "--json").json["committed"]
    after = Federation.open(run)
    forgotten = observe(after.active, after.holdings.rows, names)
    assert unlabel("purge", run, "--json").json["purged"]
    pictures = picture_data({"original": original, "forgotten": forgotten}, [3], names)
    found = replace(verdicts.full(), request=request, state="staged", labels=("3",))
    keep(run, replace(found, pictures=pictures))
    told = unlabel("report", run, "--json").json
    target = run / "report.html"
    assert told == {
        "report": str(target),
        "request": request,
        "depth": "top",
        "passed": True,
        "run": str(run),
    }
    text = target.read_text(encoding="utf-8")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    for party in ("active", *before.passives):
        assert f"is attested by {party} on 20" in text
    assert f"Request {request}" in text
    assert "The new model is in use at all parties." in text  # decided on after the audit
    assert text.count('<svg role="img"') == 12  # no retrained model, no distribution of it
    # A run with a report can be replaced like any other.
    (run / "active" / "audit.json").unlink()
    overwrite = ("train", "--data", "digits", "--model", "mlp", "--epochs", "1", "--out", run)
    assert unlabel(*overwrite, "--overwrite", "--discard-forgotten").code == 0


def test_the_page_may_go_elsewhere_and_says_when_ledgers_cannot_be_read(tmp_path: Path) -> None:
    keep(tmp_path / "run", verdicts.full())
    done = unlabel("report", tmp_path / "run", "--out", tmp_path / "there" / "page.html")
    assert done.code == 0
    words = "since, and of older weights, is not known, nor whether the audit was changed: "
    assert f"What became of the request {words}" in done.err
    text = (tmp_path / "there" / "page.html").read_text(encoding="utf-8")
    assert f"What became of the request {words}" in text
    assert not (tmp_path / "run" / "report.html").exists()


def test_without_an_audit_it_says_what_to_run_first(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    sentence = unlabel("report", tmp_path / "run").sentence
    assert sentence.endswith(f"run `unlabel audit {tmp_path / 'run'}` first.")
    sentence = unlabel("report", tmp_path / "nowhere").sentence
    assert "There is no run folder" in sentence


def changed(**parts: Any) -> dict[str, Any]:
    return {**plain(verdicts.full()), **parts}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "it is no JSON"),
        ("[]", "it holds no object"),
        ("[" * 100_000, "it is no JSON"),
        ({"format": FORMAT + 1}, f"(format {FORMAT + 1}, not {FORMAT})"),
        ({}, "another version wrote it (format None"),
        (changed(depth="deepest"), "it knows other depths than none, answers, top, bottoms"),
        (changed(findings=[{"depth": "top"}]), "a finding in it lacks something"),
        (changed(findings=[["top"]]), "a finding in it lacks something"),
        (
            changed(
                findings=[{"depth": "top", "measure": "m", "ruling": "perfect", "sentence": "s"}]
            ),
            "an unknown depth or ruling",
        ),
        (changed(pictures={"accuracy": {"original": 3}, "labels": ["a"]}), "(TypeError: "),
        (changed(measures={"echo": {}}), "(KeyError: "),
        (changed(messages={"left": [{"at": "never", "direction": "sent"}]}), "(ValueError: "),
    ],
)
def test_an_audit_that_was_changed_is_refused_in_a_sentence(
    tmp_path: Path, content: Any, words: str
) -> None:
    path = keep(tmp_path, content)
    if isinstance(content, str):
        path.write_text(content)
    with nothing_written(tmp_path):
        sentence = unlabel("report", tmp_path).sentence
    assert words in sentence
    assert sentence.endswith("run `unlabel audit` again.")
