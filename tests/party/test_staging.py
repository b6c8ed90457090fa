"""How a passive party takes up a request to forget, and how it keeps or drops what came of it."""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from federations import small_holdings
from hypothesis import given
from hypothesis import strategies as st
from party.tiny import done, refusal
from safetensors.torch import load_file
from torch import Tensor, nn

from unlabel.config import OptimiserSettings, Policy
from unlabel.party import Learner, PassiveParty, Place, Stream
from unlabel.party.ledger import LedgerEntry
from unlabel.party.staging import TRANSCRIPT
from unlabel.train import build_passive
from unlabel.wire import (
    BeginRequest,
    Commit,
    Embed,
    Embeddings,
    Gradients,
    Prepare,
    Purge,
    Refused,
    Restore,
    RetainVersions,
    Rollback,
    Save,
    Saved,
    Stage,
    Status,
    StatusReply,
    Transcript,
)

CPU = Place(torch.device("cpu"))
NOTE = '{"labels": ["7"], "method": "x"}'
BEGIN_REQUEST = BeginRequest(
    0,
    request="9f",
    steps=10,
    lr=0.1,
    schedule="constant",
    warmup=0.0,
    momentum=0.5,
    nesterov="no",
    weight_decay=0.0,
    reinitialise=0.0,
)


def make_party(
    folder: Path | None = None,
    *,
    bottom: str = "norm_bottom",
    optimiser: str = "sgd",
    policy: Policy | None = None,
    record: bool = False,
) -> PassiveParty:
    """Make a party that was prepared and has taken three steps of training."""
    holdings = small_holdings(2, bottom=f"small_models:{bottom}", optimiser=optimiser)
    config = replace(holdings.config, policy=policy or Policy())
    features = holdings.features["passive-1"]
    transcript = Transcript(path=folder / TRANSCRIPT) if record and folder else None
    party = build_passive("passive-1", features, config, CPU, folder=folder, transcript=transcript)
    done(party.handle(Prepare(0, torch.arange(32), 10)))
    for step in range(3):
        train(party, step)
    return party


def embed(party: PassiveParty, mode: str, step: int = 0, table: str = "main") -> Tensor:
    answer = party.handle(Embed(step, torch.arange(8), mode, table))  # type: ignore[arg-type]
    assert isinstance(answer, Embeddings)
    return answer.values


def train(party: PassiveParty, step: int, mode: str = "train") -> None:
    values = embed(party, mode, step)
    draw = torch.Generator().manual_seed(step)
    done(party.handle(Gradients(step, torch.randn(values.shape, generator=draw))))


def state(party: PassiveParty) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in party.bottom.state().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def changed(one: dict[str, Tensor], other: dict[str, Tensor]) -> set[str]:
    return {name for name in one if not torch.equal(one[name], other[name])}


def stage(party: PassiveParty, request: str = "9f", version: int = 0) -> str:
    version = version or max(party.required_store().versions(), default=0) + 1
    answer = party.handle(Stage(0, request, version, NOTE))
    assert isinstance(answer, Saved), answer
    return answer.digest


def standing(party: PassiveParty) -> StatusReply:
    answer = party.handle(Status(0))
    assert isinstance(answer, StatusReply), answer
    return answer


def ledger(party: PassiveParty) -> list[LedgerEntry]:
    assert party.ledger is not None
    return party.ledger.entries()


def files(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder with what it holds."""
    every = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in every}


# --- tune and roll back --------------------------------------------------------------------


@pytest.mark.parametrize("bottom", ["plain_bottom", "norm_bottom", "dropout_bottom"])
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@pytest.mark.parametrize("mode", ["train", "frozen"])
def test_rollback_returns_to_the_weights_statistics_and_optimiser_bit_for_bit(
    bottom: str, optimiser: str, mode: str
) -> None:
    party = make_party(bottom=bottom, optimiser=optimiser)
    twin = make_party(bottom=bottom, optimiser=optimiser)
    before = state(party)
    assert any(name.startswith("optimiser/") for name in before)
    done(party.handle(replace(BEGIN_REQUEST, reinitialise=0.5)))
    for step in range(4):
        train(party, step, mode)
    assert not same(before, state(party))
    done(party.handle(Rollback(0, "9f")))
    assert same(before, state(party))
    for step in range(3, 7):  # and goes on as if nothing had happened, at the same rates
        train(party, step)
        train(twin, step)
    assert same(state(twin), state(party))


def test_a_request_moves_with_an_optimiser_of_its_own_that_starts_from_nothing() -> None:
    party = make_party(bottom="plain_bottom", optimiser="adam")
    done(party.handle(BEGIN_REQUEST))
    before = state(party)
    assert not any(name.startswith("optimiser/") for name in before)
    train(party, 0, "frozen")
    after = state(party)
    # Plain SGD with momentum: its first step is lr times the gradient, which is its memory too.
    weights = [name for name in before if name.startswith("model/")]
    for index, name in enumerate(weights):
        expected = before[name] - 0.1 * after[f"optimiser/{index}/momentum_buffer"]
        torch.testing.assert_close(after[name], expected)


def test_a_second_phase_of_a_request_goes_on_and_still_returns_to_before_the_first() -> None:
    party = make_party()
    before = state(party)
    done(party.handle(BEGIN_REQUEST))
    train(party, 0, "frozen")
    between = party.bottom.model_state()["model/0.weight"].clone()
    done(party.handle(replace(BEGIN_REQUEST, lr=0.01)))
    assert torch.equal(between, party.bottom.model_state()["model/0.weight"])
    assert not any(name.startswith("optimiser/") for name in state(party))
    train(party, 0, "frozen")
    done(party.handle(Rollback(0, "9f")))
    assert same(before, state(party))


def test_a_request_after_one_that_was_given_up_starts_where_that_one_did() -> None:
    party = make_party()
    before = state(party)
    done(party.handle(BEGIN_REQUEST))
    train(party, 0, "frozen")
    done(party.handle(replace(BEGIN_REQUEST, request="a1")))
    model = {k: v for k, v in before.items() if not k.startswith("optimiser/")}
    assert same(model, state(party))
    train(party, 0, "frozen")
    done(party.handle(Rollback(0, "9f")))  # which is not the one under way
    assert not same(model, party.bottom.model_state())
    done(party.handle(Rollback(0, "a1")))
    assert same(before, state(party))


def test_rollback_twice_is_rollback_once(tmp_path: Path) -> None:
    party = make_party(tmp_path)
    before = state(party)
    done(party.handle(BEGIN_REQUEST))
    train(party, 0, "frozen")
    stage(party)
    done(party.handle(Rollback(0, "9f")))
    on_disk = files(tmp_path)
    assert set(on_disk) == {"ledger.jsonl"}
    done(party.handle(Rollback(0, "9f")))
    assert same(before, state(party))
    assert files(tmp_path) == on_disk
    assert [(e.event, e.request, e.note) for e in ledger(party)] == [
        ("rollback", "9f", json.loads(NOTE))
    ]


def test_rollback_of_a_request_nobody_made_changes_nothing(tmp_path: Path) -> None:
    party = make_party(tmp_path)
    before = state(party)
    done(party.handle(Rollback(0, "9f")))
    assert same(before, state(party))
    assert files(tmp_path) == {}


def test_a_party_that_was_started_anew_drops_what_it_had_staged(tmp_path: Path) -> None:
    stage(make_party(tmp_path))
    party = make_party(tmp_path)
    before = state(party)
    assert standing(party).staged == "9f"
    done(party.handle(Rollback(0, "9f")))
    assert standing(party).staged == ""
    assert same(before, state(party))


def test_embeddings_from_before_a_request_or_its_rollback_await_no_gradients() -> None:
    party = make_party()
    values = torch.ones_like(embed(party, "train"))
    done(party.handle(BEGIN_REQUEST))
    assert refusal(party.handle(Gradients(0, values))) == "wrong-request"
    embed(party, "frozen")
    done(party.handle(Rollback(0, "9f")))
    assert refusal(party.handle(Gradients(0, values))) == "wrong-request"


def test_restoring_a_version_ends_a_request(tmp_path: Path) -> None:
    party = make_party(tmp_path, optimiser="adam")
    assert isinstance(party.handle(Save(0, 1)), Saved)
    before = state(party)
    done(party.handle(replace(BEGIN_REQUEST, reinitialise=1.0)))
    train(party, 0, "frozen")
    done(party.handle(Restore(0, 1, "")))
    assert same(before, state(party))
    train(party, 3)
    moved = state(party)
    done(party.handle(Rollback(0, "9f")))
    assert same(moved, state(party))


ODD: list[dict[str, Any]] = [
    *({"lr": -0.1}, {"momentum": 1.0}, {"momentum": -0.5}, {"weight_decay": -1.0}),
    *(
        {"warmup": 1.0},
        {"warmup": -0.1},
        {"reinitialise": -0.1},
        {"reinitialise": 1.1},
        {"steps": -1},
    ),
    *({"request": ""}, {"request": "../9f"}, {"request": "9f/x"}, {"request": "x" * 65}),
    *({"request": "\ud800"}, {"request": "a b"}, {"request": "9f.json"}),
]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_impossible_settings_and_names_are_refused_and_change_nothing(
    tmp_path: Path, odd: dict[str, Any]
) -> None:
    party = make_party(tmp_path)
    before = state(party)
    begin = replace(BEGIN_REQUEST, **{"reinitialise": 0.5, **odd})
    assert refusal(party.handle(begin)) == "wrong-request"
    assert same(before, state(party))
    assert party.open_request is None
    name = odd.get("request", "/x")
    for message in (
        *(Stage(0, name, 2, NOTE), Commit(0, name, 2, ""), Rollback(0, name), Purge(0, name, 2)),
    ):
        assert refusal(party.handle(message)) == "wrong-request"
    assert files(tmp_path) == {}


def test_nesterov_without_momentum_is_plain_descent() -> None:
    found = []
    for nesterov in ("yes", "no"):
        party = make_party()
        done(party.handle(replace(BEGIN_REQUEST, momentum=0.0, nesterov=nesterov)))
        train(party, 0, "frozen")
        found.append(state(party))
    assert same(*found)


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e9])
def test_poisoned_gradients_move_nothing_in_a_request_either(poison: float) -> None:
    party = make_party()
    done(party.handle(BEGIN_REQUEST))
    before = state(party)
    values = torch.zeros_like(embed(party, "frozen"))
    values[2, 3] = poison
    assert refusal(party.handle(Gradients(0, values))) == "gradient-norm"
    assert same(before, state(party))


def test_at_rate_0_nothing_moves() -> None:
    party = make_party()
    before = party.bottom.model_state()
    before = {name: tensor.clone() for name, tensor in before.items()}
    done(party.handle(replace(BEGIN_REQUEST, lr=0.0, weight_decay=0.1, momentum=0.9)))
    for step in range(3):
        train(party, step, "frozen")
    assert same(before, party.bottom.model_state())


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [("constant", [0.1] * 4), ("linear", [0.0875, 0.0625, 0.0375, 0.0125])],
)
def test_the_rate_runs_over_the_steps_of_the_request(schedule: str, rates: list[float]) -> None:
    party = make_party(bottom="plain_bottom")
    done(party.handle(replace(BEGIN_REQUEST, steps=4, momentum=0.0, schedule=schedule)))  # type: ignore[arg-type]
    for step, rate in enumerate(rates):
        before = party.bottom.module.state_dict()["3.bias"].clone()
        values = embed(party, "frozen", step)
        done(party.handle(Gradients(step, torch.ones_like(values))))
        moved = before - party.bottom.module.state_dict()["3.bias"]
        torch.testing.assert_close(moved, torch.full((5,), 8 * rate))  # one for each row


# --- frozen --------------------------------------------------------------------------------


@pytest.mark.parametrize("bottom", ["norm_bottom", "dropout_bottom"])
def test_frozen_embeddings_are_those_of_prediction_and_statistics_do_not_move(bottom: str) -> None:
    party = make_party(bottom=bottom)
    buffers = {k: v.clone() for k, v in party.bottom.module.named_buffers()}
    assert buffers
    assert torch.equal(embed(party, "frozen", 3), embed(party, "predict", 0))
    done(party.handle(BEGIN_REQUEST))
    for step in range(4):
        train(party, step, "frozen")
    assert same(buffers, dict(party.bottom.module.named_buffers()))
    train(party, 4, "train")
    assert changed(buffers, dict(party.bottom.module.named_buffers())) == set(buffers)


@pytest.mark.parametrize("bottom", ["plain_bottom", "norm_bottom", "dropout_bottom"])
def test_frozen_gradients_are_those_of_the_model_as_it_predicts(bottom: str) -> None:
    party = make_party(bottom=bottom)
    model = copy.deepcopy(party.bottom.module).double().eval()
    scaling = party.bottom.scaling
    assert scaling is not None
    x = (party.bottom.tables["main"].values[:8].double() - scaling.mean) / scaling.std
    done(party.handle(replace(BEGIN_REQUEST, momentum=0.0)))
    before = {k: v.detach().double() for k, v in party.bottom.module.named_parameters()}
    before = {k: v.clone() for k, v in before.items()}
    values = torch.randn(8, 5, generator=torch.Generator().manual_seed(9))
    embed(party, "frozen")
    done(party.handle(Gradients(0, values)))
    expected = torch.autograd.grad(model(x), list(model.parameters()), values.double())
    for (name, weights), gradient in zip(
        party.bottom.module.named_parameters(), expected, strict=True
    ):
        torch.testing.assert_close(
            weights.detach().double(), before[name] - 0.1 * gradient, rtol=1e-4, atol=1e-6
        )


def test_a_request_may_move_on_public_rows_and_on_no_other_table() -> None:
    party = make_party()
    for name in ("public", "new"):
        party.bottom.add_table(name, party.bottom.tables["main"])
    embed(party, "frozen", table="public")
    answer = party.handle(Embed(0, torch.arange(2), "frozen", "new"))
    assert refusal(answer) == "wrong-request"


# --- reinitialise ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "renewed"),
    [
        (0.0, set()),
        (1e-6, {"4"}),
        (964.5, {"4"}),  # the layers hold 40, 8 and 965 weights
        (965.5, {"1", "4"}),
        (972.5, {"1", "4"}),
        (973.5, {"0", "1", "4"}),
        (1013, {"0", "1", "4"}),
    ],
)
def test_the_last_layers_that_hold_the_share_are_drawn_anew_and_no_others(
    wanted: float, renewed: set[str]
) -> None:
    party = make_party(bottom="norm_bottom")
    before = {k: v.clone() for k, v in party.bottom.module.state_dict().items()}
    assert sum(weights.numel() for weights in party.bottom.module.parameters()) == 1013
    done(party.handle(replace(BEGIN_REQUEST, reinitialise=wanted / 1013)))
    after = party.bottom.module.state_dict()
    assert {name.partition(".")[0] for name in changed(before, after)} == renewed
    for layer in renewed:
        own = {name for name in before if name.startswith(layer + ".")}
        assert own <= changed(before, after)
    if "1" in renewed:
        assert after["1.running_mean"].eq(0).all()
        assert after["1.running_var"].eq(1).all()
        assert after["1.num_batches_tracked"] == 0


def test_weights_drawn_anew_are_the_same_every_time_and_not_the_first_ones() -> None:
    def renewed(request: str) -> dict[str, Tensor]:
        party = make_party()
        done(party.handle(replace(BEGIN_REQUEST, request=request, reinitialise=1.0)))
        return party.bottom.model_state()

    assert same(renewed("9f"), renewed("9f"))
    assert same(renewed("9f"), renewed("a1"))
    assert not same(renewed("9f"), make_party().bottom.model_state())


@given(share=st.floats(0, 1), widths=st.lists(st.integers(1, 6), min_size=2, max_size=6))
def test_as_few_layers_as_hold_the_share_are_drawn_anew(share: float, widths: list[int]) -> None:
    layers = [nn.Linear(a, b) for a, b in pairwise(widths)]
    module = nn.Sequential(*layers)
    with torch.no_grad():
        for weights in module.parameters():
            weights.fill_(7.0)  # beyond anything that is drawn
    learner = Learner(module, OptimiserSettings(), stream=Stream(0, "x"), place=CPU)
    learner.reinitialise(share)
    drawn = [not layer.weight.eq(7).all() for layer in layers]
    assert drawn == sorted(drawn)
    sizes = [sum(w.numel() for w in layer.parameters()) for layer in layers]
    wanted = share * sum(sizes)
    count = sum(drawn)
    assert sum(sizes[len(sizes) - count :]) >= wanted - 1e-9
    assert count == 0 or sum(sizes[len(sizes) - count + 1 :]) < wanted


# --- stage ---------------------------------------------------------------------------------


def test_what_is_staged_holds_the_model_and_nothing_of_the_optimiser(tmp_path: Path) -> None:
    party = make_party(tmp_path)
    done(party.handle(BEGIN_REQUEST))
    train(party, 0, "frozen")
    assert any(name.startswith("optimiser/") for name in state(party))
    stage(party)
    found = load_file(tmp_path / "staged" / "000001.safetensors")
    assert same(found, party.bottom.model_state())
    assert {name.partition("/")[0] for name in found} == {"model", "scaling"}
    assert set(files(tmp_path)) == {"staged/000001.json", "staged/000001.safetensors"}
    assert (standing(party).versions, standing(party).staged) == ((), "9f")


def test_while_one_request_is_staged_no_other_is_taken_up(tmp_path: Path) -> None:
    party = make_party(tmp_path)
    done(party.handle(BEGIN_REQUEST))
    stage(party)
    before, on_disk = state(party), files(tmp_path)
    for message in (
        replace(BEGIN_REQUEST, request="a1", reinitialise=1.0),
        BEGIN_REQUEST,
        Stage(0, "a1", 3, NOTE),
    ):
        assert refusal(party.handle(message)) == "request-open"
    assert same(before, state(party))
    assert files(tmp_path) == on_disk


def test_a_refusal_quotes_forty_characters_of_a_request_s_name(tmp_path: Path) -> None:
    """The label holder chooses it, and a refusal goes into the party's log."""
    party, name = make_party(tmp_path), "x" * 64
    done(party.handle(replace(BEGIN_REQUEST, request=name)))
    assert isinstance(party.handle(Stage(0, name, 1, NOTE)), Saved)
    refused = party.handle(BEGIN_REQUEST)
    assert isinstance(refused, Refused)
    assert f"request {name[:40]} is staged" in refused.reason


def test_a_request_staged_again_replaces_what_it_had_staged(tmp_path: Path) -> None:
    party = make_party(tmp_path)
    party.handle(Save(0, 1))
    first = stage(party, version=2)
    assert stage(party, version=2) == first
    train(party, 3)
    later = stage(party, version=2)
    assert later != first
    assert {each for each in files(tmp_path) if each.startswith("staged")} == {
        "staged/000002.json",
        "staged/000002.safetensors",
    }
    assert refusal(party.handle(Commit(0, "9f", 2, first))) == "checkpoint"


@pytest.mark.parametrize("version", [-1, 0, 2, 3, 5])
def test_a_version_to_be_follows_the_newest(tmp_path: Path, version: int) -> None:
    party = make_party(tmp_path)
    for number in (1, 2, 3):
        assert isinstance(party.handle(Save(0, number)), Saved)
    assert refusal(party.handle(Stage(0, "9f", version, NOTE))) == "wrong-request"
    assert not (tmp_path / "staged").exists()


@pytest.mark.parametrize(
    "note", ["", "{", "[]", "null", '"x"', '{"a": {}}', '{"a": [[1]]}', "[" * 1_999, "\ud800"]
)
def test_a_note_that_does_not_belong_in_a_ledger_is_refused(tmp_path: Path, note: str) -> None:
    assert refusal(make_party(tmp_path).handle(Stage(0, "9f", 2, note))) == "wrong-request"
    assert files(tmp_path) == {}


def test_a_party_without_a_folder_stages_nothing() -> None:
    party = make_party()
    assert refusal(party.handle(Stage(0, "9f", 2, NOTE))) == "wrong-request"
    assert refusal(party.handle(Purge(0, "9f", 2))) == "wrong-request"
    assert standing(party).staged == ""


def test_a_party_that_was_never_prepared_says_so(tmp_path: Path) -> None:
    holdings = small_holdings(1)
    features = holdings.features["passive-1"]
    party = build_passive("passive-1", features, holdings.config, CPU, folder=tmp_path)
    for message in (BEGIN_REQUEST, Stage(0, "9f", 2, NOTE)):
        assert refusal(party.handle(message)) == "wrong-request"
    assert party.open_request is None
    assert files(tmp_path) == {}


def test_weights_that_diverged_are_not_staged(tmp_path: Path) -> None:
    party = make_party(tmp_path)
    before = state(party)
    done(party.handle(replace(BEGIN_REQUEST, lr=1e38)))
    for step in range(2):
        values = party.handle(Embed(step, torch.arange(8), "frozen"))
        if isinstance(values, Embeddings):
            party.handle(Gradients(step, torch.ones_like(values.values)))
    assert refusal(party.handle(Stage(0, "9f", 2, NOTE))) == "not-finite"
    done(party.handle(Rollback(0, "9f")))
    assert same(before, state(party))
    stage(party)


def test_a_disk_is_not_filled_with_versions_by_requests_either(tmp_path: Path) -> None:
    party = make_party(tmp_path, policy=Policy(max_versions=3))
    for version in (1, 2):
        assert isinstance(party.handle(Save(0, version)), Saved)
    digest = stage(party)
    assert refusal(party.handle(Save(0, 3))) == "policy"  # its place is taken
    assert isinstance(party.handle(Save(0, 2)), Saved)
    done(party.handle(Commit(0, "9f", 3, digest)))
    assert refusal(party.handle(Stage(0, "a1", 4, NOTE))) == "policy"
    done(party.handle(Purge(0, "9f", 3)))
    stage(party, "a1", 4)


# --- commit --------------------------------------------------------------------------------


def test_a_commit_makes_what_was_staged_a_version_and_twice_is_once(tmp_path: Path) -> None:
    party = make_party(tmp_path)
    party.handle(Save(0, 1))
    done(party.handle(replace(BEGIN_REQUEST, reinitialise=0.5)))
    train(party, 0, "frozen")
    digest = stage(party)
    expected = {name: tensor.clone() for name, tensor in party.bottom.model_state().items()}
    done(party.handle(Commit(0, "9f", 2, digest)))
    on_disk = files(tmp_path)
    assert set(on_disk) == {
        "ledger.jsonl",
        *(f"versions/00000{n}.{kind}" for n in (1, 2) for kind in ("json", "safetensors")),
    }
    after = state(party)
    done(party.handle(Commit(0, "9f", 2, digest)))
    assert files(tmp_path) == on_disk
    assert same(after, state(party))
    before = hashlib.sha256(on_disk["versions/000001.safetensors"]).hexdigest()
    made = {"version": 2, "weights": [before, digest]}
    assert [(e.event, e.note) for e in ledger(party)] == [("commit", json.loads(NOTE) | made)]
    told = standing(party)
    assert (told.versions, told.staged, told.ledger) == ((1, 2), "", ledger(party)[-1].hash)
    done(party.handle(Rollback(0, "9f")))  # too late
    assert same(after, state(party))
    other = make_party(tmp_path)
    done(other.handle(Restore(0, 2, digest)))
    assert same(expected, state(other))


def test_after_a_commit_training_goes_on_with_its_own_optimiser(tmp_path: Path) -> None:
    party = make_party(tmp_path, optimiser="adam")
    party.handle(Save(0, 1))
    done(party.handle(BEGIN_REQUEST))
    digest = stage(party)
    done(party.handle(Commit(0, "9f", 2, digest)))
    assert not any(name.startswith("optimiser/") for name in state(party))
    train(party, 3)
    assert any(name.endswith("exp_avg") for name in state(party))


def test_what_was_not_staged_is_not_committed(tmp_path: Path) -> None:
    party = make_party(tmp_path)
    party.handle(Save(0, 1))
    done(party.handle(BEGIN_REQUEST))
    train(party, 0, "frozen")
    digest = stage(party)
    before, on_disk = state(party), files(tmp_path)
    for message, code in (
        (Commit(0, "9f", 2, "0" * 64), "checkpoint"),
        (Commit(0, "9f", 2, ""), "checkpoint"),
        (Commit(0, "9f", 3, digest), "checkpoint"),
        (Commit(0, "9f", -1, digest), "checkpoint"),
        (Commit(0, "a1", 2, digest), "wrong-request"),
        (Commit(0, "9f", 1, digest), "wrong-request"),
    ):
        assert refusal(party.handle(message)) == code
    assert same(before, state(party))
    assert files(tmp_path) == on_disk
    done(party.handle(Commit(0, "9f", 2, digest)))
    assert refusal(party.handle(Commit(0, "9f", 2, "0" * 64))) == "checkpoint"
    assert refusal(party.handle(Commit(0, "a1", 2, digest))) == "wrong-request"


def test_a_commit_said_again_leaves_the_next_request_alone(tmp_path: Path) -> None:
    party = make_party(tmp_path)
    party.handle(Save(0, 1))
    done(party.handle(BEGIN_REQUEST))
    digest = stage(party)
    done(party.handle(Commit(0, "9f", 2, digest)))
    before = state(party)
    done(party.handle(replace(BEGIN_REQUEST, request="a1")))
    train(party, 0, "frozen")
    moved = state(party)
    done(party.handle(Commit(0, "9f", 2, digest)))
    assert same(moved, state(party))
    later = stage(party, "a1", 3)
    done(party.handle(Commit(0, "9f", 2, digest)))
    assert standing(party).staged == "a1"
    done(party.handle(Rollback(0, "a1")))
    assert same(before, state(party))
    assert refusal(party.handle(Commit(0, "a1", 3, later))) == "checkpoint"


@pytest.mark.parametrize("moved", [(), ("safetensors",), ("safetensors", "json")])
def test_a_commit_that_a_crash_cut_short_is_finished_when_it_is_said_again(
    tmp_path: Path, moved: tuple[str, ...]
) -> None:
    party = make_party(tmp_path)
    party.handle(Save(0, 1))
    digest = stage(party)
    for kind in moved:
        (tmp_path / "staged" / f"000002.{kind}").rename(tmp_path / "versions" / f"000002.{kind}")
    other = make_party(tmp_path)
    assert standing(other).staged == ("" if "json" in moved else "9f")
    done(other.handle(Commit(0, "9f", 2, digest)))
    assert standing(other).versions == (1, 2)
    assert not list((tmp_path / "staged").iterdir())
    assert [e.event for e in ledger(other)] == ["commit"]
    done(other.handle(Restore(0, 2, digest)))


def test_a_party_without_a_folder_forgets_what_it_would_have_returned_to() -> None:
    party = make_party()
    done(party.handle(BEGIN_REQUEST))
    train(party, 0, "frozen")
    after = party.bottom.model_state()["model/0.weight"].clone()
    done(party.handle(Commit(0, "9f", 0, "")))
    done(party.handle(Rollback(0, "9f")))
    assert torch.equal(after, party.bottom.model_state()["model/0.weight"])


# --- purge ---------------------------------------------------------------------------------


def test_a_purge_leaves_one_version_a_ledger_and_no_transcript(tmp_path: Path) -> None:
    party = make_party(tmp_path, record=True)
    for version in (1, 2, 3):
        party.handle(Save(0, version))
    assert (tmp_path / "transcript.jsonl").exists()
    done(party.handle(BEGIN_REQUEST))
    digest = stage(party)
    done(party.handle(Commit(0, "9f", 4, digest)))
    (tmp_path / "versions" / "000005.safetensors.part").write_bytes(b"a draft")
    done(party.handle(Purge(0, "9f", 4)))
    expected = {"ledger.jsonl", "versions/000004.json", "versions/000004.safetensors"}
    assert set(files(tmp_path)) == expected
    on_disk = files(tmp_path)
    done(party.handle(Purge(0, "9f", 4)))
    assert files(tmp_path) == on_disk
    assert [(e.event, e.request) for e in ledger(party)] == [("commit", "9f"), ("purge", "9f")]
    assert party.transcript is not None
    assert [(e.direction, e.kind) for e in party.transcript.entries] == [("sent", "Done")]
    done(party.handle(Restore(0, 4, digest)))


def test_a_transcript_that_an_earlier_sitting_wrote_is_purged_too(tmp_path: Path) -> None:
    first = make_party(tmp_path, record=True)
    first.handle(Save(0, 1))
    digest = stage(first)
    done(first.handle(Commit(0, "9f", 2, digest)))
    assert first.transcript is not None
    first.transcript.flush()
    done(make_party(tmp_path).handle(Purge(0, "9f", 2)))
    assert not (tmp_path / "transcript.jsonl").exists()


def test_a_purge_never_leaves_a_party_without_a_version(tmp_path: Path) -> None:
    party = make_party(tmp_path)
    party.handle(Save(0, 1))
    stage(party)
    on_disk = files(tmp_path)
    for version in (2, 0, -1):
        assert refusal(party.handle(Purge(0, "9f", version))) == "wrong-request"
    assert files(tmp_path) == on_disk


def test_a_purge_said_again_leaves_the_next_request_alone(tmp_path: Path) -> None:
    party = make_party(tmp_path)
    party.handle(Save(0, 1))
    digest = stage(party)
    done(party.handle(Commit(0, "9f", 2, digest)))
    later = stage(party, "a1", 3)
    done(party.handle(Purge(0, "9f", 2)))
    assert standing(party).staged == "a1"
    done(party.handle(Commit(0, "a1", 3, later)))
    done(party.handle(Purge(0, "9f", 2)))
    assert standing(party).versions == (2, 3)
    done(party.handle(RetainVersions(0, (3,))))
    assert refusal(party.handle(Purge(0, "9f", 2))) == "wrong-request"


# --- damage --------------------------------------------------------------------------------


def test_a_damaged_ledger_or_stage_is_named_and_nothing_is_decided(tmp_path: Path) -> None:
    party = make_party(tmp_path)
    stage(party)
    path = tmp_path / "staged" / "000001.json"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"9f", b"8f"))
    for message in (Status(0), BEGIN_REQUEST, Stage(0, "9f", 2, NOTE), Rollback(0, "9f")):
        assert refusal(party.handle(message)) == "checkpoint"
    path.write_bytes(whole)
    (tmp_path / "ledger.jsonl").write_bytes(b"{}\n")
    for message in (Status(0), Rollback(0, "9f")):
        assert refusal(party.handle(message)) == "checkpoint"
    assert path.exists()
