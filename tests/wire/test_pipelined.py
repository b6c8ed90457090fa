"""Gradients that travel with the next request: same weights, same refusals, fewer frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from federations import small_holdings
from torch import Tensor

from unlabel.config import Policy
from unlabel.errors import PartyLost, PartyRefused, WireError
from unlabel.party import ActiveParty, PassiveParty
from unlabel.train import Training, assemble
from unlabel.wire import (
    AccumulateFisher,
    Describe,
    Done,
    Embed,
    Endpoint,
    Gradients,
    LocalTransport,
    Message,
    Pipelined,
    Prepare,
    Recorder,
    Refused,
    Save,
    Transport,
    decode,
    encode,
    kind_of,
    serve_in_turn,
)
from unlabel.wire.transport import MOST_IN_TURN

MakeParties = Callable[..., dict[str, PassiveParty]]


class Frames(LocalTransport):
    """Carries several messages in one frame, as bytes, and notes what each frame held."""

    def __init__(self, endpoints: Mapping[str, Endpoint]) -> None:
        super().__init__(endpoints, encoded=True)
        self.frames: list[dict[str, list[str]]] = []
        self.lost = False

    def exchange(self, requests: Mapping[str, Message]) -> dict[str, Message]:
        return {p: found[0] for p, found in self.exchange_in_turn(_alone(requests)).items()}

    def exchange_in_turn(
        self, requests: Mapping[str, Sequence[Message]]
    ) -> dict[str, list[Message]]:
        if self.lost:
            raise PartyLost("It is gone.", list(requests))
        self.frames.append({p: [kind_of(m) for m in each] for p, each in requests.items()})
        return {
            party: [decode(a) for a in serve_in_turn(self._endpoints[party], list(map(encode, m)))]
            for party, m in requests.items()
        }


def _alone(requests: Mapping[str, Message]) -> dict[str, list[Message]]:
    return {party: [message] for party, message in requests.items()}


def _trained(
    folder: Path, *, way: str, parties: int, active_part: bool, optimiser: str
) -> tuple[ActiveParty, dict[str, PassiveParty], Frames | None]:
    holdings = small_holdings(
        parties,
        bottom="small_models:norm_bottom",
        active_part=active_part,
        augment="crop",
        optimiser=optimiser,
        lr=0.02,
        remember=[1],
    )
    active, passives = assemble(holdings, folder=folder, encoded=way == "plain encoded")
    frames = None
    if way == "one frame":
        frames = Frames(passives)
        active.transport = Pipelined(frames)
    elif way == "pipelined":
        active.transport = Pipelined(active.transport)
    Training(active, holdings.rows, holdings.config.train, labels=4).run()
    return active, passives, frames


def _weights(active: ActiveParty, passives: Mapping[str, PassiveParty]) -> dict[str, Tensor]:
    found = {f"active/{name}": t for name, t in active.versions.model_state().items()}
    for party, each in passives.items():
        found |= {f"{party}/{name}": tensor for name, tensor in each.bottom.state().items()}
    return found


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("active_part", [False, True])
@pytest.mark.parametrize("parties", [1, 2, 4])
def test_the_weights_are_those_of_plain_training_to_the_last_bit(
    tmp_path: Path, parties: int, active_part: bool, optimiser: str
) -> None:
    found = {}
    for way in ("plain", "plain encoded", "pipelined", "one frame"):
        active, passives, frames = _trained(
            tmp_path / way,
            way=way,
            parties=parties,
            active_part=active_part,
            optimiser=optimiser,
        )
        found[way] = _weights(active, passives)
    assert frames is not None
    for way, weights in found.items():
        assert weights.keys() == found["plain"].keys()
        for name, tensor in found["plain"].items():
            assert torch.equal(weights[name], tensor), (way, name)
    # Four steps an epoch: the gradients of three go with the next batch, the last ones with rows
    # to validate; AccumulateUpdates goes along.
    kinds = [frame["passive-1"] for frame in frames.frames]
    assert sum("Gradients" in kind for kind in kinds) == 8
    assert all(kind[-1] == "Embed" for kind in kinds if "Gradients" in kind)
    assert sum("AccumulateUpdates" in kind for kind in kinds) > 0
    assert not any(kind in (["Gradients"], ["AccumulateUpdates"]) for kind in kinds[4:])


def _talk(transport: Transport) -> None:
    transport.ask(Prepare(0, torch.arange(20), 4))
    transport.ask(Embed(0, torch.arange(3), "train"))


def _gradients(transport: Transport, size: float = 1.0) -> None:
    transport.ask(Gradients(0, torch.full((3, 32), size)))


def test_what_is_held_goes_out_before_anything_that_keeps_something(
    make_parties: MakeParties,
) -> None:
    frames = Frames(make_parties())
    transport = Pipelined(frames)
    _talk(transport)
    _gradients(transport)
    transport.ask(Save(0, 0))
    assert [each["zoo"] for each in frames.frames[2:]] == [["Gradients"], ["Save"]]
    _talk(transport)
    _gradients(transport)
    transport.flush()
    transport.flush()
    assert [each["zoo"] for each in frames.frames[4:]] == [["Prepare"], ["Embed"], ["Gradients"]]


AFTER = [Save(0, 1), Describe(0), Embed(1, torch.arange(3), "train")]


@pytest.mark.parametrize("request_after", AFTER)
def test_a_refusal_names_its_party_and_nobody_keeps_anything(
    make_parties: MakeParties,
    request_after: Message,
) -> None:
    parties = make_parties()
    parties["zoo"].guard.policy = replace(Policy(), max_gradient_norm=0.5)
    for connect in (Frames, LocalTransport):
        transport = Pipelined(connect(parties))
        _talk(transport)
        transport.ask(Save(0, 0))
        transport.ask(Embed(0, torch.arange(3), "train"))
        _gradients(transport)  # nobody was asked yet
        with pytest.raises(PartyRefused, match="Party 'zoo' refused: it takes finite") as caught:
            transport.ask(request_after)
        assert caught.value.code == "gradient-norm"
        assert all(party.required_store().versions() == (0,) for party in parties.values())
        answers = transport.ask(Describe(0))  # nothing is left over
        assert not any(isinstance(answer, Refused) for answer in answers.values())


def test_what_is_held_is_dropped_where_a_party_gets_lost(make_parties: MakeParties) -> None:
    frames = Frames(make_parties())
    transport = Pipelined(frames)
    _talk(transport)
    _gradients(transport)
    frames.lost = True
    with pytest.raises(PartyLost):
        transport.ask(Embed(1, torch.arange(3), "train"))
    frames.lost, frames.frames = False, []
    transport.ask(Describe(0))
    assert frames.frames == [{party: ["Describe"] for party in transport.parties}]


def test_each_party_gets_its_own_and_the_order_holds(make_parties: MakeParties) -> None:
    frames = Frames(make_parties())
    transport = Pipelined(frames)
    _talk(transport)
    for party in ("bakery", "mill"):
        transport.tell({party: Gradients(0, torch.ones(3, 32))})
    answers = transport.tell({"zoo": Embed(0, torch.arange(2), "predict")})
    assert list(answers) == ["zoo"]
    assert frames.frames[-1] == {"bakery": ["Gradients"], "mill": ["Gradients"], "zoo": ["Embed"]}


def test_little_is_held_at_a_time(make_parties: MakeParties) -> None:
    frames = Frames(make_parties())
    transport = Pipelined(frames)
    _talk(transport)
    for _ in range(MOST_IN_TURN - 1):
        _gradients(transport)
    with pytest.raises(PartyRefused, match="no embeddings to train on"):
        _gradients(transport)
    assert len(frames.frames[-1]["zoo"]) == MOST_IN_TURN - 1


def test_gradients_that_are_no_message_are_refused_at_once(make_parties: MakeParties) -> None:
    transport = Pipelined(LocalTransport(make_parties()))
    with pytest.raises(WireError, match=r"Gradients\.values"):
        transport.ask(Gradients(0, torch.ones(3)))


class Wrong:
    """A party that answers gradients with what they were not asked for, or not at all."""

    def __init__(self, answers: list[Message]) -> None:
        self.answers = answers

    def exchange_in_turn(self, *_: object) -> dict[str, list[Message]]:
        return {"odd": self.answers}


@pytest.mark.parametrize(
    "answers", [[], [Done(0)], [Describe(0), Done(0)], [Done(0), Done(0), Done(0)]]
)
def test_answers_that_are_missing_or_others_are_refused(answers: list[Message]) -> None:
    class Odd(LocalTransport):
        exchange_in_turn = Wrong(answers).exchange_in_turn  # type: ignore[assignment]

    transport = Pipelined(Odd({"odd": None}))  # type: ignore[dict-item]
    transport.ask(Gradients(0, torch.ones(1, 1)))
    with pytest.raises(WireError, match="'odd'"):
        transport.ask(Embed(1, torch.arange(1), "predict"))


def test_a_party_serves_a_frame_up_to_the_first_refusal(make_parties: MakeParties) -> None:
    party = make_parties()["zoo"]
    no_rows = AccumulateFisher(0, torch.ones(1, 1), "a", 1.0)
    frame = [encode(m) for m in (Describe(0), no_rows, Save(0, 0))]
    answers = [decode(data) for data in serve_in_turn(party, frame)]
    assert [kind_of(answer) for answer in answers] == ["Description", "Refused"]
    assert party.required_store().versions() == ()
    for wrong in ([], [encode(Describe(0))] * (MOST_IN_TURN + 1), [b"no message", frame[0]]):
        (only,) = serve_in_turn(party, wrong)
        assert isinstance(decode(only), Refused)


def test_a_recorder_over_it_sees_what_a_plain_one_sees(make_parties: MakeParties) -> None:
    seen = []
    for wrap in (lambda t: t, Pipelined):
        recorder = Recorder(wrap(LocalTransport(make_parties())))
        _talk(recorder)
        _gradients(recorder)
        recorder.flush()
        recorder.ask(Embed(1, torch.arange(3), "train"))
        seen.append([entry.to_json() for entry in recorder.transcripts["zoo"].entries])
    assert seen[0] == seen[1]
