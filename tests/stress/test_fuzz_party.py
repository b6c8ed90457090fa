"""The bench of parties that run on under hostile messages: clean ones pass, faulty ones do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from stress import fuzz_party
from stress.fuzz_inputs import inputs
from stress.fuzz_party import (
    FuzzPartySettings,
    Watched,
    measure,
    resident_mib,
    say_nothing,
    work,
)
from unlabel.errors import Refusal, SettingsError
from unlabel.party import PassiveParty
from unlabel.wire import BeginRequest, Message, Refused, Restore, Stage, encode


def test_parties_live_through_a_few_hundred_messages_and_end_as_their_twins() -> None:
    work(600, 4, say_nothing)  # libraries are imported late, and memory that they take is no growth
    result = work(600, 4, say_nothing)
    assert result["messages"] == 600
    assert result["violations"] == []
    assert result["refused"] > 300
    assert {"Embed", "Gradients", "Prepare"} <= set(result["served"])
    assert 0 < result["disk_mib"] < fuzz_party.DISK_MIB
    assert abs(result["memory_growth_mib"]) < fuzz_party.GROWTH_MIB


class Careless(PassiveParty):
    """Moves its weights a little whenever it refuses something."""

    def _refuse(self, message: Message, reason: str, code: Refusal) -> Refused:
        with torch.no_grad():
            next(self.bottom.module.parameters()).mul_(1.0001)
        return super()._refuse(message, reason, code)


def test_a_party_that_moves_where_it_refuses_is_found_at_the_end(tmp_path: Path) -> None:
    watched = Watched(tmp_path / "all")
    watched.narrow.__class__ = Careless
    for data in inputs(40, 1):
        watched.feed(data)
    assert {wrong["party"] for wrong in watched.findings.violations} == {"narrow"}
    watched.findings.violations.clear()
    watched.compare()
    assert watched.findings.violations[0]["what"] == "differs from its twin in 'main'"


def test_a_party_whose_twin_heard_something_else_is_found(tmp_path: Path) -> None:
    watched = Watched(tmp_path / "all")
    assert watched.party.twin is not None
    watched.compare()
    assert watched.findings.violations == []
    with torch.no_grad():
        next(watched.party.twin.bottom.module.parameters()).add_(1e-3)
    watched.compare()
    assert watched.findings.violations[0]["what"] == "differs from its twin in 'main'"


def test_a_party_that_diverged_returns_to_a_version_or_starts_again(tmp_path: Path) -> None:
    watched = Watched(tmp_path / "all")
    for restarts in (0, 1):
        with torch.no_grad():
            for party in (watched.party, watched.party.twin):
                assert party is not None
                next(party.bottom.module.parameters()).fill_(torch.nan)
        watched.ordinary.weights = watched.ordinary._weights()
        if restarts:
            watched.ordinary.versions.clear()
        watched.revive()
        assert watched.restarts == restarts
        watched.compare()
        assert watched.findings.violations == []


def test_a_version_that_is_staged_may_be_restored_and_no_other(tmp_path: Path) -> None:
    watched = Watched(tmp_path / "all")
    begin_request, staged = BeginRequest(0, "abc", 1, 0.1, "constant", 0.0, 0.0, "no", 0.0, 0.0), 2
    for message in (
        begin_request,
        Stage(0, "abc", staged, "{}"),
        Restore(0, staged, ""),
        Restore(0, 12, ""),
    ):
        watched.feed(encode(message))
    assert watched.findings.violations == []
    assert (watched.findings.served["Restore"], watched.findings.served["Stage"]) == (2, 2)
    watched.ordinary.staged = None  # the judge forgets that it was staged
    watched.feed(encode(Restore(0, staged, "")))
    assert "never asked to save" in watched.findings.violations[0]["what"]


def test_growth_of_memory_and_of_the_folder_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = iter([100.0, 150.0])
    monkeypatch.setattr(fuzz_party, "resident_mib", lambda: next(sizes))
    monkeypatch.setattr(fuzz_party, "DISK_MIB", 0.0)
    result = work(10, 0, say_nothing)
    messages = [wrong["what"] for wrong in result["violations"]]
    assert messages[0] == "memory grew by 50.0 MiB"
    assert messages[1].startswith("its folder grew to ")


def test_workers_share_the_messages_and_their_findings_are_joined(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jobs: list[Any] = []

    class Pool:
        def __init__(self, *args: Any, **named: Any) -> None: ...
        def __enter__(self) -> Pool:
            return self

        def __exit__(self, *args: object) -> None: ...
        def map(self, call: Any, given: list[Any]) -> list[Any]:
            jobs.extend(given)
            return [call(job) for job in given]

    monkeypatch.setattr(fuzz_party, "ProcessPoolExecutor", Pool)
    result = measure(FuzzPartySettings(count=31, workers=3, seed=5), say_nothing)
    assert [count for count, _ in jobs] == [11, 10, 10]
    assert len({seed for _, seed in jobs}) == 3
    assert (result["messages"], result["violations"]) == (31, [])
    assert sum(result["served"].values()) > 0


def test_settings_and_memory() -> None:
    assert resident_mib() > 10
    with pytest.raises(SettingsError, match="workers"):
        FuzzPartySettings(workers=0)
