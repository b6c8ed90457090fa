"""A party whose bottom never sees a label: what it serves, what moves it, and what it signs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from blind_runs import attested, blind_run, cells, passives_of, write_files
from cli.command_line import one_thread

from unlabel import Federation
from unlabel.config import Policy
from unlabel.config.party import SERVES
from unlabel.errors import PartyRefused
from unlabel.party import PassiveParty
from unlabel.wire import (
    BeginLabelFree,
    BeginRequest,
    Commit,
    ContrastAlone,
    Embed,
    Embeddings,
    Freeze,
    Gradients,
    Message,
    Prepare,
    Purge,
    Refused,
    Restore,
    Stage,
)

__all__ = ["one_thread"]  # a fixture for every test here

ROWS = torch.arange(8)
ACROSS: dict[str, Any] = {"objective": "contrast"}
ALONE: dict[str, Any] = {"objective": "contrast", "across": False}


def state_of(party: PassiveParty) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in party.bottom.model_state().items()}


def unmoved(party: PassiveParty, before: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(tensor, before[name]) for name, tensor in state_of(party).items())


def gradients(party: PassiveParty, step: int = 0) -> Gradients:
    return Gradients(step, torch.ones(len(ROWS), party.width))


@pytest.mark.parametrize("form", [{}, ALONE], ids=["components", "contrast alone"])
def test_a_bottom_that_a_party_makes_alone_takes_no_gradient_at_all(form: dict[str, Any]) -> None:
    run = blind_run(cells(), **form)
    for party in run.passives.values():
        refusal = party.handle(gradients(party))
        assert isinstance(refusal, Refused)
        assert refusal.code == "policy"
    assert {part["gradients"] for part in attested(run).values()} == {0}
    assert {part["gradients_digest"] for part in attested(run).values()} == {""}


def test_gradients_of_agreement_are_counted_and_digested_in_what_a_party_signs() -> None:
    run, other = (blind_run(cells(seed), **ACROSS) for seed in (0, 1))
    parts = attested(run)
    # Two epochs of three batches: 72 rows to learn from, 32 at a time.
    assert {part["gradients"] for part in parts.values()} == {6}
    assert len({part["gradients_digest"] for part in parts.values()}) == 2
    for name, part in attested(other).items():
        assert part["gradients_digest"] == parts[name]["gradients_digest"]


@pytest.mark.parametrize("mode", ["train", "frozen", "inputs", "pair"])
def test_after_it_is_kept_for_good_nothing_moves_a_blind_bottom(mode: str) -> None:
    run = blind_run(cells(), **ACROSS)
    party = run.passives["shop"]
    before = state_of(party)
    assert isinstance(party.handle(Embed(0, ROWS, mode, "main")), Refused)  # type: ignore[arg-type]
    assert isinstance(party.handle(gradients(party)), Refused)
    assert isinstance(party.handle(ContrastAlone(0, ROWS)), Refused)
    assert unmoved(party, before)


def test_gradients_that_come_after_the_freeze_are_refused_though_they_were_awaited() -> None:
    run = blind_run(cells(), train=False, **ACROSS)
    party = run.passives["shop"]
    party.handle(BeginLabelFree(0, torch.arange(60), 4))
    sent = party.handle(Embed(0, ROWS, "pair", "main"))
    assert isinstance(sent, Embeddings)
    assert not isinstance(party.handle(Freeze(0, "yes")), Refused)
    before = state_of(party)
    assert isinstance(party.handle(Gradients(0, torch.ones_like(sent.values))), Refused)
    assert unmoved(party, before)


def test_modes_that_leave_a_trace_in_a_blind_bottom_are_never_served() -> None:
    run = blind_run(cells(), train=False, **ALONE)
    party = run.passives["gym"]
    party.handle(BeginLabelFree(0, torch.arange(60), 4))
    before = state_of(party)
    for mode in ("train", "frozen"):
        refusal = party.handle(Embed(0, ROWS, mode, "main"))
        assert isinstance(refusal, Refused)
        assert refusal.code == "policy"
    assert unmoved(party, before)


@pytest.mark.parametrize(
    "message",
    [
        Prepare(0, ROWS, 5),
        BeginRequest(0, "r", 1, 0.1, "constant", 0.0, 0.0, "no", 0.0, 1.0),
        Stage(0, "r", 9, "{}"),
        Commit(0, "r", 9, "0" * 64),
        Purge(0, "r", 1),
        BeginLabelFree(0, ROWS, 0),
    ],
    ids=lambda message: type(message).__name__,
)
def test_a_finished_blind_bottom_is_asked_for_nothing_but_embeddings(
    message: Message, tmp_path: Path
) -> None:
    run = blind_run(cells(), tmp_path / "run")
    kept, party = passives_of(run), run.passives["shop"]
    before = state_of(party)
    refusal = party.handle(message)
    assert isinstance(refusal, Refused)
    assert refusal.code in ("policy", "wrong-request")
    assert unmoved(party, before)
    assert passives_of(run) == kept


def test_a_return_to_a_version_of_its_making_does_not_change_a_finished_bottom() -> None:
    run = blind_run(cells(), **ACROSS)
    party = run.passives["shop"]
    before = state_of(party)
    assert party.store is not None
    for version in party.store.versions():
        party.handle(Restore(0, version, ""))
    assert unmoved(party, before)


def test_a_purge_of_a_tuned_run_keeps_the_bottom_made_without_labels(tmp_path: Path) -> None:
    run = blind_run(cells(), tmp_path / "run", kind="tuned")
    bases = {
        name: party.store.base.digest(1) for name, party in run.passives.items() if party.store
    }
    run.forget(["beech"]).commit()
    run.purge()
    reopened = Federation.open(run.folder)
    assert reopened.bottoms is not None
    assert reopened.bottoms.base is not None
    for name, party in reopened.passives.items():
        assert party.store is not None
        assert party.store.base.digest(1) == bases[name] == reopened.bottoms.base.weights[name]


@pytest.mark.parametrize(
    ("policy", "word"),
    [
        (Policy(serves=tuple(kind for kind in SERVES if kind != "BeginLabelFree")), "serve"),
        (Policy(kept_embeddings=False), "kept_embeddings"),
    ],
    ids=["no label-free training", "no kept embeddings"],
)
def test_a_party_that_refuses_is_named_and_nothing_is_lost(
    policy: Policy, word: str, tmp_path: Path
) -> None:
    config = write_files(tmp_path / "tables", cells())
    run = Federation.create(replace(config, policy=policy), tmp_path / "run")
    kept = passives_of(run)
    with pytest.raises(PartyRefused, match=word) as refusal:
        run.train()
    assert "'shop'" in str(refusal.value)
    assert passives_of(run) == kept
    assert run.version is None
