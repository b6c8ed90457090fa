"""The fuzz of the wire finds nothing, and would find something if there were something."""

from __future__ import annotations

import contextlib
import logging
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from stress import fuzz_findings, fuzz_judge, fuzz_wire
from stress.fuzz_inputs import MAKERS, inputs
from stress.fuzz_messages import LAST, ROWS, WIDTH
from stress.fuzz_wire import (
    FuzzWireSettings,
    fuzz,
    make_narrow_party,
    make_party,
    measure,
    table,
)
from unlabel.config import Policy
from unlabel.errors import WireError
from unlabel.party import PassiveParty
from unlabel.party.passive import OpenRequest, SentEmbeddings
from unlabel.party.policy import Guard
from unlabel.wire import (
    AccumulateFisher,
    AccumulateUpdates,
    Attest,
    Attestation,
    BeginRequest,
    Commit,
    Done,
    Embed,
    Embeddings,
    Gradients,
    Message,
    Prepare,
    Purge,
    Refused,
    Restore,
    Rollback,
    Save,
    Stage,
    SyntheticInputs,
    TransformWeights,
    decode,
    encode,
    kind_of,
)
from unlabel.wire.messages import MESSAGES

REQUESTS = {
    *("Describe", "Prepare", "Embed", "Gradients", "Save", "Restore", "RetainVersions"),
    *("AccumulateFisher", "AccumulateUpdates", "SyntheticInputs", "TransformWeights"),
    *("BeginRequest", "Stage", "Commit", "Rollback", "Purge", "Status", "Attest"),
}


def silent(text: str) -> None:
    """Report to nobody."""


@pytest.fixture(autouse=True)
def keep_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep every violation, not only the first ones."""
    monkeypatch.setattr(fuzz_findings, "KEPT", 10_000)


def blamed(*parties: PassiveParty, count: int = 1_000) -> set[str]:
    """Return what the fuzz finds wrong with parties."""
    result = fuzz(parties, FuzzWireSettings(count=count, seed=3), silent)
    return {violation["what"] for violation in result["violations"]}


def test_three_thousand_hostile_inputs_do_no_harm() -> None:
    log = logging.getLogger("unlabel.party")
    before = (log.level, torch.get_num_threads(), torch.initial_seed())
    messages: list[str] = []
    result = measure(FuzzWireSettings(count=3_000, seed=0), messages.append)
    assert result["violations"] == []
    assert result["inputs"] == 3_000
    assert 500 < result["decoded"] < 2_500
    assert result["refused"] > 3_000
    # The parties were alive, not merely silent; nobody can guess what `Common` would have to hold.
    matched = {"Match", "Offer"} if find_spec("private_set_intersection") else set()
    assert set(result["served"]) == REQUESTS | matched
    assert result["slowest_ms"] > 0
    assert messages
    assert before == (log.level, torch.get_num_threads(), torch.initial_seed())
    assert ["violations", "0"] in table(result)


def test_a_full_folder_is_among_the_states_that_are_tried(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    party = make_party(folder=tmp_path)
    for data in inputs(3_000, seed=3):
        party.serve(data)
    assert "it keeps 8 versions at most." in caplog.text


def test_inputs_follow_from_their_seed() -> None:
    first = list(inputs(200, seed=5))
    assert first == list(inputs(200, seed=5))
    assert first != list(inputs(200, seed=6))
    assert [len(list(inputs(count, seed=5))) for count in (0, 1, 2, 77)] == [0, 1, 2, 77]


def test_inputs_hold_every_kind_of_message_and_much_that_is_none() -> None:
    kinds, broken = set(), 0
    for data in inputs(4_000, seed=0):
        try:
            kinds.add(kind_of(decode(data)))
        except WireError:
            broken += 1
    assert kinds == set(MESSAGES)
    assert broken > 1_000
    assert len({maker.__name__ for maker in MAKERS}) == 13


# --- parties that break a rule -------------------------------------------------------------


class NoRules(Guard):
    """A guard who lets everything pass."""

    def check_kind(self, kind: str) -> None:
        pass

    def check_rows(self, message: Any, available: int) -> Tensor:
        rows: Tensor = message.rows
        return rows

    def check_gradients(self, message: Gradients | AccumulateFisher, embeddings: Tensor) -> Tensor:
        return message.values.to(embeddings.dtype)

    def check_embeddings(self, embeddings: Tensor, *, asked_only: bool = False) -> None:
        pass


def test_a_party_without_rules_is_caught(tmp_path: Path) -> None:
    ordinary, narrow = make_party(folder=tmp_path), make_narrow_party()
    for party in (ordinary, narrow):
        party.guard = NoRules(party.guard.policy)
    result = blamed(narrow, count=4_000)
    assert "served Gradients, which its policy does not" in result
    assert "served Prepare, which its policy does not" in result
    assert "embedded too many rows, none, or rows that do not exist" in result
    result = blamed(ordinary)
    assert "took gradients that are too large or not finite" in result
    assert "sent embeddings that are not finite" in result


class Forging(PassiveParty):
    """Changes what it attests after it has signed it."""

    changes: ClassVar[dict[str, str]] = {}

    def handle(self, message: Message) -> Message:
        answer = super().handle(message)
        if not isinstance(answer, Attestation):
            return answer
        part = self.changes.get("part", answer.part)
        signature = self.changes.get("signature", answer.signature)
        return Attestation(answer.step, part, answer.key, signature)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"signature": "0" * 128}, ["attested something under a signature that does not hold"]),
        (
            {"part": '{"request":"9f","ledger":""}'},
            [
                "attested something under a signature that does not hold",
                "attested something else than it was asked",
            ],
        ),
    ],
    ids=["honest", "signature", "part"],
)
def test_a_false_attestation_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], expected: list[str]
) -> None:
    party = make_party(folder=tmp_path / "own")
    party.__class__ = Forging
    monkeypatch.setattr(Forging, "changes", changes)
    result = fuzz_findings.Findings()
    judge = fuzz_judge.Judge(party, result)
    note = f'{{"commitment": "{"0f" * 32}"}}'
    judge.feed(encode(Prepare(0, torch.arange(ROWS), 10)))
    for message in (Stage(0, "9f", 1, note), Commit(0, "9f", 1, LAST), Attest(0, "9f")):
        judge.feed(encode(message))
    assert result.served["Attest"] == 2  # as bytes, and as a message
    assert [each["what"] for each in result.violations] == expected * 2


class Crashing(PassiveParty):
    """Stumbles over what it cannot read."""

    def serve(self, data: bytes) -> bytes:
        decode(data, self.limits)
        return super().serve(data)


class Agreeable(PassiveParty):
    """Agrees to everything and does nothing."""

    def handle(self, message: Message) -> Message:
        return Done(message.step)


class Parrot(PassiveParty):
    """Sends back what it was sent."""

    def serve(self, data: bytes) -> bytes:
        return data


class Restless(PassiveParty):
    """Moves its weights even when it refuses."""

    def handle(self, message: Message) -> Message:
        with torch.no_grad():
            next(self.bottom.module.parameters()).add_(1e-3)
        return super().handle(message)


class Hoarding(PassiveParty):
    """Keeps every version it is asked to keep."""

    def handle(self, message: Message) -> Message:
        answer = super().handle(message)
        if isinstance(message, Save) and isinstance(answer, Refused) and message.version >= 0:
            assert self.store is not None
            self.store.save(message.version, self.bottom.module.state_dict(), {})
            return Done(message.step)
        return answer


class Forgetful(PassiveParty):
    """Takes the gradients of one step for those of another."""

    def handle(self, message: Message) -> Message:
        if isinstance(message, Gradients) and message.values.shape[1] == WIDTH:
            return Done(message.step)
        return super().handle(message)


class Eager(PassiveParty):
    """Commits whatever it is told to commit."""

    def handle(self, message: Message) -> Message:
        answer = super().handle(message)
        return Done(message.step) if isinstance(message, Commit) else answer


class Stubborn(PassiveParty):
    """Stays where a request has led it."""

    def handle(self, message: Message) -> Message:
        if isinstance(message, Rollback) and self.open_request is not None:
            self.open_request = OpenRequest(self.open_request.request, self.bottom.state())
        return super().handle(message)


class Wandering(PassiveParty):
    """Keeps a file of each request, under the name it was given."""

    def handle(self, message: Message) -> Message:
        if isinstance(message, BeginRequest) and self.store is not None:
            with contextlib.suppress(OSError, ValueError):
                (self.store.home / "versions" / message.request).write_text("mine")
        return super().handle(message)


class Silent(PassiveParty):
    """Notes nothing in its ledger."""

    def handle(self, message: Message) -> Message:
        self.ledger = None
        return super().handle(message)


class Careless(PassiveParty):
    """Descends where it is to weigh, and where it is to move inputs."""

    def handle(self, message: Message) -> Message:
        if (
            isinstance(message, AccumulateFisher)
            and self.open_request is not None
            and message.weight > 0
        ):
            answer = super().handle(Gradients(message.step, message.values))
            self.bottom.sums.add_squares(
                message.sum_name, list(self.bottom.module.parameters()), 1.0
            )
            return answer
        if self.sent_embeddings is not None and self.sent_embeddings.mode == "inputs":
            self.sent_embeddings = SentEmbeddings(
                self.sent_embeddings.step, self.sent_embeddings.embeddings
            )
        return super().handle(message)


class Hanging(PassiveParty):
    """Hangs on to its drafts, its sums and what it tracked when a request ends."""

    def handle(self, message: Message) -> Message:
        bottom = self.bottom
        held = bottom._synthetic, bottom.sums, bottom.updates
        answer = super().handle(message)
        if isinstance(message, Rollback | Restore):
            bottom._synthetic, bottom.sums, bottom.updates = held
        return answer


class Literal(PassiveParty):
    """Does to its weights and inputs whatever it is told, whoever tells it."""

    def handle(self, message: Message) -> Message:
        if isinstance(
            message, AccumulateFisher | AccumulateUpdates | SyntheticInputs | TransformWeights
        ):
            with contextlib.suppress(Exception):
                super().handle(message)
            return Done(message.step)
        return super().handle(message)


class Growing(PassiveParty):
    """Grows the weights that it is to dampen."""

    def handle(self, message: Message) -> Message:
        answer = super().handle(message)
        if (
            isinstance(message, TransformWeights)
            and message.rule == "dampen"
            and isinstance(answer, Done)
        ):
            with torch.no_grad():
                next(self.bottom.module.parameters()).mul_(1.5)
        return answer


class Sleepy(PassiveParty):
    """Takes its time over one kind of request."""

    def handle(self, message: Message) -> Message:
        if isinstance(message, Purge):
            time.sleep(0.1)  # well above the limit below: clocks are coarse on some machines
        return super().handle(message)


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (Crashing, ["raised WireError("]),
        (
            Agreeable,
            [
                "answered Done",
                "dropped every version",
                "restored a version it was never asked to save",
                "took up a request with an impossible name",
                "took up settings that cannot be",
                "purged everything",
            ],
        ),
        (Parrot, ["raised WireError(", "answered "]),
        (Restless, ["weights moved without gradients that were accepted"]),
        (Hoarding, ["keeps ["]),
        (Forgetful, ["took gradients that belong to nothing it sent"]),
        (Eager, ["committed what was not staged"]),
        (Stubborn, ["did not return to the weights from before a request"]),
        (Wandering, ["changed its files though it was not to"]),
        (Silent, ["does not remember what was decided"]),
        (Careless, ["weights moved without gradients that were accepted"]),
    ],
)
def test_a_broken_party_is_caught(
    tmp_path: Path, kind: type[PassiveParty], what: list[str]
) -> None:
    result = blamed(make_party(kind, folder=tmp_path))
    assert [words for words in what if not any(each.startswith(words) for each in result)] == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "wrongs"),
    [
        (
            Literal,
            {
                "took gradients that belong to nothing it sent",
                "weighed without a request",
                "weighed what weighs nothing",
                "weighed gradients of inputs",
                "gathered a sum with an impossible name",
                "gathered more sums than it may",
                "drafted for a request that is not open",
                "drafted with settings that cannot be",
                "drafted too many inputs, none, or of two sorts",
                "drafted copies of rows that do not exist",
                "rewrote its weights for a request that is not open",
                "rewrote its weights with settings that cannot be",
                "rewrote its weights by sums it never gathered",
            },
        ),
        (
            Hanging,
            {
                "embedded a table it does not have",
                "rewrote its weights by sums it never gathered",
            },
        ),
        (Growing, {"grew a weight by dampening it"}),
    ],
)
def test_a_party_that_shapes_itself_wrongly_is_caught(
    tmp_path: Path, kind: type[PassiveParty], wrongs: set[str]
) -> None:
    assert wrongs <= blamed(make_party(kind, folder=tmp_path), count=4_000)


def test_a_slow_party_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_judge, "SLOW_S", 0.03)
    result = blamed(make_party(Sleepy, folder=tmp_path), count=200)
    assert result
    assert all(what.startswith("took 0.") for what in result)


def test_growing_memory_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_wire, "GROWTH_MIB", -1)
    assert blamed(make_narrow_party(), count=10) == {"memory grew by 0 MiB"}


def test_a_violation_shows_its_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_findings, "KEPT", 20)
    party = make_party(Crashing, folder=tmp_path)
    result = fuzz([party], FuzzWireSettings(count=300, seed=1), silent)["violations"]
    assert len(result) == 20
    tried = {data[:200].hex(): len(data) for data in inputs(300, seed=1)}
    for violation in result:
        assert violation["party"] == "ordinary"
        assert tried[violation["input"]] == violation["bytes"]
        with pytest.raises(WireError):
            decode(bytes.fromhex(violation["input"]))


def test_a_party_that_allowed_gradients_made_diverge_sends_and_keeps_nothing_of_it(
    tmp_path: Path,
) -> None:
    party = make_party(folder=tmp_path, policy=Policy(max_gradient_norm=1_000.0))
    party.handle(Prepare(0, torch.arange(40), 1_000))
    party.handle(Save(0, 1))
    with fuzz_wire.quiet():
        for step in range(40):
            party.handle(Embed(step, torch.arange(4), "train"))
            values = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(step))
            party.handle(Gradients(step, values / values.norm() * 999))
        for request in (Embed(0, torch.arange(4), "predict"), Save(0, 2)):
            answer = party.handle(request)
            assert isinstance(answer, Refused)
            assert "diverged" in answer.reason
    assert isinstance(party.handle(Restore(0, 1, "")), Done)
    assert isinstance(party.handle(Embed(0, torch.arange(4), "predict")), Embeddings)
