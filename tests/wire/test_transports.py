"""What every transport must do, whatever lies between the parties."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from unlabel.config import Policy
from unlabel.errors import PartyRefused, WireError
from unlabel.party import PassiveParty
from unlabel.wire import (
    AccumulateFisher,
    AccumulateUpdates,
    BeginRequest,
    Describe,
    Description,
    Done,
    Embed,
    Embeddings,
    Endpoint,
    Gradients,
    LocalTransport,
    Message,
    Pipelined,
    Prepare,
    Recorder,
    Refused,
    Restore,
    RetainVersions,
    Rollback,
    Save,
    SyntheticInputs,
    TransformWeights,
    Transport,
    decode,
    encode,
)

Parties = dict[str, PassiveParty]
MakeParties = Callable[..., Parties]
BEGIN_REQUEST = BeginRequest(0, "9f", 9, 0.1, "constant", 0.0, 0.5, "no", 0.0, 0.0)


def local(parties: Mapping[str, Endpoint]) -> Transport:
    return LocalTransport(parties)


def encoded(parties: Mapping[str, Endpoint]) -> Transport:
    return LocalTransport(parties, encoded=True)


def recorded(parties: Mapping[str, Endpoint]) -> Transport:
    return Recorder(local(parties))


def recorded_encoded(parties: Mapping[str, Endpoint]) -> Transport:
    return Recorder(encoded(parties), keep_tensors=True)


def pipelined(parties: Mapping[str, Endpoint]) -> Transport:
    return Pipelined(local(parties))


def pipelined_encoded(parties: Mapping[str, Endpoint]) -> Transport:
    return Recorder(Pipelined(encoded(parties)))


WAYS = [local, encoded, recorded, recorded_encoded, pipelined, pipelined_encoded]
over_every_transport = pytest.mark.parametrize("connect", WAYS, ids=lambda f: f.__name__)


def training(transport: Transport) -> list[dict[str, Message]]:
    """Have a conversation of training, then of forgetting; return all answers."""
    rows, generator = torch.tensor([3, 0, 19]), torch.Generator().manual_seed(1)
    found = [transport.ask(Describe(0)), transport.ask(Prepare(0, torch.arange(20), 4))]
    found.append(transport.ask(Save(0, 0)))
    for step in range(4):
        found.append(transport.ask(Embed(step, rows, "train")))
        sent = {p: torch.randn(3, 32, generator=generator) for p in transport.parties}
        found.append(transport.tell({p: Gradients(step, sent[p]) for p in sent}))
    found.append(transport.ask(Save(0, 1)))
    found.append(transport.ask(Embed(0, torch.arange(20), "predict")))
    found.append(transport.ask(Restore(0, 0, "")))
    found.append(transport.ask(Embed(0, torch.arange(20), "predict")))
    found.append(transport.ask(RetainVersions(0, (1,))))
    found.append(transport.ask(Describe(0)))
    return found


def forgetting(transport: Transport) -> list[dict[str, Message]]:
    """Have a conversation with every message that shapes weights and inputs."""
    generator = torch.Generator().manual_seed(2)

    def gradients(count: int) -> dict[str, Tensor]:
        return {p: torch.randn(count, 32, generator=generator) for p in transport.parties}

    rows, drafts = torch.tensor([3, 0, 19]), torch.tensor([21, 20, 5])
    found = [
        transport.ask(Prepare(0, torch.arange(20), 4)),
        transport.ask(AccumulateUpdates(0, "moved")),
    ]
    found.append(transport.ask(Embed(0, rows, "train")))
    found.append(transport.tell({p: Gradients(0, g) for p, g in gradients(3).items()}))
    found.append(transport.ask(BEGIN_REQUEST))
    for into in ("every", "gone"):
        found.append(transport.ask(Embed(1, rows, "frozen")))
        found.append(
            transport.tell({p: AccumulateFisher(1, g, into, 2.0) for p, g in gradients(3).items()})
        )
    nothing = torch.empty(0, dtype=torch.int64)
    for first, noise, rule in ((rows[:2], 0, "sign"), (nothing, 2, "adam")):
        found.append(transport.ask(SyntheticInputs(0, "9f", first, noise, rule, 0.1, 0.5)))  # type: ignore[arg-type]
        found.append(transport.ask(Embed(2, drafts, "inputs", "synthetic")))
        found.append(transport.tell({p: Gradients(2, g) for p, g in gradients(3).items()}))
        found.append(transport.ask(Embed(0, drafts, "predict", "synthetic")))
    for rule in ("noise", "dampen", "subtract", "begin"):
        by = "moved" if rule == "subtract" else "gone"
        found.append(transport.ask(TransformWeights(0, "9f", rule, by, "every", 0.5, 0.1)))  # type: ignore[arg-type]
        found.append(transport.ask(Embed(0, rows, "predict")))
    found.append(transport.ask(Rollback(0, "9f")))
    found.append(transport.ask(Embed(0, rows, "predict")))
    return found


def assert_same(one: Message, other: Message) -> None:
    assert type(one) is type(other)
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(other, field.name)
        if isinstance(a, Tensor):
            assert a.dtype == b.dtype
            assert torch.equal(a, b)
        else:
            assert a == b


@over_every_transport
def test_the_answers_are_the_same_to_the_last_bit(
    connect: Callable[[Parties], Transport], make_parties: MakeParties
) -> None:
    for converse in (training, forgetting):
        answers, expected = converse(connect(make_parties())), converse(local(make_parties()))
        for found, wanted in zip(answers, expected, strict=True):
            for name in wanted:
                assert_same(found[name], wanted[name])


def test_every_message_of_that_conversation_has_its_effect(make_parties: MakeParties) -> None:
    seen = [each["zoo"] for each in forgetting(local(make_parties()))]
    predicted = [m.values for m in seen[:-1] if isinstance(m, Embeddings)][-4:]
    for one, other in pairwise(predicted):
        assert not torch.equal(one, other)
    assert not any(isinstance(answer, Refused) for answer in seen)


@over_every_transport
def test_training_through_it_moves_the_weights(
    connect: Callable[[Parties], Transport], make_parties: MakeParties
) -> None:
    answers = training(connect(make_parties()))
    trained, restored = answers[-5]["zoo"], answers[-3]["zoo"]
    assert isinstance(trained, Embeddings)
    assert isinstance(restored, Embeddings)
    assert not torch.equal(trained.values, restored.values)


@over_every_transport
def test_parties_keep_their_order(
    connect: Callable[[Parties], Transport], make_parties: MakeParties
) -> None:
    parties = make_parties()
    transport = connect(parties)
    assert list(transport.parties) == ["mill", "zoo", "bakery"]
    assert list(transport.ask(Describe(0))) == ["mill", "zoo", "bakery"]
    backwards: dict[str, Message] = {name: Describe(0) for name in reversed(parties)}
    assert list(transport.tell(backwards)) == ["bakery", "zoo", "mill"]


@over_every_transport
def test_only_the_named_parties_are_told(
    connect: Callable[[Parties], Transport], make_parties: MakeParties
) -> None:
    transport = connect(make_parties())
    assert list(transport.tell({"zoo": Prepare(0, torch.arange(20), 1)})) == ["zoo"]
    assert list(transport.tell({"zoo": Embed(0, torch.arange(2), "predict")})) == ["zoo"]
    with pytest.raises(PartyRefused, match=r"'mill'"):
        transport.ask(Embed(0, torch.arange(2), "predict"))


@over_every_transport
def test_a_refusal_names_the_party_and_its_reason(
    connect: Callable[[Parties], Transport], make_parties: MakeParties
) -> None:
    parties = make_parties()
    parties["zoo"] = make_parties(Policy(serves=("Prepare",)))["zoo"]
    transport = connect(parties)
    transport.ask(Prepare(0, torch.arange(20), 1))
    with pytest.raises(
        PartyRefused, match=r"^Party 'zoo' refused: it does not serve 'Describe'\.$"
    ):
        transport.ask(Describe(0))
    answers = transport.tell({name: Describe(0) for name in ("mill", "bakery")})
    assert all(isinstance(answer, Description) for answer in answers.values())


@over_every_transport
def test_an_answer_sent_as_a_request_is_refused(
    connect: Callable[[Parties], Transport], make_parties: MakeParties
) -> None:
    with pytest.raises(PartyRefused, match=r"'mill'"):
        connect(make_parties()).ask(Done(0))


@over_every_transport
def test_a_message_that_breaks_its_declaration_is_not_carried_out(
    connect: Callable[[Parties], Transport], make_parties: MakeParties
) -> None:
    transport = connect(make_parties())
    for wrong in (Prepare(0, torch.arange(20).int(), 1), Save(0, True), Save(-1, 0)):
        with pytest.raises((PartyRefused, WireError)):
            transport.ask(wrong)
    answer = transport.ask(Describe(0))["mill"]
    assert isinstance(answer, Description)
    assert answer.versions == ()


class Keeper:
    """An endpoint that keeps what it is sent and sends what it keeps."""

    def __init__(self, values: Tensor) -> None:
        self.values = values
        self.seen: list[Message] = []

    def handle(self, message: Message) -> Message:
        self.seen.append(message)
        return Embeddings(message.step, self.values)

    def serve(self, data: bytes) -> bytes:
        return encode(self.handle(decode(data)))


@over_every_transport
def test_in_one_process_tensors_are_handed_over_where_they_lie(
    connect: Callable[[Mapping[str, Endpoint]], Transport],
) -> None:
    keeper, rows = Keeper(torch.randn(3, 4)), torch.arange(3)
    answer = connect({"keeper": keeper}).ask(Embed(0, rows, "predict"))["keeper"]
    request = keeper.seen[0]
    assert isinstance(answer, Embeddings)
    assert isinstance(request, Embed)
    handed_over = connect in (local, recorded, pipelined)
    assert (answer.values.data_ptr() == keeper.values.data_ptr()) == handed_over
    assert (request.rows.data_ptr() == rows.data_ptr()) == handed_over
    assert torch.equal(answer.values, keeper.values)


def test_a_real_party_hands_over_its_own_embeddings(make_parties: MakeParties) -> None:
    parties = make_parties()
    transport = LocalTransport(parties)
    transport.ask(Prepare(0, torch.arange(20), 1))
    for name, answer in transport.ask(Embed(0, torch.arange(4), "train")).items():
        pending = parties[name].sent_embeddings
        assert isinstance(answer, Embeddings)
        assert pending is not None
        assert answer.values.data_ptr() == pending.embeddings.data_ptr()
        assert not answer.values.requires_grad


class Shuffled(LocalTransport):
    """Answers in the order in which a network happens to bring them."""

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        return dict(reversed(super().exchange(requests).items()))


class Lossy(LocalTransport):
    """Loses the last answer."""

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        return dict(list(super().exchange(requests).items())[:-1])


def test_answers_come_in_the_order_of_the_requests_and_none_is_missing() -> None:
    endpoints = {name: Answering() for name in ("b", "a")}
    assert list(Shuffled(endpoints).ask(Describe(0))) == ["b", "a"]
    with pytest.raises(WireError, match=r"of \['b', 'a'\] but got one of \['b'\]"):
        Lossy(endpoints).ask(Describe(0))


class Answering:
    """A party that only ever says that it is done."""

    def handle(self, message: Message) -> Message:
        return Done(message.step)

    def serve(self, data: bytes) -> bytes:
        return encode(self.handle(decode(data)))
