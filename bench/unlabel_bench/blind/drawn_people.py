"""People whose labels are to be forgotten, drawn from a dataset, some of them wrongly labelled.

Images or tables: they are drawn from all rows of the data, whatever part they belong to.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unlabel.data import Dataset
from unlabel.data.dataset import Array
from unlabel.errors import DataError
from unlabel.federation import Federation
from unlabel.train import Forgotten
from unlabel.train.loading import dataset_holdings
from unlabel_bench.recipe import Recipe
from unlabel_bench.summary import interval

KINDS = ("wrong", "outlier", "ordinary")
#: Passes of the model that says who is an outlier; it is to know people, not their noise.
SCORING = 8


@dataclass(frozen=True)
class DrawnSettings(Recipe):
    """How people are drawn.

    rows      training rows, of which a share `wrong` gets a wrong label
    strangers rows that are never trained on, with as many wrong labels: what the aim is read from
    listed    people a request: a fifth wrong-labelled, a fifth outliers, the rest ordinary
    requests  requests a seed; each is rolled back before the next
    """

    validation: float = 0.0
    rows: int = 6000
    strangers: int = 4000
    wrong: float = 0.2
    listed: int = 100
    requests: int = 2


@dataclass
class World:
    """One draw of people: training rows, strangers, who is wrongly labelled, who an outlier."""

    data: Dataset
    kinds: dict[str, Array]
    truth: Array
    trained: int


def draw_people(settings: DrawnSettings, data: Dataset, seed: int) -> World:
    """Draw people and give some of them wrong labels; they are a dataset of their own."""
    rng = np.random.default_rng(1000 + seed)
    total = settings.rows + settings.strangers
    if total + settings.rows > len(data.y):
        raise DataError(
            f"Dataset '{data.name}' has {len(data.y)} rows, too few for {settings.rows} to train "
            f"on, {settings.strangers} strangers and as many others as are trained on; lower "
            f"`rows` or `strangers`."
        )
    order = rng.permutation(len(data.y))
    chosen, others = order[:total], order[total : total + settings.rows]
    truth, labels = data.y[chosen], data.y[chosen].copy()
    is_wrong = rng.random(total) < settings.wrong
    shift = rng.integers(1, len(data.labels), total)
    labels[is_wrong] = (labels[is_wrong] + shift[is_wrong]) % len(data.labels)
    doubt = _doubt(settings, data, chosen, others, seed)
    odd = ~is_wrong & (doubt <= np.quantile(doubt[~is_wrong], 0.1))
    kinds = {"wrong": is_wrong, "outlier": odd, "ordinary": ~is_wrong & ~odd}
    return World(_part(data, chosen, labels, settings.rows), kinds, truth, settings.rows)


def _part(data: Dataset, rows: Array, labels: Array, trained: int) -> Dataset:
    """Return some rows as a dataset, with those after the first `trained` to test on."""
    test = np.arange(trained, len(rows))
    ids: Array = np.empty(0, dtype=str)  # rows go by their numbers
    return replace(data, x=data.x[rows], y=labels, test=test, augment="none", ids=ids)


def _doubt(
    settings: DrawnSettings, data: Dataset, chosen: Array, others: Array, seed: int
) -> Array:
    """Return how sure a model trained on other people is of everybody's true label."""
    rows = np.concatenate([others, chosen])
    part = _part(data, rows, data.y[rows], len(others))
    scorer = federation_of(replace(settings, epochs=SCORING), part, seed)
    scorer.train()
    return confidence_in(scorer, scorer.holdings.rows.test).numpy()


def federation_of(settings: DrawnSettings, data: Dataset, seed: int) -> Federation:
    """Return an untrained run of people that were drawn."""
    holdings = dataset_holdings(settings.config(seed).under(Path.cwd()), data)
    return Federation.of(holdings)


def train_on(
    settings: DrawnSettings, world: World, seed: int, without: Forgotten | None = None
) -> Federation:
    """Return a trained run of people that were drawn, without the labels of some of them."""
    federation = federation_of(settings, world.data, seed)
    federation.forgotten = without or Forgotten()
    federation.train()
    federation.forgotten = Forgotten()
    return federation


def draw_requests(
    settings: DrawnSettings, world: World, federation: Federation, seed: int
) -> list[Array]:
    """Draw the requests from the training rows, each with its share of every kind."""
    rng = np.random.default_rng(2000 + seed)
    train = rng.permutation(federation.holdings.rows.train.numpy())
    fifth = settings.listed // 5
    counts = {"wrong": fifth, "outlier": fifth, "ordinary": settings.listed - 2 * fifth}
    pools = {kind: train[world.kinds[kind][train]] for kind in KINDS}
    return [
        np.concatenate([pools[kind][n * count : (n + 1) * count] for kind, count in counts.items()])
        for n in range(settings.requests)
    ]


def note_people(
    confidences: dict[str, dict[str, list[tuple[Tensor, Tensor]]]],
    accuracies: dict[str, list[float]],
    model: str,
    federation: Federation,
    world: World,
    request: Array,
) -> None:
    """Note the confidence in old labels, of the listed and of never-seen people of each kind."""
    strangers = np.arange(world.trained, len(world.truth))
    logits = federation.active.logits(torch.from_numpy(strangers))
    right = logits.argmax(1).numpy() == world.truth[strangers]
    accuracies.setdefault(model, []).append(float(right.mean()))
    for kind in KINDS:
        listed = torch.from_numpy(request[world.kinds[kind][request]])
        never = torch.from_numpy(strangers[world.kinds[kind][strangers]])
        pair = (confidence_in(federation, listed), confidence_in(federation, never))
        confidences.setdefault(model, {}).setdefault(kind, []).append(pair)


def confidence_in(federation: Federation, rows: Tensor) -> Tensor:
    """Return the probability of every row's label."""
    labels = federation.holdings.labels[rows]
    return federation.active.logits(rows).softmax(1).gather(1, labels[:, None])[:, 0]


def judge(pairs: list[tuple[Tensor, Tensor]]) -> dict[str, Any]:
    """Return confidences and the attack's success, each with a 95 % interval.

    The attack sorts people by the confidence in their old label; its success is the probability
    that a listed person stands above a stranger of the same kind (AUC; 1/2 is no success).
    """
    listed = [pair[0].numpy() for pair in pairs]
    return {
        "people": sum(map(len, listed)),
        "confidence": interval(listed),
        "confidence_of_strangers": interval([pair[1].numpy() for pair in pairs]),
        "attack_auc": interval([ranks_among(a.numpy(), b.numpy()) for a, b in pairs]),
    }


def ranks_among(listed: Array, never: Array) -> Array:
    """Return, for each listed person, the share of strangers below them, ties counting half."""
    ordered = np.sort(never)
    low = np.searchsorted(ordered, listed, "left")
    high = np.searchsorted(ordered, listed, "right")
    return np.asarray((low + high) / 2 / len(ordered))
