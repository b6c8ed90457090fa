"""A notebook between organisations: a party gets lost in every verb, and all ends the same.

The parties are those of kits, in this process; the way to them breaks once in each verb.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from federation.course import KEY
from federation.test_predicting import NEW, here, train_in
from small_parties import LABELS, PARTIES, InterruptibleTransport, person

import unlabel as ul
from unlabel.data import ACTIVE
from unlabel.errors import PartyLost
from unlabel.remote.connect import RemoteFederation
from unlabel.wire import Message


class Breaking:
    """Counts the calls of a verb, and breaks the way to all parties at one of them, once."""

    def __init__(self) -> None:
        self.calls, self.at = 0, -1

    def expect(self, at: int) -> None:
        self.calls, self.at = 0, at

    def look(self, parties: list[str]) -> None:
        self.calls += 1
        if self.calls - 1 == self.at:
            self.at = -1
            raise PartyLost(f"Party '{parties[0]}' did not answer.", parties)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    train_in(folder, "refuse")
    return folder


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> Breaking:
    found, exchange = Breaking(), InterruptibleTransport.exchange

    def breaks(self: InterruptibleTransport, requests: Mapping[str, Message]) -> dict[str, Message]:
        # After the call, as where an answer is lost on its way: what was asked has been done.
        answers = exchange(self, requests)
        found.look(list(requests))
        return answers

    monkeypatch.setattr(InterruptibleTransport, "exchange", breaks)
    return found


#: Every verb, in an order in which each makes sense, and what of its answer is compared.
VERBS: dict[str, Callable[[RemoteFederation], Any]] = {
    "train": lambda fed: fed.train().finished,
    "evaluate": lambda fed: asdict(fed.evaluate()),
    "predict": lambda fed: fed.predict().labels,
    "plan": lambda fed: fed.plan([LABELS[1]]).name,
    "forget": lambda fed: (
        fed.forget([LABELS[1]], settings=ul.ForgetSettings(key=KEY)).result.forgotten_accuracy
    ),
    "audit": lambda fed: (fed.audit().depth, fed.audit().labels),
    "commit": lambda fed: len(fed.commit(force=True)),
    "purge": lambda fed: fed.purge(),
    "another": lambda fed: fed.forget([LABELS[2]], settings=ul.ForgetSettings(key=KEY)).staged,
    "rollback": lambda fed: len(fed.rollback()),
    "recover": lambda fed: fed.recover(),
    "status": lambda fed: (fed.status().together, fed.status().forgotten_labels),
    "certificate": lambda fed: sorted(fed.certificate().body["parties"]),
    "queue": lambda fed: fed.queue([LABELS[2]]),
    "slots": lambda fed: [
        (s.labels, s.kept) for s in fed.slots(every=0, count=2, pace=0.01, purge=True)
    ],
    "report": lambda fed: fed.report().verdict.depth,
    "ledger": lambda fed: [line.event for line in fed.ledger()[ACTIVE]],
}


def live(
    trained: Path, place: Path, breaking: Breaking, moments: Mapping[str, int]
) -> tuple[dict[str, Any], dict[str, int], dict[str, Any], int]:
    """Do every verb, losing a party at some moment; return answers, calls, weights and losses."""
    shutil.copytree(trained, place)
    answers, calls = {}, {}
    with here(place) as scene:
        with ul.Federation.connect(scene.kit.folder) as federation:
            for verb, act in VERBS.items():
                breaking.expect(moments.get(verb, -1))
                answers[verb] = act(federation)
                calls[verb] = breaking.calls
                breaking.expect(-1)
            losses = len(federation.losses)
        weights = {ACTIVE: federation.active.versions.model_state()}
        weights |= {n: home.party.bottom.model_state() for n, home in scene.parties.homes.items()}
        copies = {p: {k: v.clone() for k, v in found.items()} for p, found in weights.items()}
    return answers, calls, copies, losses


def test_a_party_that_gets_lost_in_any_verb_costs_nothing_but_time(
    trained: Path, tmp_path: Path, breaking: Breaking
) -> None:
    told, calls, truth, losses = live(trained, tmp_path / "undisturbed", breaking, {})
    assert losses == 0
    assert set(truth) == set(PARTIES)
    asked = {verb: count for verb, count in calls.items() if count}
    assert set(VERBS) - set(asked) == {"queue", "report", "ledger"}  # which ask nobody
    for number, share in enumerate((0.0, 0.5, 1.0)):
        moments = {verb: int(share * (count - 1)) for verb, count in asked.items()}
        found = live(trained, tmp_path / str(number), breaking, moments)
        assert found[0] == told, share
        assert found[3] == len(asked), share
        for party, weights in truth.items():
            for name, value in weights.items():
                assert torch.equal(found[2][party][name], value), (share, party, name)


def test_a_decision_within_something_larger_is_made_once(
    trained: Path, tmp_path: Path, breaking: Breaking
) -> None:
    shutil.copytree(trained, tmp_path / "copy")
    with here(tmp_path / "copy") as scene, ul.Federation.connect(scene.kit.folder) as fed:
        outcome = fed.forget([LABELS[1]], settings=ul.ForgetSettings(key=KEY))
        breaking.expect(4)  # after the decision
        fed.with_recovery(lambda: outcome.commit(force=True))
        assert len(fed.losses) == 1
        assert [line.event for line in fed.ledger()[ACTIVE]] == ["commit"]
        with pytest.raises(ul.SettingsError):
            fed.train(epochs=3)
        new = pd.DataFrame({"id": [person(number) for number in NEW]})
        assert len(fed.predict(tables={"active": new}).ids) > 0


def test_a_connection_is_closed_once_and_frees_the_kit(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "copy")
    with here(tmp_path / "copy") as scene:
        federation = ul.Federation.connect(scene.kit.folder)
        assert federation.is_remote
        with pytest.raises(ul.RunError):
            ul.Federation.connect(scene.kit.folder)  # one command at a time
        before = federation.evaluate()
        federation.close()
        federation.close()
        with pytest.raises(ul.RunError):
            federation.evaluate()
        with ul.Federation.connect(scene.kit.folder) as reopened:
            assert reopened.evaluate() == before
