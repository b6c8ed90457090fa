"""Bottoms made without labels between organisations: whatever breaks, the same ones are kept.

The parties are those of kits, in this process. At one of the calls of a training an answer is lost,
or a party's process dies with it, or the label holder's.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch
from federation.course import KEY, weights
from federation.test_predicting import Scene
from federation.without_labels import (
    LABELS,
    PASSIVE,
    align_in,
    base_of,
    connected,
    contrast,
    here,
    homes_in,
    set_up,
)
from small_parties import InterruptibleTransport
from torch import Tensor

from unlabel.errors import PartyLost
from unlabel.forget import ForgetSettings
from unlabel.remote.connect import RemoteFederation
from unlabel.remote.party_home import open_party
from unlabel.train.label_free import Base
from unlabel.wire import Message


class Crash(Exception):
    """The label holder's process is gone."""


class Break:
    """What breaks at one call: an answer is lost, a party dies, or the label holder does."""

    def __init__(self) -> None:
        self.calls, self.at, self.kind = 0, -1, ""
        self.scene: Scene | None = None

    def plan(self, at: int, kind: str = "") -> None:
        self.calls, self.at, self.kind = 0, at, kind

    def look(self, transport: InterruptibleTransport, parties: list[str]) -> None:
        self.calls += 1
        if self.calls - 1 != self.at or len(parties) == 0:
            return
        party, self.at = parties[self.calls % len(parties)], -1
        if self.kind == "label holder":
            raise Crash
        if self.kind == "party":
            assert self.scene is not None
            kit = self.scene.parties.kits[party]
            with torch.enable_grad():  # another process, whatever is computed here
                home = open_party(kit, self.scene.folder / f"{party}.csv")
            transport._endpoints[party] = home.party
        raise PartyLost(f"Party '{party}' did not answer.", [party])


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> Break:
    planned, exchange = Break(), InterruptibleTransport.exchange

    def breaks(self: InterruptibleTransport, requests: Mapping[str, Message]) -> dict[str, Message]:
        # After the call: what was asked has been done by all, or by the first of them alone.
        first = dict(list(requests.items())[:1])
        if planned.calls == planned.at and planned.kind == "party" and planned.calls % 2:
            exchange(self, first)
            planned.look(self, list(requests))
        answers = exchange(self, requests)
        planned.look(self, list(requests))
        return answers

    monkeypatch.setattr(InterruptibleTransport, "exchange", breaks)
    return planned


Kept = dict[str, dict[str, Tensor]]

SETTINGS = {
    "components": ("blind", "{}", True),
    "alone": ("blind", contrast(across=False), True),
    "across": ("blind", contrast(across=True), False),
    "tuned": ("tuned", contrast(across=True), True),
}


@pytest.fixture(scope="module", params=SETTINGS)
def aligned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    bottoms, label_free, features = SETTINGS[request.param]
    folder = tmp_path_factory.mktemp(request.param)
    # Another optimiser than that of the bottoms: a return must not mistake one for the other.
    train = "{epochs: 1, batch: 128, optimiser: adam, lr: 0.01}" if bottoms == "tuned" else "{}"
    set_up(folder, bottoms, label_free=label_free, train=train, features=features)
    align_in(folder)
    return folder


def kept_in(folder: Path) -> Kept:
    """Return the bottoms that are kept for good, and the newest weights."""
    homes = homes_in(folder)
    bases = {f"base of {name}": base_of(homes[name]) for name in PASSIVE}
    trained = {name: home for name, home in homes.items() if any((home / "versions").glob("*"))}
    return {**bases, **weights(trained)}


def expect_same(kept: Kept, expected: Kept, when: object) -> None:
    assert kept.keys() == expected.keys()
    for party, tensors in expected.items():
        assert kept[party].keys() == tensors.keys()
        for name, value in tensors.items():
            assert torch.equal(kept[party][name], value), (when, party, name)


@pytest.fixture
def copies(aligned: Path, tmp_path: Path) -> Iterator[Path]:
    """Yield new copies of the aligned federation."""

    def copied() -> Iterator[Path]:
        number = 0
        while True:
            shutil.copytree(aligned, tmp_path / str(number))
            yield tmp_path / str(number)
            number += 1

    return copied()


def train_and_break(copies: Iterator[Path], breaking: Break, *, at_every: bool) -> None:
    """Train once undisturbed, then once for each moment at which something breaks."""
    undisturbed = next(copies)
    with here(undisturbed) as scene, connected(scene, resume=True) as federation:
        breaking.plan(-1)
        federation.train()
        calls = breaking.calls
    expected, lines = kept_in(undisturbed), ledger_lines(undisturbed)
    assert 4 <= calls < 60
    few = sorted({0, 1, calls // 3, calls // 2, calls - 3, calls - 2, calls - 1})
    kinds = ("answer", "party", "label holder")
    for number, at in enumerate(range(calls) if at_every else few):
        for kind in kinds if at_every else (kinds[number % 3],):
            folder = next(copies)
            with here(folder) as scene:
                breaking.scene = scene
                try:
                    with connected(scene, resume=True) as federation:
                        breaking.plan(at, kind)
                        federation.train()
                        assert len(federation.losses) == 1
                except Crash:
                    with connected(scene, resume=True) as federation:
                        federation.train()
            expect_same(kept_in(folder), expected, (at, kind))
            assert ledger_lines(folder) == lines, (at, kind)
            shutil.rmtree(folder)


def test_a_training_that_breaks_ends_in_the_same_bottoms(
    copies: Iterator[Path], breaking: Break
) -> None:
    train_and_break(copies, breaking, at_every=False)


@pytest.mark.long
def test_a_training_that_breaks_at_any_call_ends_in_the_same_bottoms(
    copies: Iterator[Path], breaking: Break
) -> None:
    train_and_break(copies, breaking, at_every=True)


def ledger_lines(folder: Path) -> dict[str, int]:
    """Return how many lines each passive party's ledger has."""
    homes = homes_in(folder)
    return {p: len((homes[p] / "ledger.jsonl").read_text().splitlines()) for p in PASSIVE}


def test_the_label_holder_may_be_killed_between_any_two_of_its_files(
    copies: Iterator[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    undisturbed = next(copies)
    with here(undisturbed) as scene, connected(scene, resume=True) as federation:
        federation.train()
        moments = 3 if federation.is_blind else 1  # frozen; embeddings; attestations
    expected, write = kept_in(undisturbed), Base.write
    for moment in range(moments):
        folder, written = next(copies), 0

        def killed(self: Base, home: Path, moment: int = moment) -> None:
            nonlocal written
            if written == moment:
                raise Crash
            written += 1
            write(self, home)

        with here(folder) as scene:
            with monkeypatch.context() as patch:
                patch.setattr(Base, "write", killed)
                try:
                    with connected(scene, resume=True) as federation:
                        federation.train()
                except Crash:
                    pass
            with connected(scene, resume=True) as federation:
                federation.train()
        expect_same(kept_in(folder), expected, moment)


def request(federation: RemoteFederation) -> None:
    """Forget a label and a person, and remove what was before."""
    settings = ForgetSettings(key=KEY)
    federation.forget([LABELS[1]], settings=settings)
    federation.commit(force=True)
    federation.purge()
    federation.forget(ids=[str(federation.holdings.ids[0])], settings=settings)
    federation.commit(force=True)


def test_a_party_that_gets_lost_in_a_request_costs_nothing_but_time(
    copies: Iterator[Path], breaking: Break
) -> None:
    trained = next(copies)
    with here(trained) as scene, connected(scene, resume=True) as federation:
        federation.train()
    undisturbed = next(copies)
    shutil.rmtree(undisturbed)
    shutil.copytree(trained, undisturbed)
    with here(undisturbed) as scene, connected(scene) as federation:
        breaking.plan(-1)
        request(federation)
        calls, blind = breaking.calls, federation.is_blind
    expected = kept_in(undisturbed)
    assert (calls == 0) == blind  # a blind run asks nobody
    for number, at in enumerate((0, calls // 2, calls - 1) if calls else ()):
        folder = next(copies)
        shutil.rmtree(folder)
        shutil.copytree(trained, folder)
        with here(folder) as scene, connected(scene) as federation:
            breaking.scene = scene
            breaking.plan(at, ("party", "answer", "party")[number])
            request(federation)
            assert len(federation.losses) == 1
        expect_same(kept_in(folder), expected, at)
