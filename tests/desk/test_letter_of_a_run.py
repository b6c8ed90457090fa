"""Letters on what runs really did: from the certificate, the ledgers and the list of copies."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cli.command_line import one_thread
from report import certified as measured
from report.exact_runs import make_run, people, quick_measures

from unlabel import Federation
from unlabel.data import ACTIVE
from unlabel.desk.letter import certified, draft
from unlabel.desk.letter_facts import EXPORT, LEFT, TABLES, WEIGHTS, LetterFacts
from unlabel.desk.letter_words import SENTENCES
from unlabel.errors import CertificateError
from unlabel.report.service import purge_times

__all__ = ["one_thread"]  # a fixture for every test here

WORDS = SENTENCES["en"]
LABEL = "hippopotamus"
TODAY = datetime.now(UTC).date()


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with quick_measures():
        yield


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a blind run in which one person was forgotten, audited and committed."""
    folder = make_run(tmp_path_factory.mktemp("blind") / "run")
    run = Federation.open(folder)
    outcome = run.forget(ids=people(folder, 1))
    run.audit()
    outcome.commit()
    return folder, outcome.result.request


def facts_of(run: Federation, request: str, *, count: int = 1) -> LetterFacts:
    """Return what is recorded, as the desk gathers it, with a certificate made now."""
    path = run.certificate().path
    line = next(each for each in run.ledger()[ACTIVE] if each.event == "commit")
    return LetterFacts(
        number=1,
        received=TODAY,
        today=TODAY,
        state="certified",
        people=count,
        labels=() if count else (LABEL,),
        request=request,
        certificate=certified(path, request, run.folder),
        purged=tuple(purge_times(run.ledger(), request).items()),
        committed=line.at,
        copies=tuple(run.copies()),
    )


def names_left(facts: LetterFacts) -> set[str]:
    """Return what the list of copies calls all that may be left; exports are asked for apart."""
    listed = {copy.what for copy in facts.copies or () if copy.state != "kept"}
    return {what for what in listed if not what.startswith(EXPORT)}


def test_an_exact_request_is_told_as_exact_and_only_what_was_purged_as_removed(
    committed: tuple[Path, str], tmp_path: Path
) -> None:
    folder, request = committed
    run = Federation.open(shutil.copytree(folder, tmp_path / "run"))
    before = draft(facts_of(run, request), "en")
    assert WORDS["refit"] in before
    assert WORDS["exact"] in before
    for key in ("unpurged-own", "table-left"):
        assert WORDS[key] in before
    for key in ("purged-own", "table-cleared"):
        assert WORDS[key] not in before
    run.purge()
    run.export(tmp_path / "top.safetensors")
    record = facts_of(run, request)
    assert names_left(record) <= {*TABLES, WEIGHTS, *LEFT}, "a name of its own in every language"
    assert any(copy.what.startswith(EXPORT) for copy in record.copies or ())
    after = draft(record, "en")
    assert WORDS["exact"] in after
    for key in ("purged-own", "table-cleared"):
        assert WORDS[key] in after
    for key in ("unpurged-own", "unpurged-unknown", "table-left", "table-unknown"):
        assert WORDS[key] not in after


def test_a_request_that_nobody_audited_is_not_told_as_forgotten(tmp_path: Path) -> None:
    folder = measured.make_run(tmp_path)
    request = measured.forget(folder, LABEL, purge=False)
    run = Federation.open(folder)
    record = facts_of(run, request, count=0)
    letter = draft(record, "en")
    assert WORDS["not-stated"] in letter
    assert WORDS["changed-open"] in letter
    assert "tests" not in letter.replace(WORDS["not-stated"], "")
    for party in run.passives:
        assert party in letter, "who did not purge is named"
    run.purge()
    record = facts_of(run, request, count=0)
    letter = draft(record, "en")
    assert "did not confirm" not in letter
    assert WORDS["table-left"] in letter, "nobody cleared the dataset itself"
    assert names_left(record) <= {*TABLES, WEIGHTS, *LEFT}
    # What has a sentence of its own is called so in the list.
    assert {WEIGHTS, TABLES[1]} <= {copy.what for copy in record.copies or ()}


def test_no_letter_is_written_from_a_certificate_that_does_not_hold(
    committed: tuple[Path, str], tmp_path: Path
) -> None:
    folder, request = committed
    run = Federation.open(shutil.copytree(folder, tmp_path / "run"))
    path = run.certificate().path
    assert certified(path, request).request == request
    with pytest.raises(CertificateError):
        certified(path, "0123456789abcdef")
    raw = json.loads(path.read_text())
    raw["certificate"]["term"]["in_time"] = False
    path.write_text(json.dumps(raw))
    with pytest.raises(CertificateError):
        certified(path, request)
