"""A party on a disk that is really full: it says so, keeps what it has, and goes on afterwards."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from party.small_disk import filled, mounted
from party.tiny import BEGIN_REQUEST, descend, done, embed, refusal, same, state, tiny_party

from unlabel.config import Policy
from unlabel.party import PassiveParty
from unlabel.party.staging import TRANSCRIPT
from unlabel.remote.request_stats import CountedTranscript, RequestStats
from unlabel.wire import (
    Commit,
    Embeddings,
    Message,
    Purge,
    Refused,
    Rollback,
    Save,
    Saved,
    Stage,
    Status,
    Transcript,
)
from unlabel.wire.transcript import BLOCK

ROWS = torch.arange(3)
FULL = "it cannot write to its own folder (No space left on device); free some room there."


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", "256k") as folder:
        yield folder


def expect_full(party: PassiveParty, message: Message) -> None:
    answer = party.handle(message)
    assert isinstance(answer, Refused), answer
    assert (answer.reason, answer.code) == (FULL, "not-written")


def test_what_cannot_be_kept_is_refused_with_its_cause_and_works_once_there_is_room(
    disk: Path,
) -> None:
    policy = replace(Policy(), max_rows_a_day=1000, max_requests_a_day=9)
    party = tiny_party(disk, policy=policy)
    assert isinstance(party.handle(Save(0, 0)), Saved)
    with filled(disk):
        expect_full(party, Save(0, 1))
    descend(party, ROWS)
    assert isinstance(party.handle(Save(0, 1)), Saved)
    done(party.handle(BEGIN_REQUEST))
    before = state(party)
    with filled(disk):
        expect_full(party, Stage(0, "9f", 2, "{}"))
    assert same(before, state(party))
    staged = party.handle(Stage(0, "9f", 2, "{}"))
    assert isinstance(staged, Saved)
    commit = Commit(0, "9f", 2, staged.digest)
    with filled(disk):
        answer = party.handle(commit)  # what it moves may make just room enough
        assert not isinstance(answer, Refused) or answer.reason == FULL
    done(party.handle(commit))
    assert party.ledger is not None
    assert [entry.event for entry in party.ledger.entries()] == ["commit"]
    assert party.required_store().versions() == (0, 1, 2)
    with filled(disk):
        answer = party.handle(Purge(0, "9f", 2))  # which makes room itself
        assert not isinstance(answer, Refused) or answer.reason == FULL
    done(party.handle(Purge(0, "9f", 2)))
    done(party.handle(replace(BEGIN_REQUEST, request="a1")))
    done(party.handle(Rollback(0, "a1")))
    assert party.required_store().versions() == (2,)


def test_a_budget_that_cannot_be_noted_is_not_spent(disk: Path) -> None:
    party = tiny_party(disk, policy=replace(Policy(), max_requests_a_day=1))
    with filled(disk):
        expect_full(party, BEGIN_REQUEST)
    done(party.handle(BEGIN_REQUEST))
    done(party.handle(Rollback(0, "9f")))
    assert refusal(party.handle(replace(BEGIN_REQUEST, request="a1"))) == "budget"


@pytest.mark.parametrize("counted", [False, True])
def test_a_transcript_that_cannot_be_written_fails_no_request(
    disk: Path, caplog: pytest.LogCaptureFixture, counted: bool
) -> None:
    stats, path = RequestStats(), disk / TRANSCRIPT
    party = tiny_party(disk)
    party.transcript = CountedTranscript(path, stats) if counted else Transcript(path=path)
    with filled(disk), caplog.at_level(logging.WARNING):
        before = state(party)
        for step in range(2 * BLOCK):
            descend(party, ROWS, torch.zeros(3, 1), step=step)
        assert same(before, state(party))
        assert isinstance(party.handle(Status(0)), type(party.handle(Status(0))))
        assert embed(party, ROWS, "predict").isfinite().all()
        said = [record for record in caplog.records if record.name == "unlabel.transcript"]
        assert len(said) == 1
        assert "No space left" in party.transcript.unwritten
        assert counted == bool(stats.transcript)
        assert not counted or len(party.transcript.entries) <= 2 * BLOCK
        assert not path.exists() or path.read_bytes() == b""
    party.flush_transcript()
    assert party.transcript.unwritten == ""
    assert stats.transcript == ""
    assert path.read_text(encoding="utf-8").count("\n") > 0
    assert isinstance(party.handle(Save(0, 0)), Saved)
    assert Embeddings.__name__ in path.read_text(encoding="utf-8")
