"""A top refitted without a label: a function of what stays, in which no other output occurs."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unlabel.config import OptimiserSettings, TrainSettings
from unlabel.errors import ForgetError, UnlabelError
from unlabel.models.tops import Top
from unlabel.party import Stream
from unlabel.party.learner import Learner, Place
from unlabel.party.training_loss import balanced
from unlabel.train import batches
from unlabel.train.top_refit import MARGIN, refit_recipe, refit_top, refit_tops

CPU = Place(torch.device("cpu"))
LABELS, ROWS, GONE = 4, 90, 2
STAY = (0, 1, 3)
TRAINING = TrainSettings(epochs=4, batch=16, lr=0.05, weight_decay=1e-3, seed=5)


def world() -> tuple[list[Tensor], Tensor]:
    draw = torch.Generator().manual_seed(1)
    labels = torch.arange(ROWS) % LABELS
    labels[7] = -1  # not known any more
    centres = 2 * torch.randn(LABELS, 5, generator=draw)
    x = centres[labels.clamp_min(0)] + torch.randn(ROWS, 5, generator=draw)
    return [x[:, :2].contiguous(), x[:, 2:].contiguous()], labels


def learner(head: nn.Module | None = None) -> Learner:
    torch.manual_seed(0)
    head = head or nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, LABELS))
    top = Top(head, "concat", LABELS)
    return Learner(top, OptimiserSettings(), stream=Stream(0, "active/top"), place=CPU)


def by_hand(training: TrainSettings, parts: list[Tensor], labels: Tensor, seed: int) -> Any:
    """Return the head that the formula gives: SGD with momentum written out."""
    kept = torch.tensor([int(label) in STAY for label in labels])
    x, y = torch.cat(parts, 1)[kept], labels[kept]
    numbers = torch.tensor([STAY.index(int(label)) for label in y])
    head: Any = copy.deepcopy(learner().module.head)
    torch.manual_seed(Stream(seed, "active/top").number("renew"))
    head[2].reset_parameters()  # the last layer first
    head[0].reset_parameters()
    weights, moved = list(head.parameters()), [torch.zeros(1)] * 4
    steps = 4 * 6  # four passes over 90 rows in batches of 16
    weigh = balanced(numbers, len(STAY)) if training.balance else None
    step = 0
    for epoch in range(1, 100):
        for batch in batches(torch.arange(len(x)), 16, seed=seed, epoch=epoch):
            if step == steps:
                break
            loss = F.cross_entropy(head(x[batch])[:, list(STAY)], numbers[batch], weight=weigh)
            gradients = torch.autograd.grad(loss, weights)
            rate = training.lr * (1 + torch.cos(torch.tensor(torch.pi * (step + 0.5) / steps))) / 2
            with torch.no_grad():
                for n, (w, g) in enumerate(zip(weights, gradients, strict=True)):
                    moved[n] = 0.9 * moved[n] + g + training.weight_decay * w
                    w -= rate * moved[n]
            step += 1
    return head


@pytest.mark.parametrize("balance", [False, True])
def test_it_is_what_the_formula_gives(balance: bool) -> None:
    training = replace(TRAINING, balance=balance, momentum=0.9)
    parts, labels = world()
    recipe = refit_recipe(training, ROWS, epochs=4)
    found = refit_top(learner(), parts, labels, STAY, recipe)
    head = by_hand(training, parts, labels, recipe.seed)
    x = torch.randn(20, 5)
    with torch.no_grad():
        logits, expected = found([x[:, :2], x[:, 2:]]), head(x)
    stay = list(STAY)
    torch.testing.assert_close(
        logits[:, stay].softmax(1), expected[:, stay].softmax(1), rtol=1e-4, atol=1e-5
    )
    assert torch.equal(logits[:, GONE], torch.full((20,), -MARGIN))
    torch.testing.assert_close(logits[:, stay].mean(1), torch.zeros(20), rtol=0, atol=1e-5)


@pytest.mark.parametrize("mixed", [0.0, 0.4])
def test_tops_fitted_side_by_side_are_those_fitted_one_by_one_to_the_last_bit(
    mixed: float,
) -> None:
    training = replace(TRAINING, balance=True, momentum=0.9, mixup=mixed)
    parts, labels = world()
    recipes = [refit_recipe(training, ROWS, epochs=4, number=n) for n in range(3)]
    steps: list[int] = []
    together = refit_tops(
        learner(), parts, labels, STAY, recipes, lambda done, *_: steps.append(done)
    )
    assert steps
    for recipe, top in zip(recipes, together, strict=True):
        expect_equal(top, refit_top(learner(), parts, labels, STAY, recipe))


def test_neither_the_rows_that_go_nor_the_old_weights_count() -> None:
    parts, labels = world()
    recipe = refit_recipe(TRAINING, ROWS)
    first = refit_top(learner(), parts, labels, STAY, recipe)
    left_out = (labels == GONE) | (labels < 0)
    poisoned = [part.masked_fill(left_out[:, None], torch.nan) for part in parts]
    other = learner()
    with torch.no_grad():
        for weights in other.module.parameters():
            weights.mul_(3).add_(1)
    given = copy.deepcopy(other.module.state_dict())
    expect_equal(first, refit_top(other, poisoned, labels, STAY, recipe))
    # What is given stays as it is, and so do the caller's random numbers.
    for name, values in given.items():
        assert torch.equal(values, other.module.state_dict()[name])
    torch.manual_seed(4)
    drawn = torch.rand(3)
    torch.manual_seed(4)
    refit_top(other, parts, labels, STAY, recipe)
    assert torch.equal(torch.rand(3), drawn)


def test_another_number_is_another_top_and_the_steps_do_not_tell_the_label() -> None:
    parts, labels = world()
    recipes = [refit_recipe(TRAINING, ROWS, epochs=4, number=n) for n in (0, 1)]
    tops: list[Any] = [refit_top(learner(), parts, labels, STAY, recipe) for recipe in recipes]
    assert not torch.equal(tops[0].head[0].weight, tops[1].head[0].weight)
    counts = []
    for stay in (STAY, (0, 1)):
        counted = Counted()
        refit_top(learner(counted), parts, labels, stay, recipes[0])
        counts.append(counted.taught)
    assert counts == [[24], [24]]
    assert refit_recipe(TRAINING, ROWS, epochs=7).steps == 7 * 6
    assert refit_recipe(replace(TRAINING, epochs=50), ROWS).steps == 50 * 6


class Counted(nn.Module):
    """A head that counts its passes of training; copies count too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, 7), nn.Linear(7, LABELS)
        self.between = nn.Sequential(nn.BatchNorm1d(7), nn.Dropout(0.5))
        self.taught = [0]

    def forward(self, x: Tensor) -> Tensor:
        self.taught[0] += self.training
        logits: Tensor = self.last(self.between(self.first(x)))
        return logits

    def __deepcopy__(self, memo: Any) -> Counted:
        other = Counted()
        other.load_state_dict(self.state_dict())
        other.taught = self.taught
        return other


class Squashed(nn.Module):
    """A head whose logits come from no linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, LABELS))

    def forward(self, x: Tensor) -> Tensor:
        return 6 * torch.tanh(self.body(x))


def test_a_top_without_a_last_layer_is_taught_that_the_output_is_small() -> None:
    parts, labels = world()
    top = refit_top(learner(Squashed()), parts, labels, STAY, refit_recipe(TRAINING, ROWS))
    used = torch.isin(labels, torch.tensor(STAY))
    with torch.no_grad():
        calls = top([part[used] for part in parts]).argmax(1)
    assert (calls != GONE).all()
    assert (calls == labels[used]).float().mean() > 0.7


class Stubborn(nn.Module):
    """A head with weights that nobody can draw anew."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(5, LABELS))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weights


def test_what_cannot_be_refitted_is_refused() -> None:
    parts, labels = world()
    recipe = refit_recipe(TRAINING, ROWS)
    with pytest.raises(ForgetError, match=r"'head\.weights' of the top cannot be drawn anew"):
        refit_top(learner(Stubborn()), parts, labels, STAY, recipe)
    for stay in ((0,), ()):
        with pytest.raises(UnlabelError, match="a classifier needs at least two"):
            refit_top(learner(), parts, labels, stay, recipe)


def expect_equal(one: nn.Module, other: nn.Module) -> None:
    for name, values in one.state_dict().items():
        assert torch.equal(values, other.state_dict()[name]), name
