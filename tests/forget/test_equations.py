"""The methods against one-piece autograd, written straight from the equations."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from federations import small_holdings
from torch import Tensor, nn

from unlabel.federation import Federation
from unlabel.forget import ForgetSettings, Method, plan
from unlabel.forget.methods.ascent import Ascent
from unlabel.forget.methods.mixup_ascent import MixupAscent
from unlabel.forget.methods.renormalise import Renormalise
from unlabel.wire import LocalTransport

LABELS = 8
NAMES = tuple("abcdefgh")
SHOTS, KEPT = 3, 2
KEY = "ab" * 32


def federation(parties: int, bottom: str = "plain_bottom", active_part: bool = False) -> Federation:
    """Return a trained federation on random images of eight labels, twelve public rows a label."""
    holdings = small_holdings(
        parties, bottom=f"small_models:{bottom}", rows=192, active_part=active_part, lr=0.1
    )
    every = torch.arange(192)
    holdings = replace(
        holdings,
        labels=every % LABELS,
        names=NAMES,
        rows=replace(holdings.rows, train=every[:80], test=every[80:96], public=every[96:]),
    )
    made = Federation.of(holdings)
    made.train()
    return made


class OnePiece:
    """The same network in one piece: bottoms and top as copies, one optimiser each."""

    def __init__(self, fed: Federation, rates: tuple[float, float], momentum: float, decay: float):
        own = [fed.active.bottom] if fed.active.bottom is not None else []
        parties = [*own, *(party.bottom for party in fed.passives.values())]
        self.bottoms = [copy.deepcopy(party.module).eval() for party in parties]
        self.top = copy.deepcopy(fed.active.top.module).eval()
        self.inputs = []
        for party in parties:
            assert party.scaling is not None
            self.inputs.append(party.scaling.apply(party.tables["main"].values))
        self.optimisers = [
            torch.optim.SGD(m.parameters(), lr=r, momentum=momentum, weight_decay=decay)
            for m, r in [(self.top, rates[0]), *((b, rates[1]) for b in self.bottoms)]
        ]

    def embed(self, rows: Tensor) -> list[Tensor]:
        pairs = zip(self.bottoms, self.inputs, strict=True)
        return [bottom(x[rows]) for bottom, x in pairs]

    def descend(self, loss: Tensor) -> None:
        for optimiser in self.optimisers:
            optimiser.zero_grad()
        loss.backward()
        for optimiser in self.optimisers:
            optimiser.step()

    def expect_equal(self, fed: Federation) -> None:
        """Every weight of every party is the same to rounding."""
        own = [fed.active.bottom.module] if fed.active.bottom is not None else []
        split = [fed.active.top.module, *own, *(p.bottom.module for p in fed.passives.values())]
        for mine, theirs in zip([self.top, *self.bottoms], split, strict=True):
            state = theirs.state_dict()
            for name, value in mine.state_dict().items():
                torch.testing.assert_close(state[name], value, rtol=1e-5, atol=1e-6)


def mixed_loss(
    net: OnePiece, rows: Tensor, labels: Tensor, lambdas: Sequence[float], same: bool
) -> Tensor:
    """Return the mean over ordered pairs and lambdas of CE(F(Mix H_1, .., Mix H_K), Mix y)."""
    embeddings = net.embed(rows)
    y = F.one_hot(labels, LABELS).float()
    losses = []
    for share in lambdas:
        for i, j in product(range(len(rows)), repeat=2):
            if same and labels[i] != labels[j]:
                continue
            mixed = [share * h[i : i + 1] + (1 - share) * h[j : j + 1] for h in embeddings]
            target = share * y[i : i + 1] + (1 - share) * y[j : j + 1]
            losses.append(F.cross_entropy(net.top(mixed), target))
    return torch.stack(losses).mean()


def shots_of(fed: Federation, forgotten: Sequence[int]) -> tuple[Tensor, Tensor, int]:
    """Return the rows, labels and number of forgotten samples that a request will use."""
    settings = ForgetSettings(method="renormalise", few_shot=SHOTS, retained=KEPT, key=KEY)
    samples = plan(fed, labels=list(forgotten), settings=settings).samples
    return samples.rows, samples.labels, samples.forgotten


def forget(fed: Federation, labels: Sequence[int], method: Method) -> None:
    fed.forget(
        labels, settings=ForgetSettings(method=method, few_shot=SHOTS, retained=KEPT, key=KEY)
    )


@pytest.mark.parametrize("parties", [1, 2, 4])
@pytest.mark.parametrize("forgotten", [(0,), (2, 5), (0, 2, 5, 7)])
def test_an_epoch_of_the_paper_is_the_one_of_its_equations(
    parties: int, forgotten: tuple[int, ...]
) -> None:
    fed = federation(parties)
    method = replace(MixupAscent.as_printed(0.05, 1), batchnorm="frozen")
    net = OnePiece(fed, (0.05, 0.05), 0.9, 5e-4)
    rows, labels, count = shots_of(fed, forgotten)
    assert count == SHOTS * len(forgotten)
    net.descend(-mixed_loss(net, rows[:count], labels[:count], method.lambdas, same=True))
    net.descend(mixed_loss(net, rows[count:], labels[count:], method.lambdas, same=False))
    forget(fed, forgotten, method)
    net.expect_equal(fed)


@pytest.mark.parametrize("bottom", ["plain_bottom", "norm_bottom"])
@pytest.mark.parametrize("encoded", [False, True])
def test_three_epochs_with_an_active_bottom_too(bottom: str, encoded: bool) -> None:
    fed = federation(2, bottom=bottom, active_part=True)
    if encoded:
        fed.active.transport = LocalTransport(fed.passives, encoded=True)
    net = OnePiece(fed, (0.01, 0.01), 0.9, 0.0)
    rows, labels, count = shots_of(fed, (1,))
    for _ in range(3):
        net.descend(-mixed_loss(net, rows[:count], labels[:count], (0.3,), same=True))
        net.descend(mixed_loss(net, rows[count:], labels[count:], (0.3,), same=False))
    method = replace(
        MixupAscent.as_printed(0.01, 3), lambdas=(0.3,), weight_decay=0.0, batchnorm="frozen"
    )
    forget(fed, (1,), method)
    net.expect_equal(fed)


@pytest.mark.parametrize("across", [0.0, 0.2])
@pytest.mark.parametrize("forgotten", [(0,), (2, 5)])
def test_turns_climb_by_a_length_that_is_found_while_the_label_is_known(
    forgotten: tuple[int, ...], across: float
) -> None:
    """Both branches are met: the label is known at first, and not after some turns."""
    fed = federation(2, active_part=True)
    method = MixupAscent(
        epochs=14, look=100, bottom_lr=0.01, recovery_lr=0.03, stop=0.1, across=across
    )
    net = OnePiece(fed, (method.lr, method.bottom_lr), 0.0, 0.0)
    rows, labels, count = shots_of(fed, forgotten)
    length, met = 0.1, set()
    for _ in range(14):
        loss, p, norm = climbed(net, rows[:count], labels[:count], method.lambdas)
        met.add(p > method.stop)
        net.descend(-loss * (length / norm if p > method.stop else 0.0))
        length *= 1.25 if p > method.stop else 0.5
        repaired = mixed_loss(net, rows[count:], labels[count:], method.lambdas, same=False)
        shared = shared_out(net, rows, labels, count, method.lambdas, forgotten) if across else 0
        net.descend(0.03 / 0.1 * (repaired + across * shared))
    forget(fed, forgotten, method)
    net.expect_equal(fed)
    assert met == {True, False}


def climbed(
    net: OnePiece, rows: Tensor, labels: Tensor, lambdas: Sequence[float]
) -> tuple[Tensor, float, float]:
    """Return L_u, the mean p(label) of mixed samples, and the gradient's length over the top's
    weights and all embeddings."""
    embeddings = net.embed(rows)
    losses, beliefs = [], []
    for share, (i, j) in product(lambdas, product(range(len(rows)), repeat=2)):
        if labels[i] == labels[j]:
            logits = net.top(
                [share * h[i : i + 1] + (1 - share) * h[j : j + 1] for h in embeddings]
            )
            losses.append(F.cross_entropy(logits, labels[i : i + 1]))
            beliefs.append(float(logits.detach().softmax(1)[0, labels[i]]))
    loss = torch.stack(losses).mean()
    parts = torch.autograd.grad(loss, [*net.top.parameters(), *embeddings], retain_graph=True)
    norm = sum(float(part.square().sum()) for part in parts) ** 0.5
    return loss, sum(beliefs) / len(beliefs), norm


def shared_out(
    net: OnePiece,
    rows: Tensor,
    labels: Tensor,
    count: int,
    lambdas: Sequence[float],
    forgotten: Sequence[int],
) -> Tensor:
    """Return L_a: a forgotten sample mixed with a retained one, each in both places."""
    embeddings = net.embed(rows)
    stay = [n for n in range(LABELS) if n not in forgotten]
    losses = []
    for share, i, j in product(lambdas, range(count), range(count, len(rows))):
        for of_forgotten in (share, 1 - share):
            mixed = [
                of_forgotten * h[i : i + 1] + (1 - of_forgotten) * h[j : j + 1] for h in embeddings
            ]
            log_p = net.top(mixed).log_softmax(1)[0]
            known = (1 - of_forgotten) * log_p[labels[j]]
            losses.append(-known - of_forgotten * log_p[stay].mean())
    return torch.stack(losses).mean()


def test_turns_end_once_the_label_is_gone_and_the_rest_is_as_it_was() -> None:
    fed = federation(2)
    ended = fed.forget([1], settings=ForgetSettings(method=MixupAscent(), few_shot=SHOTS, key=KEY))
    ended.rollback()
    assert ended.result.steps < 2 * MixupAscent().epochs
    fed = federation(2)
    method = MixupAscent(epochs=7, stop=1e-12)
    whole = fed.forget([1], settings=ForgetSettings(method=method, few_shot=SHOTS, key=KEY))
    assert whole.result.steps == 14


def test_plain_ascent_climbs_every_row_of_the_label() -> None:
    fed = federation(2)
    net = OnePiece(fed, (0.01, 0.01), 0.0, 0.0)
    train = fed.holdings.rows.train
    rows = train[fed.holdings.labels[train] == 3]
    net.descend(-F.cross_entropy(net.top(net.embed(rows)), fed.holdings.labels[rows]))
    method = Ascent(
        samples="all", lr=0.01, epochs=1, momentum=0.0, weight_decay=0.0, batchnorm="frozen"
    )
    forget(fed, (3,), method)
    net.expect_equal(fed)


@pytest.mark.parametrize("parties", [1, 3])
@pytest.mark.parametrize("forgotten", [(0,), (0, 2, 5, 7)])
def test_joint_steps_are_those_of_the_renormalised_objective(
    parties: int, forgotten: tuple[int, ...]
) -> None:
    fed = federation(parties)
    method = Renormalise(top_lr=0.01, bottom_lr=0.003, steps=3, until=0.0, hold=0.7)
    net = OnePiece(fed, (0.01, 0.003), method.momentum, 0.0)
    rows, labels, count = shots_of(fed, forgotten)
    old = copy.deepcopy(net)
    with torch.no_grad():
        start = old.embed(rows)
    for _ in range(3):
        embeddings = net.embed(rows)
        loss = torch.zeros(())
        for part, same in ((slice(0, count), True), (slice(count, None), False)):
            loss = loss + renormalised(net, old, embeddings, start, part, labels, forgotten, same)
        for now, before in zip(embeddings, start, strict=True):
            gap = (now[count:] - before[count:]).square().sum()
            loss = loss + 0.7 * gap / before[count:].square().sum()
        net.descend(loss)
    forget(fed, forgotten, method)
    net.expect_equal(fed)


def renormalised(
    net: OnePiece,
    old: OnePiece,
    embeddings: list[Tensor],
    start: list[Tensor],
    part: slice,
    labels: Tensor,
    forgotten: Sequence[int],
    same: bool,
) -> Tensor:
    """Return the mean KL(q || p) over ordered pairs, pair by pair."""
    losses = []
    chosen = labels[part]
    for share in (0.25, 0.5):
        for i, j in product(range(len(chosen)), repeat=2):
            if same and chosen[i] != chosen[j]:
                continue
            now = [share * h[part][i] + (1 - share) * h[part][j] for h in embeddings]
            then = [share * h[part][i] + (1 - share) * h[part][j] for h in start]
            with torch.no_grad():
                q = old.top([h[None] for h in then]).softmax(1)
                q[:, list(forgotten)] = 0
                q = q / q.sum()
            log_p = net.top([h[None] for h in now]).log_softmax(1)
            losses.append(F.kl_div(log_p, q, reduction="sum"))
    return torch.stack(losses).mean()


def test_statistics_drift_in_training_mode_and_stay_where_frozen() -> None:
    for mode, moves in (("drift", True), ("frozen", False)):
        fed = federation(2, bottom="norm_bottom")
        module = fed.passives["passive-1"].bottom.module
        norms = [part for part in module.modules() if isinstance(part, nn.BatchNorm2d)]
        assert norms[0].running_mean is not None
        before = norms[0].running_mean.clone()
        forget(fed, (1,), MixupAscent(lr=0.0, bottom_lr=0.0, epochs=1, batchnorm=mode))  # type: ignore[arg-type]
        assert (not torch.equal(before, norms[0].running_mean)) == moves
