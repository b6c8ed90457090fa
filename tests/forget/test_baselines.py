"""The published methods against one piece of plain autograd, their formulas written out here."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from cli.command_line import one_thread
from coded import coded
from forget.one_piece import (
    KEY,
    NAMES,
    ROWS,
    SEED,
    TRAIN,
    Kind,
    OnePiece,
    descend,
    federation,
    orders,
    parts_of,
)
from safetensors.torch import load_file
from torch import Tensor, nn
from unlabel_bench.methods.amnesiac import Amnesiac
from unlabel_bench.methods.boundary import Boundary
from unlabel_bench.methods.delete import Delete
from unlabel_bench.methods.finetune import Finetune
from unlabel_bench.methods.fisher import Fisher
from unlabel_bench.methods.scrub import Scrub
from unlabel_bench.methods.ssd import SelectiveDampening
from unlabel_bench.methods.unsir import Unsir

from unlabel.errors import ForgetError
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings, Forgotten, Method, Outcome, plan
from unlabel.forget.methods.retrain import Retrain
from unlabel.party import Learner, Stream
from unlabel.train import Epoch, Watcher, batches

__all__ = ["one_thread"]  # a fixture for every test here

#: Tables and images, one party and several, with an active party that has features and without.
SETTINGS: list[tuple[Kind, int, bool]] = [
    ("table", 1, False),
    ("table", 3, False),
    ("table", 2, True),
    ("image", 1, False),
    ("image", 3, False),
]
every_setting = pytest.mark.parametrize(("kind", "parties", "active_part"), SETTINGS)
one_label_and_two = pytest.mark.parametrize("forgotten", [(1,), (1, 3)])
LABELS = len(NAMES)


class Reference:
    """A trained federation, and the same network in one piece with its inputs and rows.

    x, y        standardised inputs and labels of all rows
    unit        the full range of a pixel, or a column's deviation, in units of x
    rows, kept  training rows of the forgotten labels, and the others
    """

    def __init__(
        self, kind: Kind, parties: int, active_part: bool, forgotten: Sequence[int], **train: Any
    ) -> None:
        self.fed = federation(kind, parties, active_part, **train)
        self.fed.train()
        self.forgotten = list(forgotten)
        self.net = OnePiece(self.fed, kind)
        every = torch.arange(TRAIN)
        self.x, std = self.net.scale(every)
        self.unit = 255 / std if kind == "image" else torch.ones_like(std)
        self.y = torch.arange(ROWS) % LABELS
        chosen = torch.isin(self.y[:TRAIN], torch.tensor(self.forgotten))
        self.every, self.rows, self.kept = every, every[chosen], every[~chosen]

    def forget(self, method: Method) -> Outcome:
        before = parts_of(self.fed, self.net.names)
        before = {name: value.clone() for name, value in before.items()}
        outcome = forget(self.fed, self.forgotten, method)
        after = parts_of(self.fed, self.net.names)
        # It is something that is compared: every party's weights have moved.
        for number in range(len(self.net.names)):
            own = [k for k in before if k.startswith(f"bottoms.{number}.") and "weight" in k]
            assert any((after[k] - before[k]).abs().max() > 1e-4 for k in own)
        return outcome

    def loss(self, rows: Tensor, labels: Tensor | None = None) -> Tensor:
        return F.cross_entropy(self.net(self.x[rows]), (self.y if labels is None else labels)[rows])

    def sgd(self, lr: float, momentum: float, weight_decay: float) -> torch.optim.SGD:
        weights = self.net.parameters()
        return torch.optim.SGD(weights, lr=lr, momentum=momentum, weight_decay=weight_decay)

    def masked(self, logits: Tensor) -> Tensor:
        """Return the distribution over the labels that stay."""
        stay = [n for n in range(LABELS) if n not in self.forgotten]
        found = torch.zeros_like(logits)
        found[:, stay] = logits[:, stay].softmax(1)
        return found

    def gradients(self, loss: Tensor) -> list[Tensor]:
        weights = list(self.net.parameters())
        return list(torch.autograd.grad(loss, weights, retain_graph=True))


def forget(fed: Federation, labels: Sequence[int], method: Method) -> Outcome:
    return fed.forget(
        labels,
        settings=ForgetSettings(
            method=method, few_shot=2, retained=1, key=KEY, allow_collapse=True
        ),
    )


# Retraining


@pytest.mark.parametrize(
    ("parties", "active_part", "forgotten"),
    [(1, False, (1,)), (3, False, (1, 3)), (2, True, (0,)), (2, True, (0, 4))],
)
@pytest.mark.parametrize("kind", ["table", "image"])
def test_retraining_is_to_the_bit_a_training_that_never_met_the_label(
    kind: Kind, parties: int, active_part: bool, forgotten: tuple[int, ...]
) -> None:
    dropout = {"bottom": "small_models:dropout_bottom", "top": "small_models:dropout_top"}
    given: dict[str, Any] = {**dropout, "warmup": 0.2, "nesterov": True}
    fed = federation(kind, parties, active_part, **given)
    fed.train()
    met = model_states(fed)
    outcome = forget(fed, forgotten, Retrain())
    repeated = model_states(fed)
    never = federation(kind, parties, active_part, **given)
    never.forgotten = Forgotten(labels=forgotten)
    never.train()
    expect_same(repeated, model_states(never))
    net = OnePiece(fed, kind)
    kept = torch.arange(TRAIN)[~torch.isin(torch.arange(TRAIN) % LABELS, torch.tensor(forgotten))]
    scaled, _ = net.scale(kept)
    start = 0
    for name, width in zip(net.names, net.widths, strict=True):
        bottom = fed.active.bottom if name == "active" else fed.passives[name].bottom
        assert bottom is not None
        assert bottom.scaling is not None
        own = bottom.scaling.apply(bottom.tables["main"].values)
        torch.testing.assert_close(own, scaled[..., start : start + width], rtol=1e-5, atol=1e-5)
        start += width
    outcome.rollback()
    expect_same(model_states(fed), met)


#: Seven people of the first label, and one of the second.
PEOPLE = (0, 5, 10, 15, 20, 25, 30, 31)


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize("recipe", [{"mixup": 0.4}, {}])
@pytest.mark.parametrize("people", [PEOPLE, PEOPLE[-1:]])
def test_retraining_without_people_is_to_the_bit_a_training_that_never_had_their_labels(
    people: tuple[int, ...], recipe: dict[str, Any], balance: bool
) -> None:
    """The other training has other labels in their cells, so that nothing of these can count."""
    given: dict[str, Any] = {**recipe, "balance": balance}
    fed = federation("table", 2, True, **given)
    fed.train()
    met = model_states(fed)
    outcome = fed.forget(ids=[str(row) for row in people], settings=ForgetSettings(key=KEY))
    assert outcome.result.method == "retrain"
    never = federation("table", 2, True, **given)
    labels = never.holdings.labels.clone()
    labels[list(people)] = 4
    never = Federation.of(replace(never.holdings, labels=labels))
    never.forgotten = Forgotten(rows=people)
    never.train()
    expect_same(model_states(fed), model_states(never))
    # It is something that is compared: the recipe is in the weights, and these labels were.
    plain = federation("table", 2, True)
    plain.forgotten = never.forgotten
    plain.train()
    one, other = (model_states(each)["active"] for each in (never, plain))
    assert all(torch.equal(one[key], other[key]) for key in one) == (not recipe and not balance)
    assert not all(torch.equal(one[key], met["active"][key]) for key in one)
    outcome.rollback()
    expect_same(model_states(fed), met)


class StopAfter(Watcher):
    """Ends a training between two epochs."""

    def __init__(self, last: int) -> None:
        self.last = last

    def epoch_ended(self, epoch: Epoch, history: Sequence[Epoch]) -> None:
        if epoch.epoch == self.last:
            raise InterruptedError


def test_where_training_returned_to_an_epoch_retraining_ends_with_it() -> None:
    def made(**train: Any) -> Federation:
        fed = federation("table", 2, epochs=60, lr=0.3, **train)
        held = fed.holdings
        rows = replace(held.rows, train=held.rows.train[:50], validation=held.rows.train[50:])
        return Federation.of(replace(held, rows=rows))

    fed = made(validation=0.1, patience=4)
    progress = fed.train()
    assert progress.best_epoch < len(progress.history) < 60
    forget(fed, (2,), Retrain()).commit(force=True)
    never = made()
    never.forgotten = Forgotten(labels=(2,))
    with pytest.raises(InterruptedError):
        never.train(watchers=[StopAfter(progress.best_epoch)])
    expect_same(model_states(fed), model_states(never))
    # A later request knows it from the history of the training, which versions carry on.
    fed.forget(ids=["0"], settings=ForgetSettings(key=KEY))
    never = made()
    never.forgotten = Forgotten(labels=(2,), rows=(0,))
    with pytest.raises(InterruptedError):
        never.train(watchers=[StopAfter(progress.best_epoch)])
    expect_same(model_states(fed), model_states(never))


def model_states(fed: Federation) -> dict[str, dict[str, Tensor]]:
    own = {"active": fed.active.versions.model_state()}
    found = {**own, **{n: p.bottom.model_state() for n, p in fed.passives.items()}}
    return {who: {k: v.clone() for k, v in state.items()} for who, state in found.items()}


def expect_same(some: dict[str, dict[str, Tensor]], others: dict[str, dict[str, Tensor]]) -> None:
    assert some.keys() == others.keys()
    for who, state in some.items():
        assert state.keys() == others[who].keys()
        for name, value in state.items():
            assert torch.equal(value, others[who][name]), (who, name)


# Methods that train


@every_setting
@one_label_and_two
def test_finetuning_goes_on_with_the_retained_rows(
    kind: Kind, parties: int, active_part: bool, forgotten: tuple[int, ...]
) -> None:
    at = Reference(kind, parties, active_part, forgotten)
    at.net.train()
    optimiser = at.sgd(0.02, 0.9, 5e-4)
    for batch in orders(at.kept, 16, epochs=2):
        descend(optimiser, at.loss(batch))
    at.forget(Finetune(epochs=2, lr=0.02))
    at.net.expect_equal(at.fed)


@every_setting
@one_label_and_two
def test_amnesiac_teaches_each_row_one_other_label(
    kind: Kind, parties: int, active_part: bool, forgotten: tuple[int, ...]
) -> None:
    at = Reference(kind, parties, active_part, forgotten)
    stay = torch.tensor([n for n in range(LABELS) if n not in forgotten])
    draw = Stream(SEED, "relabel").generator(0)
    taught = at.y.clone()
    taught[at.rows] = stay[torch.randint(len(stay), (len(at.rows),), generator=draw)]
    assert not torch.isin(taught[:TRAIN], torch.tensor(forgotten)).any()
    at.net.train()
    optimiser = torch.optim.Adam(at.net.parameters(), lr=2e-3)
    for batch in orders(at.every, 16, epochs=2):
        descend(optimiser, at.loss(batch, taught))
    at.forget(Amnesiac(epochs=2, lr=2e-3))
    at.net.expect_equal(at.fed)


@every_setting
@one_label_and_two
def test_delete_distils_the_masked_output(
    kind: Kind, parties: int, active_part: bool, forgotten: tuple[int, ...]
) -> None:
    at = Reference(kind, parties, active_part, forgotten)
    with torch.no_grad():
        q = at.masked(at.net.eval()(at.x))
    at.net.train()
    optimiser = at.sgd(0.05, 0.9, 5e-4)
    for batch in orders(at.rows, 6, epochs=2):
        log_p = at.net(at.x[batch]).log_softmax(1)
        descend(optimiser, F.kl_div(log_p, q[batch], reduction="batchmean"))
    at.forget(Delete(epochs=2, lr=0.05, batch=6))
    at.net.expect_equal(at.fed)


@every_setting
@one_label_and_two
@pytest.mark.parametrize("ceiling", [0.0, 0.001])
def test_scrub_takes_turns_away_from_the_original_and_towards_it(
    kind: Kind, parties: int, active_part: bool, forgotten: tuple[int, ...], ceiling: float
) -> None:
    at = Reference(kind, parties, active_part, forgotten)
    heat, alpha, gamma = 3.0, 0.4, 0.8
    with torch.no_grad():
        t = (at.net.eval()(at.x) / heat).softmax(1)

    def distance(logits: Tensor, rows: Tensor) -> Tensor:
        p = (logits / heat).softmax(1)
        gap: Tensor = (t[rows] * (t[rows].log() - p.log())).sum(1)
        return heat**2 * gap

    above = 0
    at.net.train()
    optimiser = at.sgd(0.01, 0.9, 5e-4)
    for epoch in range(3):
        if epoch < 2:
            for batch in orders(at.rows, 8, first=epoch):
                apart = distance(at.net(at.x[batch]), batch)
                above += int((apart > ceiling).sum())
                if ceiling:
                    apart = torch.where(apart > ceiling, ceiling, apart)
                descend(optimiser, -apart.mean())
        for batch in orders(at.kept, 20, first=epoch):
            logits = at.net(at.x[batch])
            told = F.cross_entropy(logits, at.y[batch])
            descend(optimiser, alpha * distance(logits, batch).mean() + gamma * told)
    assert above or kind == "image"  # the ceiling is met
    method = Scrub(
        epochs=3, climbs=2, lr=0.01, alpha=alpha, gamma=gamma, temperature=heat, batch=20,
        forget_batch=8, ceiling=ceiling,
    )  # fmt: skip
    at.forget(method)
    at.net.expect_equal(at.fed)


@every_setting
@one_label_and_two
def test_shrinking_gives_each_row_to_the_label_over_the_nearest_boundary(
    kind: Kind, parties: int, active_part: bool, forgotten: tuple[int, ...]
) -> None:
    size = 0.1 if kind == "image" else 1.5
    at = Reference(kind, parties, active_part, forgotten)
    at.net.eval()
    x = at.x[at.rows].requires_grad_()
    (towards,) = torch.autograd.grad(F.cross_entropy(at.net(x), at.y[at.rows]), x)
    with torch.no_grad():
        moved = at.masked(at.net(x + size * at.unit * towards.sign()))
        unmoved = at.masked(at.net(x))
    nearest = at.y.clone()
    nearest[at.rows] = moved.argmax(1)
    assert not torch.isin(nearest[at.rows], torch.tensor(forgotten)).any()
    assert (moved.argmax(1) != unmoved.argmax(1)).any()  # it is the step that decides
    at.net.train()
    optimiser = at.sgd(0.05, 0.9, 0.0)
    for batch in orders(at.rows, 6, epochs=2):
        descend(optimiser, at.loss(batch, nearest))
    at.forget(Boundary(size=size, epochs=2, lr=0.05, batch=6))
    at.net.expect_equal(at.fed)


@every_setting
@one_label_and_two
def test_expanding_teaches_an_added_output_and_drops_it(
    kind: Kind, parties: int, active_part: bool, forgotten: tuple[int, ...]
) -> None:
    at = Reference(kind, parties, active_part, forgotten)
    head = at.net.head
    assert isinstance(head, nn.Sequential)
    old = head[-1]
    assert isinstance(old, nn.Linear)
    wider = nn.Linear(old.in_features, LABELS + 1)
    with torch.random.fork_rng():
        Stream(SEED, "added").start("init", torch.device("cpu"))
        added = nn.Linear(old.in_features, 1)
    with torch.no_grad():
        wider.weight.copy_(torch.cat([old.weight, added.weight]))
        wider.bias.copy_(torch.cat([old.bias, added.bias]))
    head[-1] = wider
    at.net.train()
    optimiser = at.sgd(0.05, 0.9, 5e-4)
    for batch in orders(at.rows, 6, epochs=2):
        descend(optimiser, at.loss(batch, torch.full((ROWS,), LABELS)))
    with torch.no_grad():
        old.weight.copy_(wider.weight[:LABELS])
        old.bias.copy_(wider.bias[:LABELS])
    head[-1] = old
    at.forget(Boundary(variant="expand", epochs=2, lr=0.05, batch=6, weight_decay=5e-4))
    at.net.expect_equal(at.fed)


@every_setting
@one_label_and_two
def test_unsir_impairs_with_the_noise_that_the_label_fits_least_and_repairs(
    kind: Kind, parties: int, active_part: bool, forgotten: tuple[int, ...]
) -> None:
    at = Reference(kind, parties, active_part, forgotten)
    noise, steps, copies, most = 5, 4, 3, 6
    y = torch.tensor(forgotten).repeat_interleave(noise)
    drawn = []
    for name, width in zip(at.net.names, at.net.widths, strict=True):
        draw = Stream(SEED, name).generator("draft")
        drawn.append(torch.randn(len(y), *at.x.shape[1:-1], width, generator=draw))
    z = torch.cat(drawn, -1).requires_grad_()
    at.net.eval()
    start = F.cross_entropy(at.net(z), y).item()
    mover = torch.optim.Adam([z], lr=0.1)
    for _ in range(steps):
        norm = z.square().flatten(1).sum(1).mean()
        descend(mover, -F.cross_entropy(at.net(z), y) + 0.1 * norm)
    assert F.cross_entropy(at.net(z), y).item() > start
    mixed = at.kept[torch.randperm(len(at.kept), generator=Stream(SEED, "some").generator(0))]
    some = torch.cat([mixed[at.y[mixed] == label][:most] for label in range(LABELS)])
    kept = some.sort().values
    assert len(kept) == most * (LABELS - len(forgotten))
    # The noise stands behind the rows, under the label that is to be forgotten.
    inputs, labels = torch.cat([at.x, z.detach()]), torch.cat([at.y, y])
    among = torch.cat([kept, (ROWS + torch.arange(len(y))).repeat(copies)])
    at.net.train()
    mixtures = 0
    for rows, lr in ((among, 2e-3), (kept, 1e-3)):
        optimiser = torch.optim.Adam(at.net.parameters(), lr=lr)
        for batch in orders(rows, 16):
            mixtures += bool((batch < ROWS).any() and (batch >= ROWS).any())
            descend(optimiser, F.cross_entropy(at.net(inputs[batch]), labels[batch]))
    assert mixtures >= 2
    method = Unsir(
        noise_batch=noise, noise_steps=steps, copies=copies, retained=most, impair_lr=2e-3,
        repair_lr=1e-3,
    )  # fmt: skip
    at.forget(method)
    at.net.expect_equal(at.fed)


# Methods that weigh


@every_setting
@one_label_and_two
def test_dampening_shrinks_what_matters_more_to_the_label(
    kind: Kind, parties: int, active_part: bool, forgotten: tuple[int, ...]
) -> None:
    at = Reference(kind, parties, active_part, forgotten)
    at.net.eval()
    weights = list(at.net.parameters())
    found = []
    for rows in (at.every, at.rows):
        total, count = [torch.zeros_like(w) for w in weights], 0
        for batch in orders(rows, 12):
            count += 1
            for own, gradient in zip(total, at.gradients(at.loss(batch)), strict=True):
                own += gradient**2
        found.append([own / count for own in total])
    shrunk = spared = still = 0
    with torch.no_grad():
        for w, general, own in zip(weights, *found, strict=True):
            chosen = own > general
            factor = torch.minimum(2.0 * general / own, torch.ones_like(own))
            shrunk += int((chosen & (factor < 1)).sum())
            spared += int((chosen & (factor == 1)).sum())
            still += int((~chosen).sum())
            w[chosen] *= factor[chosen]
    assert min(shrunk, spared, still) > 0
    at.forget(SelectiveDampening(alpha=1.0, strength=2.0, batch=12))
    at.net.expect_equal(at.fed)


def test_a_high_threshold_dampens_nothing_but_what_is_above_it() -> None:
    at = Reference("table", 2, False, (2,))
    before = parts_of(at.fed, at.net.names)
    before = {name: value.clone() for name, value in before.items()}
    outcome = forget(at.fed, at.forgotten, SelectiveDampening(alpha=1e9, batch=12))
    for name, value in parts_of(at.fed, at.net.names).items():
        assert torch.equal(value, before[name])
    outcome.rollback()


def importance(at: Reference) -> list[Tensor]:
    """Return F = mean over rows of sum over labels of p(y | x) (d CE(x, y) / d w)^2, one by one."""
    at.net.eval()
    total = [torch.zeros_like(w) for w in at.net.parameters()]
    for row in at.kept:
        logits = at.net(at.x[row : row + 1])
        p = logits.detach().softmax(1)[0]
        for label in range(LABELS):
            found = at.gradients(F.cross_entropy(logits, torch.tensor([label])))
            for own, gradient in zip(total, found, strict=True):
                own += p[label] * gradient**2
    return [own / len(at.kept) for own in total]


def fingerprint(at: Reference, part: str) -> str:
    """Return the digest of a part's weights, by which its noise is drawn."""
    named = at.net.named_parameters()
    held = [w.detach().numpy().tobytes() for name, w in named if name.startswith(f"{part}.")]
    return hashlib.sha256(b"".join(held)).hexdigest()


def shake(at: Reference, weighed: list[Tensor], alpha: float) -> dict[bool, int]:
    """Add the published noise, drawn as the parties draw it.

    As in the authors' code: v = 1 / (F + 1e-8) up to 1e3, in the last layer up to 1e2; times alpha;
    the mean over dimension 1; in the last layer the forgotten labels' weights become 0 and their v
    1e-4; v tenfold in the last layer and wherever there is one number a unit. Returned is how many
    numbers the limit cut, in the last layer (True) and elsewhere.
    """
    streams = {f"bottoms.{n}": Stream(SEED, name) for n, name in enumerate(at.net.names)}
    draws = {
        part: stream.generator(f"noise/{fingerprint(at, part)}") for part, stream in streams.items()
    }
    draws["head"] = Stream(SEED, "fisher/top").generator(fingerprint(at, "head"))
    cut = {True: 0, False: 0}
    with torch.no_grad():
        for (name, w), own in zip(at.net.named_parameters(), weighed, strict=True):
            last = name.startswith("head.2.")
            inverse = 1 / (own + 1e-8)
            most = 1e2 if last else 1e3
            cut[last] += int((inverse > most).sum())
            v = alpha * inverse.clamp(max=most)
            if v.dim() > 1:
                v = v.mean(1, keepdim=True).expand_as(w).clone()
            if last:
                w[at.forgotten] = 0
                v[at.forgotten] = 1e-4
            if last or v.dim() == 1:
                v = 10 * v
            draw = draws[next(part for part in draws if name.startswith(f"{part}."))]
            w.add_(v.sqrt() * torch.randn(w.shape, generator=draw))
    return cut


@every_setting
@one_label_and_two
def test_fisher_noise_is_that_of_the_exact_importance(
    kind: Kind, parties: int, active_part: bool, forgotten: tuple[int, ...]
) -> None:
    at = Reference(kind, parties, active_part, forgotten)
    cut = shake(at, importance(at), 1e-4)
    assert parties == 1 or min(cut.values()) > 0  # both limits are at work
    at.forget(Fisher(alpha=1e-4, labels="all"))
    at.net.expect_equal(at.fed)


@every_setting
@one_label_and_two
def test_drawn_fisher_noise_is_that_of_squared_signed_sums(
    monkeypatch: pytest.MonkeyPatch,
    kind: Kind,
    parties: int,
    active_part: bool,
    forgotten: tuple[int, ...],
) -> None:
    monkeypatch.setattr("unlabel_bench.methods.fisher.LEAST_BATCHES", 1)
    at = Reference(kind, parties, active_part, forgotten)
    at.net.eval()
    total = [torch.zeros_like(w) for w in at.net.parameters()]
    for number, batch in enumerate(orders(at.kept, 8)):
        draw = Stream(SEED, "fisher").generator(number)
        signs = torch.randint(2, (len(batch), LABELS), generator=draw) * 2.0 - 1.0
        logits = at.net(at.x[batch])
        share = logits.detach().softmax(1).sqrt()
        # The gradient of CE(x, y) for every label at once, each with its sign and root of p.
        found = at.gradients(-(signs * share * logits.log_softmax(1)).sum())
        for own, gradient in zip(total, found, strict=True):
            own += gradient**2
    shake(at, [own / len(at.kept) for own in total], 1e-4)
    at.forget(Fisher(alpha=1e-4, batch=8))
    at.net.expect_equal(at.fed)


def test_drawn_fisher_takes_many_batches_of_few_rows() -> None:
    at = Reference("table", 1, False, (1,))
    result = at.forget(Fisher(batch=1000)).result
    assert result.steps >= min(64, len(at.kept) // 2)


def test_a_second_fisher_request_adds_other_noise() -> None:
    fed = federation(parties=1)
    fed.train()
    bottom = next(iter(fed.passives.values())).bottom
    noise = []
    for label in (1, 2):
        before = [w.detach().clone() for w in bottom.module.parameters()]
        forget(fed, (label,), Fisher(alpha=1e-9)).commit(force=True)
        moved = zip(bottom.module.parameters(), before, strict=True)
        noise.append(torch.cat([(w - old).detach().flatten() for w, old in moved]))
    assert torch.corrcoef(torch.stack(noise))[0, 1].abs() < 0.5


def test_drawn_fisher_importance_is_the_exact_one_in_the_mean(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("unlabel_bench.methods.fisher.LEAST_BATCHES", 1)
    at = Reference("table", 2, False, (1,))
    exact = dict(zip((n for n, _ in at.net.named_parameters()), importance(at), strict=True))
    settings = ForgetSettings(method=Fisher(), few_shot=2, retained=1, key=KEY)
    work = plan(at.fed, labels=[1], settings=settings)
    saved, draws = at.fed.active.versions.snapshot(), 150
    first = {name: torch.zeros_like(value) for name, value in exact.items()}
    second = copy.deepcopy(first)
    for seed in range(draws):
        drawn = replace(work, training=replace(work.training, seed=seed))
        Fisher(alpha=0.0, batch=16).run(drawn)
        for name, value in gathered(at, "retained").items():
            first[name] += value / draws
            second[name] += value**2 / draws
        work.undo(saved)
    for name, value in exact.items():
        spread = (second[name] - first[name] ** 2).clamp(min=0).sqrt() / draws**0.5
        # Five standard errors, and those small enough for a bias to show.
        assert ((first[name] - value).abs() <= 5 * spread + 1e-9).all(), name
        assert spread.sum() < 0.1 * value.sum(), name


def gathered(at: Reference, name: str) -> dict[str, Tensor]:
    """Return the mean that every party has gathered for each of its weights."""
    learners: dict[str, Learner] = {"head": at.fed.active.top}
    for number, who in enumerate(at.net.names):
        learners[f"bottoms.{number}"] = at.fed.passives[who].bottom
    found: dict[str, Tensor] = {}
    for part, learner in learners.items():
        held = learner.sums.named[name]
        names = [key.removeprefix("head.") for key, _ in learner.module.named_parameters()]
        pairs = zip(names, held.tensors, strict=True)
        found |= {f"{part}.{key}": tensor / held.weight for key, tensor in pairs}
    return found


# Amnesiac subtraction


class Enough(Exception):
    """Stops a training between two epochs."""


class Stop(Watcher):
    def epoch_ended(self, epoch: Epoch, history: Sequence[Epoch]) -> None:
        raise Enough


REMEMBER: dict[str, Any] = {"batch": 4, "schedule": "constant", "lr": 0.02, "epochs": 2}


def all_learners(fed: Federation) -> dict[str, Learner]:
    return {**fed.active.learners(), **{n: p.bottom for n, p in fed.passives.items()}}


def moves(fed: Federation) -> dict[str, Tensor]:
    """Return what the parties remember, by the name of the weight."""
    found: dict[str, Tensor] = {}
    for who, learner in all_learners(fed).items():
        for name, held in learner.updates.named.items():
            names = [key for key, _ in learner.module.named_parameters()]
            found |= {
                f"{name}/{who}/{k}": t.clone() for k, t in zip(names, held.tensors, strict=True)
            }
    return found


@pytest.mark.parametrize(
    ("kind", "parties", "active_part"),
    [("table", 1, False), ("table", 3, False), ("image", 2, True)],
)
@one_label_and_two
def test_what_is_subtracted_is_what_the_batches_with_the_label_changed(
    kind: Kind, parties: int, active_part: bool, forgotten: tuple[int, ...]
) -> None:
    net = OnePiece(federation(kind, parties, active_part), kind)
    net.train()
    at = Reference(kind, parties, active_part, forgotten, remember=forgotten, **REMEMBER)
    at.net = net
    weights = list(net.parameters())
    optimiser = at.sgd(0.02, 0.9, 5e-4)
    record = [torch.zeros_like(w) for w in weights]
    held = left = 0
    for epoch in (1, 2):
        for batch in batches(at.every, 4, seed=SEED, epoch=epoch):
            before = [w.detach().clone() for w in weights]
            descend(optimiser, at.loss(batch))
            if not any(label in forgotten for label in at.y[batch].tolist()):
                left += 1
                continue
            held += 1
            for sum_, now, then in zip(record, weights, before, strict=True):
                sum_ += now.detach() - then
    assert min(held, left) > 0
    net.expect_equal(at.fed, atol=1e-5)
    with torch.no_grad():
        for w, moved in zip(weights, record, strict=True):
            w.sub_(moved)
    optimiser_2 = torch.optim.Adam(weights, lr=1e-3)
    for batch in orders(at.kept, 16):
        descend(optimiser_2, at.loss(batch))
    at.forget(Amnesiac(variant="subtract", epochs=1, lr=1e-3, batch=16))
    net.expect_equal(at.fed, rtol=1e-4, atol=2e-5)


def test_a_training_that_resumes_remembers_as_an_undisturbed_one_does(tmp_path: Path) -> None:
    whole = federation(active_part=True, parties=2, remember=(1, 3), **REMEMBER)
    whole.train()
    assert moves(whole)
    broken = federation(active_part=True, parties=2, folder=tmp_path, remember=(1, 3), **REMEMBER)
    with pytest.raises(Enough):
        broken.train(watchers=[Stop()])
    halfway = moves(broken)
    resumed = federation(active_part=True, parties=2, folder=tmp_path, remember=(1, 3), **REMEMBER)
    resumed.train()
    mine, theirs = moves(resumed), moves(whole)
    assert mine.keys() == theirs.keys() == halfway.keys()
    assert all(torch.equal(value, theirs[name]) for name, value in mine.items())
    assert not any(torch.equal(value, halfway[name]) for name, value in mine.items())


@pytest.mark.parametrize("labels", [(2,), (1,), (1, 2, 3)])
def test_only_the_remembered_labels_can_be_subtracted(labels: tuple[int, ...]) -> None:
    fed = federation(remember=(1, 3), **REMEMBER)
    fed.train()
    before, kept = model_states(fed), moves(fed)
    said = "The training kept no updates of exactly these labels"
    with pytest.raises(ForgetError, match=re.escape(said)):
        forget(fed, labels, Amnesiac(variant="subtract"))
    expect_same(model_states(fed), before)
    assert moves(fed).keys() == kept.keys()
    forget(fed, (3, 1), Amnesiac(variant="subtract")).rollback()
    forget(fed, (0,), Finetune(epochs=1)).commit(force=True)
    with pytest.raises(ForgetError):
        forget(fed, (1, 3), Amnesiac(variant="subtract"))


@pytest.mark.parametrize("in_folder", [False, True])
@pytest.mark.parametrize("method", [Amnesiac(variant="subtract"), Finetune(epochs=1)])
def test_a_commit_drops_what_was_remembered_and_a_rollback_brings_it_back(
    method: Method, in_folder: bool, tmp_path: Path
) -> None:
    folder = tmp_path if in_folder else None
    fed = federation(parties=2, active_part=True, folder=folder, remember=(1,), **REMEMBER)
    fed.train()
    kept = moves(fed)
    assert len({name.split("/")[1] for name in kept}) == 4
    forget(fed, (1,), method).rollback()
    back = moves(fed)
    assert back.keys() == kept.keys()
    assert all(torch.equal(value, kept[name]) for name, value in back.items())
    outcome = forget(fed, (1,), method)
    if in_folder:
        assert remembering(tmp_path) == {"versions"}  # and nothing that is staged
    outcome.commit(force=True)
    assert not moves(fed)
    if in_folder:
        newest = [sorted((tmp_path / who).rglob("*.safetensors"))[-1] for who in parties_in(fed)]
        assert not any(key.startswith("moves/") for path in newest for key in load_file(path))
        fed.purge()
        assert remembering(tmp_path) == set()


def parties_in(fed: Federation) -> list[str]:
    return ["active", *fed.passives]


def remembering(folder: Path) -> set[str]:
    """Return the shelves on which a file holds what was remembered."""
    return {
        path.parent.name
        for path in folder.rglob("*.safetensors")
        if any("moves/" in key for key in load_file(path))
    }


# What a run that learns nothing, or destroys the rest, comes to


@pytest.mark.parametrize(
    "method",
    [
        Amnesiac(epochs=0),
        Amnesiac(lr=0.0),
        Finetune(lr=0.0, epochs=1),
        Scrub(lr=0.0, epochs=1, climbs=1),
        Unsir(impair_lr=0.0, repair_lr=0.0, noise_batch=4, noise_steps=1),
        SelectiveDampening(alpha=1e30),  # no weight matters so much more
        Delete(lr=0.0, epochs=1),
    ],
    ids=repr,
)
def test_a_run_that_learns_nothing_is_a_control_and_cannot_be_committed(method: Method) -> None:
    fed = federation()
    fed.train()
    outcome = forget(fed, (1,), method)
    assert outcome.result.control
    with pytest.raises(ForgetError, match="control"):
        outcome.commit()
    outcome.rollback()


def test_a_rest_that_is_called_by_the_forgotten_label_counts_as_destroyed() -> None:
    fed = Federation.local("digits", parties=2, model="convnet", epochs=3)
    fed.train()
    before = model_states(fed)
    with pytest.raises(ForgetError, check=coded("collapsed")):  # 5,120 rows of noise teach label 0
        fed.forget([0], settings=ForgetSettings(method=Unsir(), key=KEY))
    expect_same(model_states(fed), before)


def test_gradients_show_whom_relabelling_is_about_so_no_request_for_it_is_secret() -> None:
    fed = federation()
    fed.train()
    with pytest.raises(ForgetError, check=coded("not-secret")):
        fed.forget(
            [1], settings=ForgetSettings(method=Amnesiac(), secret=True, few_shot=2, retained=1)
        )
