"""Split training is the training of one network: the same weights, to the last bit."""

from __future__ import annotations

import copy
from typing import Any, Literal

import pytest
import torch
import torch.nn.functional as F
from federations import small_holdings
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from unlabel.models import Top
from unlabel.party import ActiveParty, PassiveParty, Stream
from unlabel.party.optimisers import learning_rate
from unlabel.train import Holdings, assemble, batches
from unlabel.wire import Recorder

STEPS = 6


def all_weights(active: ActiveParty, passives: dict[str, PassiveParty]) -> dict[str, Tensor]:
    """Return the weights and statistics of every party, by party and name."""
    modules = {"top": active.top.module}
    if active.bottom is not None:
        modules["active"] = active.bottom.module
    modules |= {name: party.bottom.module for name, party in passives.items()}
    return {f"{who}/{k}": v for who, m in modules.items() for k, v in m.state_dict().items()}


def train_in_one_piece(holdings: Holdings, order: list[Tensor]) -> dict[str, Tensor]:
    """Train the same network as one ordinary module with one optimiser and one backward pass."""
    active, passives = assemble(holdings)  # only for the same initial weights and scaling
    active.prepare(holdings.rows.train, len(order))
    bottoms = {name: party.bottom for name, party in passives.items()}
    if active.bottom is not None:
        bottoms = {"active": active.bottom, **bottoms}
    scalings = {name: bottom.scaling for name, bottom in bottoms.items()}
    network = nn.ModuleDict({k: copy.deepcopy(b.module) for k, b in bottoms.items()})
    top = active.top.module
    assert isinstance(top, Top)
    network["top"] = copy.deepcopy(top.head)
    train = holdings.config.train
    optimiser: torch.optim.Optimizer
    if train.optimiser == "adam":
        optimiser = torch.optim.Adam(
            network.parameters(), weight_decay=train.weight_decay, fused=True
        )
    else:
        optimiser = torch.optim.SGD(
            network.parameters(),
            momentum=train.momentum,
            weight_decay=train.weight_decay,
            fused=True,
        )
    network.train()
    for step, rows in enumerate(order):
        embeddings = []
        for name in bottoms:
            torch.manual_seed(Stream(train.seed, name).number(step))
            scaling = scalings[name]
            assert scaling is not None
            x = (holdings.features[name].values[rows].float() - scaling.mean) / scaling.std
            embeddings.append(network[name](x))
        torch.manual_seed(Stream(train.seed, "active/top").number(step))
        logits = network["top"](torch.cat(embeddings, 1))
        optimiser.zero_grad()
        F.cross_entropy(logits, holdings.labels[rows]).backward()
        optimiser.param_groups[0]["lr"] = learning_rate(train, step, len(order))
        optimiser.step()
    named = dict(network.state_dict().items())
    return {k.replace("top.", "top/head.", 1) if k.startswith("top.") else k.replace(".", "/", 1): v
            for k, v in named.items()}  # fmt: skip


def train_split(holdings: Holdings, order: list[Tensor], *, encoded: bool) -> dict[str, Tensor]:
    active, passives = assemble(holdings, encoded=encoded)
    active.prepare(holdings.rows.train, len(order))
    for step, rows in enumerate(order):
        active.step(rows, step)
    return all_weights(active, passives)


def draw_order(holdings: Holdings, steps: int) -> list[Tensor]:
    found: list[Tensor] = []
    epoch = 0
    while len(found) < steps:
        epoch += 1
        found += batches(holdings.rows.train, 8, seed=3, epoch=epoch)
    return found[:steps]


@pytest.mark.parametrize("parties", [1, 2, 4, 8])
@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
@settings(max_examples=8, deadline=None)
@given(
    bottom=st.sampled_from(["plain_bottom", "norm_bottom", "dropout_bottom"]),
    top=st.sampled_from(["linear", "small_models:dropout_top"]),
    active_part=st.booleans(),
    encoded=st.booleans(),
    seed=st.integers(0, 1000),
    schedule=st.sampled_from(["constant", "cosine", "linear"]),
)
def test_split_training_gives_the_weights_of_one_piece_training_bit_for_bit(
    parties: int,
    optimiser: Literal["sgd", "adam"],
    bottom: str,
    top: str,
    active_part: bool,
    encoded: bool,
    seed: int,
    schedule: str,
) -> None:
    holdings = small_holdings(
        parties,
        bottom=f"small_models:{bottom}",
        top=top,
        active_part=active_part,
        optimiser=optimiser,
        seed=seed,
        schedule=schedule,
    )
    order = draw_order(holdings, STEPS)
    whole = train_in_one_piece(holdings, order)
    split = train_split(holdings, order, encoded=encoded)
    assert not split.pop("top/muted").any()
    assert split.keys() == whole.keys()
    different = [name for name in split if not torch.equal(split[name], whole[name])]
    assert different == []


@pytest.mark.parametrize("encoded", [False, True])
def test_training_changes_every_weight(encoded: bool) -> None:
    """Without this the comparison above could hold for a training that does nothing."""
    holdings = small_holdings(2, bottom="small_models:norm_bottom", active_part=True)
    before = {k: v.clone() for k, v in all_weights(*assemble(holdings)).items()}
    after = train_split(holdings, draw_order(holdings, STEPS), encoded=encoded)
    unchanged = [name for name in before if torch.equal(before[name], after[name])]
    assert unchanged == ["top/muted"]  # which labels are muted is not learned


def test_the_built_in_models_train_the_same_with_and_without_the_codec() -> None:
    found: list[dict[str, Tensor]] = []
    for encoded in (False, True):
        holdings = small_holdings(2, bottom="convnet", augment="crop-flip")
        found.append(train_split(holdings, draw_order(holdings, STEPS), encoded=encoded))
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_a_passive_party_receives_the_gradient_of_the_loss_for_its_own_embeddings() -> None:
    holdings = small_holdings(2)
    active, passives = assemble(holdings)
    rows = holdings.rows.train[:5]
    active.prepare(holdings.rows.train, 10)
    name = "passive-2"
    bottoms = {k: party.bottom for k, party in passives.items()}

    def loss_at(shift: Tensor) -> float:
        found = {
            k: b.embed(rows, table="main", mode="predict", step=0).double()
            for k, b in bottoms.items()
        }
        found[name] = found[name] + shift
        head: Any = copy.deepcopy(active.top.module.head).double()
        logits = head(torch.cat(list(found.values()), 1))
        return F.cross_entropy(logits, holdings.labels[rows]).item()

    expected = torch.zeros(5, 5, dtype=torch.float64)
    for i in range(5):
        for j in range(5):
            shift = torch.zeros(5, 5, dtype=torch.float64)
            shift[i, j] = 1e-5
            expected[i, j] = (loss_at(shift) - loss_at(-shift)) / 2e-5
    active.transport = Recorder(active.transport, keep_tensors=True)
    active.step(rows, 0)
    received = [
        entry.tensors["values"]
        for entry in active.transport.transcripts[name].entries
        if entry.kind == "Gradients"
    ]
    torch.testing.assert_close(received[0].double(), expected, rtol=1e-4, atol=1e-7)
