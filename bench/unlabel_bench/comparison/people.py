"""Labels of people, on a model that knows wrong labels by heart: can an attacker still tell?

Images or tables: the people are drawn from all rows of the data, whatever part they belong to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unlabel.data import Dataset
from unlabel.data.dataset import Array
from unlabel.errors import DataError
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings
from unlabel.train import Forgotten
from unlabel.train.loading import dataset_holdings, read_dataset
from unlabel_bench import markdown
from unlabel_bench.drawing import Panel, Picture, Series, colour
from unlabel_bench.measures import key_of, read_method
from unlabel_bench.recipe import Recipe
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.summary import interval

KINDS = ("wrong", "outlier", "ordinary")
MODELS = ("original", "retrained", "forgotten")
PAPER = (
    "The paper's method forgets whole labels. It has no way to forget the labels of single people, "
    "so its preset does not stand here: retraining without the people is the reference."
)
#: Passes of the model that says who is an outlier; it is to know people, not their noise.
SCORING = 8


@dataclass(frozen=True)
class PeopleSettings(Recipe):
    """Settings of the bench.

    rows      training rows, of which a share `wrong` gets a wrong label
    strangers rows that are never trained on, with as many wrong labels: what the aim is read from
    listed    people a request: a fifth wrong-labelled, a fifth outliers, the rest ordinary
    requests  requests a seed; each is rolled back before the next
    method    as in the bench `forgetting`
    picture   PNG file to draw into; needs matplotlib
    page      Markdown file to write the table into
    note      a sentence for that page, below its introduction
    """

    data: str = "mnist"
    epochs: int = 40
    validation: float = 0.0
    rows: int = 6000
    strangers: int = 4000
    wrong: float = 0.2
    listed: int = 100
    requests: int = 2
    method: str = "retrain"
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    picture: str = ""
    page: str = ""
    note: str = ""


@dataclass
class World:
    """One draw of people: training rows, strangers, who is wrongly labelled, who an outlier."""

    data: Dataset
    kinds: dict[str, Array]
    truth: Array
    trained: int


def measure(settings: PeopleSettings, say: Say) -> Result:
    """Measure confidence and attack for every kind of people, over all seeds and requests."""
    confidences: dict[str, dict[str, list[tuple[Tensor, Tensor]]]] = {}
    accuracies: dict[str, list[float]] = {}
    seconds: list[float] = []
    whole = read_dataset(settings.config(0))
    for seed in settings.seeds:
        world = draw_people(settings, whole, seed)
        say(f"seed {seed}: training a model that learns wrong labels by heart")
        original = train_on(settings, world, seed)
        requests = draw_requests(settings, world, original, seed)
        say(f"seed {seed}: training without the {sum(map(len, requests))} people")
        everybody = tuple(int(row) for request in requests for row in request)
        retrained = train_on(settings, world, seed, Forgotten(rows=everybody))
        for number, request in enumerate(requests):
            say(f"seed {seed}: request {number + 1}")
            note_people(confidences, accuracies, "original", original, world, request)
            note_people(confidences, accuracies, "retrained", retrained, world, request)
            ids = [str(row) for row in request]
            # The public rows are of the same people, a share of them with wrong labels too.
            outcome = original.forget(
                ids=ids,
                settings=ForgetSettings(
                    method=read_method(settings.method), key=key_of(seed, number), any_public=True
                ),
            )
            seconds.append(outcome.result.seconds)
            note_people(confidences, accuracies, "forgotten", original, world, request)
            outcome.rollback()
    return {
        "people": len(settings.seeds) * settings.requests * settings.listed,
        "seconds": mean(seconds),
        "accuracy": {
            name: interval([np.array([value]) for value in values])
            for name, values in accuracies.items()
        },
        "lost_points": {
            name: interval(_lost(accuracies["original"], accuracies[name]))
            for name in ("retrained", "forgotten")
        },
        "kinds": {
            kind: {model: judge(pairs[kind]) for model, pairs in confidences.items()}
            for kind in KINDS
        },
    }


def _lost(before: Sequence[float], after: Sequence[float]) -> list[Array]:
    """Return the points of accuracy that each request cost; below 0 is a gain."""
    return [np.array([100 * (a - b)]) for a, b in zip(before, after, strict=True)]


def draw_people(settings: PeopleSettings, data: Dataset, seed: int) -> World:
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
    settings: PeopleSettings, data: Dataset, chosen: Array, others: Array, seed: int
) -> Array:
    """Return how sure a model trained on other people is of everybody's true label."""
    rows = np.concatenate([others, chosen])
    part = _part(data, rows, data.y[rows], len(others))
    scorer = federation_of(replace(settings, epochs=SCORING), part, seed)
    scorer.train()
    return confidence_in(scorer, scorer.holdings.rows.test).numpy()


def federation_of(settings: PeopleSettings, data: Dataset, seed: int) -> Federation:
    """Return an untrained run of people that were drawn."""
    holdings = dataset_holdings(settings.config(seed).under(Path.cwd()), data)
    return Federation.of(holdings)


def train_on(
    settings: PeopleSettings, world: World, seed: int, without: Forgotten | None = None
) -> Federation:
    """Return a trained run of people that were drawn, without the labels of some of them."""
    federation = federation_of(settings, world.data, seed)
    federation.forgotten = without or Forgotten()
    federation.train()
    federation.forgotten = Forgotten()
    return federation


def draw_requests(
    settings: PeopleSettings, world: World, federation: Federation, seed: int
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
        "attack_auc": interval([_ranks(a.numpy(), b.numpy()) for a, b in pairs]),
    }


def _ranks(listed: Array, never: Array) -> Array:
    """Return, for each listed person, the share of strangers below them, ties counting half."""
    ordered = np.sort(never)
    low = np.searchsorted(ordered, listed, "left")
    high = np.searchsorted(ordered, listed, "right")
    return np.asarray((low + high) / 2 / len(ordered))


def table(result: Result) -> list[list[str]]:
    """Return the figures as rows for people."""
    rows = [["people", "model", "confidence", "of strangers", "attack AUC (95 %)"]]
    for kind, models in result["kinds"].items():
        for model, figures in models.items():
            rows.append(
                [
                    f"{kind} ({figures['people']})",
                    model,
                    f"{figures['confidence']['mean']:.3f}",
                    f"{figures['confidence_of_strangers']['mean']:.3f}",
                    markdown.interval(figures["attack_auc"]),
                ]
            )
    return rows


def page(result: Result) -> str:
    """Return the figures as a page of Markdown."""
    return markdown.page(
        "# Labels of people",
        f"{result['people']:,} people on {result['settings']['data']}, by requests that took "
        f"{result['seconds']:.1f} s "
        f"each. Confidence is that in the old label. The attack sorts people by it; its AUC is 1/2 "
        f"where listed people and strangers of the same kind cannot be told apart.",
        result["settings"].get("note", ""),
        PAPER,
        markdown.table(table(result)),
        markdown.table(accuracies_of_strangers(result)),
    )


def accuracies_of_strangers(result: Result) -> list[list[str]]:
    """Return how many strangers each model tells right, and what that is less than before."""
    rows = [["model", "accuracy on strangers, % (95 %)", "points lost (95 %)"]]
    for model in MODELS:
        right = markdown.interval(result["accuracy"][model], 2, scale=100)
        rows.append([model, right, markdown.interval(result["lost_points"].get(model), 2)])
    return rows


def picture(result: Result) -> Picture:
    """Return the attack's success on every kind of people as bars."""
    kinds, series = list(result["kinds"]), []
    for number, model in enumerate(MODELS):
        ends = [result["kinds"][kind][model]["attack_auc"] for kind in kinds]
        below, above = ([abs(x[end] - x["mean"]) for x in ends] for end in ("low", "high"))
        series.append(
            Series(
                [place + (number - 1) * 0.25 for place in range(len(kinds))],
                [x["mean"] for x in ends],
                model,
                [below, above],
                "bars",
                {"width": 0.22, "capsize": 3, "color": colour(number)},
            )
        )
    return Picture(
        [
            [
                Panel(
                    series,
                    ylabel="attack AUC; 0.5 tells nothing",
                    lines=[("y", 0.5, {"color": "#888888", "lw": 0.8})],
                    xticks=(range(len(kinds)), kinds),
                    ylim=(0, 1),
                    legend={"fontsize": 8},
                )
            ]
        ],
        (7, 4),
    )


BENCHES.add(
    "people",
    Bench(
        "labels of people: confidence and attack beside retrained models and strangers",
        PeopleSettings,
        measure,
        table,
        page,
        picture,
    ),
)
