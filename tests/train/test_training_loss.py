"""What a step of training minimises: mixed and balanced losses, against one ordinary network."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from federations import LABELS, small_holdings
from torch import Tensor, nn

from unlabel.models import Top
from unlabel.party import ActiveParty, PassiveParty, Stream
from unlabel.party.optimisers import learning_rate
from unlabel.party.training_loss import MIXING, TrainingLoss, balanced
from unlabel.train import Holdings, assemble, batches

STEPS = 5


def weights_of(active: ActiveParty, passives: dict[str, PassiveParty]) -> list[Tensor]:
    modules = [*(party.bottom.module for party in passives.values()), active.top.module]
    return [w.detach().clone() for module in modules for w in module.parameters()]


def order_of(holdings: Holdings) -> list[Tensor]:
    train = holdings.rows.train
    found = [rows for epoch in (1, 2) for rows in batches(train, 8, seed=3, epoch=epoch)]
    return found[:STEPS]


def train_split(holdings: Holdings) -> list[Tensor]:
    active, passives = assemble(holdings, encoded=True)
    order = order_of(holdings)
    active.prepare(holdings.rows.train, len(order))
    for step, rows in enumerate(order):
        active.step(rows, step)
    return weights_of(active, passives)


def mixture(holdings: Holdings, rows: int, step: int) -> tuple[float, Tensor]:
    """Return the larger share of a step's mixture, and who is mixed with whom."""
    train = holdings.config.train
    rng = np.random.default_rng(Stream(train.seed, MIXING).number(step))
    share = rng.beta(train.mixup, train.mixup)
    return max(share, 1 - share), torch.from_numpy(rng.permutation(rows))


def train_in_one_piece(holdings: Holdings) -> list[Tensor]:
    """Train one ordinary network, with the loss written out row by row."""
    active, passives = assemble(holdings)  # for the same initial weights and scaling
    order, train = order_of(holdings), holdings.config.train
    active.prepare(holdings.rows.train, len(order))
    bottoms = nn.ModuleDict({k: copy.deepcopy(p.bottom.module) for k, p in passives.items()})
    top = active.top.module
    assert isinstance(top, Top)
    head = copy.deepcopy(top.head)
    known = holdings.labels[holdings.rows.train]
    weight = torch.ones(LABELS)
    if train.balance:
        weight = torch.tensor([1 / max(1, int((known == y).sum())) for y in range(LABELS)])
    optimiser = torch.optim.SGD([*bottoms.parameters(), *head.parameters()], momentum=0.9)
    for step, rows in enumerate(order):
        hidden = []
        for name, party in passives.items():
            scaling = party.bottom.scaling
            assert scaling is not None
            x = (holdings.features[name].values[rows].float() - scaling.mean) / scaling.std
            hidden.append(bottoms[name](x))
        whole, y = torch.cat(hidden, 1), holdings.labels[rows]
        share, other = 1.0, torch.arange(len(rows))
        if train.mixup:
            share, other = mixture(holdings, len(rows), step)
        likely = head(share * whole + (1 - share) * whole[other]).log_softmax(1)
        loss = torch.zeros(())
        for target, part in ((y, share), (y[other], 1 - share)):
            own = [-weight[t] * likely[i, t] for i, t in enumerate(target.tolist())]
            loss = loss + part * torch.stack(own).sum() / weight[target].sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.param_groups[0]["lr"] = learning_rate(train, step, len(order))
        optimiser.step()
    return [w.detach() for module in (bottoms, head) for w in module.parameters()]


@pytest.mark.parametrize("parties", [1, 2, 3])
@pytest.mark.parametrize(("mixup", "balance"), [(0.75, False), (0.0, True), (0.4, True)])
def test_a_split_step_descends_the_loss_of_one_network(
    parties: int, mixup: float, balance: bool
) -> None:
    holdings = small_holdings(
        parties, mixup=mixup, balance=balance, optimiser="sgd", momentum=0.9, weight_decay=0.0
    )
    split, whole = train_split(holdings), train_in_one_piece(holdings)
    assert len(split) == len(whole)
    for ours, theirs in zip(split, whole, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5, rtol=1e-4)
    plain = train_split(small_holdings(parties, optimiser="sgd", momentum=0.9, weight_decay=0.0))
    assert not all(torch.allclose(a, b, atol=1e-4) for a, b in zip(split, plain, strict=True))


def test_a_mixture_by_hand() -> None:
    """One coordinate, two rows, a top that gives [h, 0]: H' = l h_i + (1 - l) h_j."""
    objective = TrainingLoss(Stream(5, MIXING), mixup=1.0)
    h, y = torch.tensor([[2.0], [-1.0]], requires_grad=True), torch.tensor([0, 1])
    for step in range(4):
        share, order = objective._draw(2, step)
        assert 0.5 <= share <= 1
        loss, correct = objective.loss(lambda e: F.pad(e[0], (0, 1)), [h], y, step)
        a, b = (
            (2 * share - (1 - share), -share + 2 * (1 - share))
            if order.tolist() == [1, 0]
            else (2.0, -1.0)
        )
        targets = y[order].tolist()
        first = (math.log1p(math.exp(-a)) + math.log1p(math.exp(b))) / 2
        signs = [-1 if t == 0 else 1 for t in targets]
        pairs = zip(signs, (a, b), strict=True)
        second = sum(math.log1p(math.exp(s * v)) for s, v in pairs) / 2
        assert math.isclose(
            float(loss.detach()), share * first + (1 - share) * second, rel_tol=1e-5
        )
        assert int(correct) == int(a > 0) + int(b < 0)
    assert len({objective._draw(2, step)[0] for step in range(4)}) == 4


def test_a_balanced_loss_by_hand() -> None:
    """Three rows of one label and one of another weigh 2/3 each and 2: in all as much."""
    weights = balanced(torch.tensor([0, 0, 0, 1]), 2)
    assert torch.allclose(weights, torch.tensor([2 / 3, 2.0]))
    objective = TrainingLoss(Stream(0, MIXING), weights=weights)
    logits = torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [math.log(3), 0.0]])
    loss, _ = objective.loss(lambda e: e[0], [logits], torch.tensor([0, 0, 0, 1]), 0)
    # log 2 for each of the first, log 4 for the last; the two labels weigh alike
    assert math.isclose(float(loss), (math.log(2) + math.log(4)) / 2, rel_tol=1e-6)


def test_a_label_without_rows_weighs_nothing() -> None:
    assert balanced(torch.tensor([0, 0, 2, 2]), 4).tolist() == [1.0, 0.0, 1.0, 0.0]
