"""A new top for old embeddings: fitted to the labels that stay, by a party that knows no others.

Forgetting and audits use the same function: what `hidden` makes of a model is held against tops
that were refitted from other seeds, which are what a party without the label can have of it.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from unlabel.config import FitSettings, OptimiserSettings, TrainSettings
from unlabel.data import ACTIVE, Rows
from unlabel.errors import ForgetError
from unlabel.models.registry import predicting
from unlabel.models.tops import last_layer
from unlabel.party import ActiveParty, Stream, own_randomness
from unlabel.party.learner import Learner
from unlabel.progress import Watch, watch_nothing
from unlabel.train.epochs import epochs_of
from unlabel.train.fit_together import fit_together
from unlabel.train.label_record import UNKNOWN
from unlabel.train.top_fit import Recipe, fit_top
from unlabel.train.watch import Watcher
from unlabel.wire import LocalTransport

#: How far a forgotten output lies below the mean of the others.
MARGIN = 10.0
#: Fewest and most steps of a new top where the training decides.
LEAST, MOST = 200, 10_000


def refit_recipe(training: TrainSettings, rows: int, *, epochs: int = 0, number: int = 0) -> Recipe:
    """Return how a new top is fitted: as the run was trained, but from a new seed.

    rows    training rows of the run, those of forgotten labels too: the steps, and the time that
            they take, must not tell how many rows a label has
    epochs  passes over that many rows; 0 takes as many steps as the training did, but no fewer than
            `LEAST`, so that a short training has a whole top too, and no more than `MOST`
    number  of the new top: 0 is that of a request, and each of the others has draws of its own

    >>> [refit_recipe(TrainSettings(), rows).steps for rows in (100, 50_000, 1_000_000)]
    [200, 10000, 10000]
    """
    steps = (epochs or epochs_of(training, rows)) * math.ceil(rows / training.batch)
    steps = steps if epochs else min(MOST, max(LEAST, steps))
    return Recipe(
        settings=FitSettings(batch=training.batch),
        seed=Stream(training.seed, f"{ACTIVE}/refit").number(number),
        balance=training.balance,
        mixup=training.mixup,
        optimiser=training,
        steps=steps,
    )


def refit_top(
    top: Learner,
    embeddings: Sequence[Tensor],
    labels: Tensor,
    stay: Sequence[int],
    recipe: Recipe,
    watchers: Sequence[Watcher] = (),
) -> nn.Module:
    """Return a top of the same layers with fresh weights, fitted to the labels that stay.

    Let S be the labels that stay, R the rows whose label is one of them, and H_i the embeddings of
    row i. Weights that the recipe's seed draws descend the mean over R of

        -log p(y_i),   p(s) = exp F_s(H_i) / sum over t in S of exp F_t(H_i)

    in which no other output occurs. Then the mean of the outputs that stay is taken off each of
    them, which changes no probability, and every other one becomes the constant -`MARGIN`: below
    that mean, so never the largest, and the same for every row. Were it taught to be small instead,
    it would grow away from all that stays, which is where its own rows lie. A top whose outputs
    come from no linear layer is taught that all the same: its sum is over all labels.

    It is a function of its arguments, and of the top that is given only the layers and the place
    count: weights that cannot be drawn anew are refused.

    embeddings  [n, width] a party, in the order in which the top joins them
    labels      [n]; rows of labels that do not stay, and of no known label, are left out
    """
    fresh = _Fresh(top, embeddings, labels, stay, recipe)
    every, none = torch.arange(len(fresh.party.labels)), torch.empty(0, dtype=torch.int64)
    with own_randomness(top.place.device), torch.enable_grad():
        fit_top(fresh.party, Rows(every, none, none), recipe, watchers=watchers)
    return fresh.finished()


def refit_tops(
    top: Learner,
    embeddings: Sequence[Tensor],
    labels: Tensor,
    stay: Sequence[int],
    recipes: Sequence[Recipe],
    watch: Watch = watch_nothing,
) -> list[nn.Module]:
    """Return what `refit_top` makes of each recipe, fitted side by side; they differ in seeds."""
    used = torch.isin(labels.cpu(), torch.tensor(stay))
    embeddings = [part[used.to(part.device)] for part in embeddings]
    fresh = [_Fresh(top, embeddings, labels[used], stay, recipe) for recipe in recipes]
    with torch.enable_grad():
        fit_together([each.party for each in fresh], recipes, watch)
    return [each.finished() for each in fresh]


class _Fresh:
    """A top with fresh weights and a party of its own that knows the labels that stay alone."""

    def __init__(
        self,
        top: Learner,
        embeddings: Sequence[Tensor],
        labels: Tensor,
        stay: Sequence[int],
        recipe: Recipe,
    ) -> None:
        device = top.place.device
        used = torch.isin(labels.cpu(), torch.tensor(stay))
        some = embeddings if used.all() else [part[used.to(part.device)] for part in embeddings]
        parts = [part.to(device, torch.float32) for part in some]
        with own_randomness(device), torch.enable_grad():
            learner = drawn_anew(top, recipe.seed)
            self.module = learner.module
            self._last = last_layer(self.module, [part.shape[1] for part in parts])
            with predicting(self.module):
                self._count = self.module([part[:1] for part in parts]).shape[1]
        self._among = list(range(self._count)) if self._last is None else list(stay)
        learner.module = _Some(self.module, self._among).to(device)
        numbers = torch.full((self._count,), UNKNOWN)
        numbers[self._among] = torch.arange(len(self._among))
        self.party = ActiveParty(
            labels=numbers[labels.cpu()[used]],
            names=[str(label) for label in self._among],
            top=learner,
            widths=[part.shape[1] for part in parts],
            transport=LocalTransport({}),
        ).with_embeddings("main", parts)

    def finished(self) -> nn.Module:
        """Return the top, once it is fitted, without the outputs that do not stay."""
        if self._last is not None:
            others = [n for n in range(self._count) if n not in self._among]
            delete_outputs(self._last, others, self._among)
        return self.module


def drawn_anew(top: Learner, seed: int) -> Learner:
    """Return a copy with other weights: those of the seed, and not those training began with.

    The latter lie near what became of them, and would give a label away.
    """
    stream = Stream(seed, f"{ACTIVE}/top")
    learner = Learner(
        copy.deepcopy(top.module), OptimiserSettings(), stream=stream, place=top.place
    )
    learner.reinitialise(1.0)
    pairs = zip(learner.module.named_parameters(), top.module.parameters(), strict=True)
    for (name, now), was in pairs:
        if torch.equal(now, was) and bool((was != was.flatten()[0]).any()):
            raise ForgetError(
                f"The weights '{name}' of the top cannot be drawn anew, so they would still know "
                f"the label; build the top of layers that have `reset_parameters`."
            )
    return learner


@torch.no_grad()
def delete_outputs(layer: nn.Linear, forgotten: list[int], stay: list[int]) -> None:
    """Let the outputs that stay have the mean 0 on whatever input, and the others a constant."""
    layer.weight[stay] -= layer.weight[stay].mean(0)
    layer.weight[forgotten] = 0.0
    if layer.bias is not None:
        layer.bias[stay] -= layer.bias[stay].mean()
        layer.bias[forgotten] = -MARGIN


class _Some(nn.Module):
    """A top of which only some outputs are looked at."""

    outputs: Tensor

    def __init__(self, top: nn.Module, outputs: list[int]) -> None:
        super().__init__()
        self.top = top
        self.register_buffer("outputs", torch.tensor(outputs), persistent=False)

    def forward(self, embeddings: Sequence[Tensor]) -> Tensor:
        """Return these logits, in the order given."""
        logits: Tensor = self.top(embeddings).index_select(1, self.outputs)
        return logits
