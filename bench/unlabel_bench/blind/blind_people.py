"""Labels of people in a blind run: after a refit the model is one that never had them.

People are drawn, some with wrong labels, and judged beside strangers of the same kind. Beside the
refitted model stands a run in which the cells of those people are empty: equal figures are a
consequence of equal weights, which is checked too. Beside that, one person at a time, stands what
`retrain` does in a supervised run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from unlabel.config import (
    FitSettings,
    LabelFreeSettings,
    ModelSettings,
    RunConfig,
    TrainSettings,
)
from unlabel.federation import Federation
from unlabel.train import Forgotten
from unlabel.train.loading import dataset_holdings, read_dataset
from unlabel.train.parts import known_labels
from unlabel_bench import markdown
from unlabel_bench.blind.blind_tables import top_name
from unlabel_bench.blind.drawn_people import (
    KINDS,
    DrawnSettings,
    World,
    draw_people,
    draw_requests,
    judge,
    note_people,
    train_on,
)
from unlabel_bench.blind.split_tables import TREES
from unlabel_bench.drawing import Panel, Picture, Series, colour
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.summary import interval

MODELS = ("original", "retrained", "forgotten")
WORDS = {"original": "before", "retrained": "empty cells", "forgotten": "after `refit`"}


@dataclass(frozen=True)
class BlindPeopleSettings(DrawnSettings):
    """Settings of the bench; those of training are of the supervised runs beside it.

    tops        of the blind run
    objective   by which bottoms are made, with its `width` and its number of `passes`
    fit_epochs  of a top that is trained by steps; 0 is as many as suit
    singles     people who are forgotten one at a time, a seed, wrongly labelled ones
    supervised  whether `retrain` in supervised runs stands beside them
    picture     PNG file to draw into; needs matplotlib
    page        Markdown file to write the table into
    note        a sentence for that page, below its introduction
    """

    data: str = "digits"
    epochs: int = 40
    rows: int = 700
    strangers: int = 350
    listed: int = 50
    seeds: tuple[int, ...] = (0, 1, 2)
    tops: tuple[str, ...] = ("mlp", TREES)
    objective: str = "components"
    width: float = 1.0
    passes: int = 20
    fit_epochs: int = 0
    singles: int = 3
    supervised: bool = True
    picture: str = ""
    page: str = ""
    note: str = ""


def measure(settings: BlindPeopleSettings, say: Say) -> Result:
    """Measure attacks before and after, beside runs with empty cells, and single people."""
    tops: dict[str, dict[str, Any]] = {top: _nothing() for top in settings.tops}
    beside: list[float] = []
    before: list[float] = []
    whole = read_dataset(settings.config(0))
    for seed in settings.seeds:
        world = draw_people(settings, whole, seed)
        singles: list[int] = []
        for top in settings.tops:
            say(f"seed {seed}: {top}")
            singles = _measure_top(settings, world, seed, top, tops[top])
        if settings.supervised:
            say(f"seed {seed}: people in a supervised run")
            pairs = _supervised(settings, world, seed, singles)
            beside += [abs(after - aim) for _, after, aim in pairs]
            before += [abs(first - aim) for first, _, aim in pairs]
    return {
        "people": len(settings.seeds) * settings.requests * settings.listed,
        "tops": {top: _figures(noted) for top, noted in tops.items()},
        "supervised": _distances(before, beside),
    }


def _nothing() -> dict[str, Any]:
    return {
        "confidences": {},
        "accuracies": {},
        "apart": [],
        "single": [],
        "single_before": [],
        "seconds": [],
    }


def _distances(before: list[float], after: list[float]) -> dict[str, Any] | None:
    """Return how far one person's confidence is from that of a retrained model."""
    if not after:
        return None
    return {
        "people": len(after),
        "before": sum(before) / len(before),
        "mean": sum(after) / len(after),
        "most": max(after),
    }


def _figures(noted: dict[str, Any]) -> dict[str, Any]:
    return {
        "kinds": {
            kind: {model: judge(pairs[kind]) for model, pairs in noted["confidences"].items()}
            for kind in KINDS
        },
        "accuracy": {
            name: interval([np.array([value]) for value in values])
            for name, values in noted["accuracies"].items()
        },
        "apart": max(noted["apart"]),
        "single": _distances(noted["single_before"], noted["single"]),
        "seconds": sum(noted["seconds"]) / len(noted["seconds"]),
    }


def _measure_top(
    settings: BlindPeopleSettings, world: World, seed: int, top: str, noted: dict[str, Any]
) -> list[int]:
    """Make the requests of a seed; return the people of the single ones."""
    original = _blind(settings, world, seed, top)
    requests = draw_requests(settings, world, original, seed)
    for request in requests:
        held = (noted["confidences"], noted["accuracies"])
        note_people(*held, "original", original, world, request)
        reference = _blind(settings, world, seed, top, tuple(int(row) for row in request))
        note_people(*held, "retrained", _renamed(reference, original), world, request)
        outcome = original.forget(ids=[str(row) for row in request])
        noted["seconds"].append(outcome.result.seconds)
        noted["apart"].append(_apart(original, reference))
        note_people(*held, "forgotten", original, world, request)
        outcome.rollback()
    wrong = [int(row) for row in requests[0] if world.kinds["wrong"][row]][: settings.singles]
    for row in wrong:
        first = _sureness(original, row)
        reference = _blind(settings, world, seed, top, (row,))
        outcome = original.forget(ids=[str(row)])
        aim = _sureness(_renamed(reference, original), row)
        noted["single"].append(abs(_sureness(original, row) - aim))
        noted["single_before"].append(abs(first - aim))
        noted["apart"].append(_apart(original, reference))
        outcome.rollback()
    return wrong


def _blind(
    settings: BlindPeopleSettings,
    world: World,
    seed: int,
    top: str,
    empty: tuple[int, ...] = (),
) -> Federation:
    """Return a trained blind run, with the label cells of some people empty."""
    plain = settings.config(seed)
    config = RunConfig(
        data=plain.data,
        folder=plain.folder,
        columns=plain.columns,
        parties=plain.parties,
        model=ModelSettings(bottom=settings.model, top=top),
        bottoms="blind",
        label_free=LabelFreeSettings(
            objective=settings.objective, width=settings.width, epochs=settings.passes, batch=256
        ),
        fit=FitSettings(epochs=settings.fit_epochs or "auto"),
        train=TrainSettings(seed=seed, validation=0.0),
    )
    holdings = dataset_holdings(config, world.data)
    if empty:
        labels, names = known_labels(holdings.labels, holdings.names, empty)
        holdings = replace(holdings, labels=labels, names=names)
    federation = Federation.of(holdings)
    federation.train()
    return federation


def _renamed(reference: Federation, original: Federation) -> Federation:
    """Return the reference as one that is asked about the labels that it was not told."""
    assert reference.labels == original.labels
    reference.holdings = replace(reference.holdings, labels=original.holdings.labels)
    return reference


def _apart(federation: Federation, reference: Federation) -> float:
    """Return the largest difference of any logit of any row; 0 where the weights are the same."""
    every = torch.arange(len(federation.holdings.ids))
    return float((federation.active.logits(every) - reference.active.logits(every)).abs().max())


def _sureness(federation: Federation, row: int) -> float:
    logits = federation.active.logits(torch.tensor([row]))
    return float(logits.softmax(1)[0, federation.holdings.labels[row]])


def _supervised(
    settings: BlindPeopleSettings, world: World, seed: int, singles: list[int]
) -> list[tuple[float, float, float]]:
    """Return confidences in each person's old label: before, after `retrain`, and retrained."""
    original = train_on(settings, world, seed)
    # Some rows are set aside as public ones there.
    trained = set(original.holdings.rows.train.tolist())
    pairs = []
    for row in singles:
        if row not in trained:
            continue
        first = _sureness(original, row)
        outcome = original.forget(ids=[str(row)])
        after = _sureness(original, row)
        outcome.rollback()
        retrained = train_on(settings, world, seed, Forgotten(rows=(row,)))
        pairs.append((first, after, _sureness(retrained, row)))
    return pairs


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the figures as rows for people."""
    lines = [["top", "people", "model", "confidence", "of strangers", "attack AUC (95 %)"]]
    for top, figures in result["tops"].items():
        for kind, models in figures["kinds"].items():
            for model in MODELS:
                shown = models[model]
                lines.append(
                    [
                        top_name(top),
                        f"{kind} ({shown['people']})",
                        WORDS[model],
                        f"{shown['confidence']['mean']:.3f}",
                        f"{shown['confidence_of_strangers']['mean']:.3f}",
                        markdown.interval(shown["attack_auc"]),
                    ]
                )
    return lines


def _one_by_one(result: dict[str, Any]) -> list[list[str]]:
    """Return how far single people's confidences are from those of models without them."""
    heads = ("distance before", "after, mean", "after, at most", "largest difference of any logit")
    lines = [["run", "people", *heads]]
    runs = {f"blind, {top_name(top)}": figures for top, figures in result["tops"].items()}
    for name, figures in runs.items():
        if figures["single"]:
            lines.append([name, *_distance_cells(figures["single"]), f"{figures['apart']:g}"])
    if result["supervised"]:
        lines.append(["supervised, `retrain`", *_distance_cells(result["supervised"]), ""])
    return lines


def _distance_cells(distances: dict[str, Any]) -> list[str]:
    return [
        str(distances["people"]),
        *(f"{distances[name]:.3f}" for name in ("before", "mean", "most")),
    ]


def _accuracies(result: dict[str, Any]) -> list[list[str]]:
    lines = [["top", *(WORDS[model] for model in MODELS)]]
    for top, figures in result["tops"].items():
        cells = [f"{100 * figures['accuracy'][model]['mean']:.1f}" for model in MODELS]
        lines.append([top_name(top), *cells])
    return lines


def page(result: Result) -> str:
    """Return the figures as a page."""
    about = result["settings"]
    return markdown.page(
        "# Labels of people in blind runs",
        f"{result['people']:,} people on {about['data']}, {100 * about['wrong']:g} % of the "
        f"{about['rows']:,} training rows wrongly labelled, seeds "
        f"{', '.join(map(str, about['seeds']))}. Bottoms by `{about['objective']}`, made without "
        "labels. The attack sorts people by the confidence in their old label; its AUC is 1/2 "
        "where listed people and strangers of the same kind cannot be told apart. *Empty cells* is "
        "a run on the same people in which the label cells of those listed are empty.",
        about.get("note", ""),
        markdown.table(table(result)),
        "Accuracy on strangers in percent, by their true labels:",
        markdown.table(_accuracies(result)),
        "One wrongly labelled person at a time: how far the confidence in the old label is from "
        "that of a model trained without it. The last column is the largest difference between any "
        "logit of the refitted model and of the run with empty cells, over all rows and requests.",
        markdown.table(_one_by_one(result)),
    )


def picture(result: Result) -> Picture:
    """Return the attack's success on every kind of people as bars, a panel a top."""
    panels: list[Panel] = []
    for top, figures in result["tops"].items():
        series = []
        for number, model in enumerate(MODELS):
            ends = [figures["kinds"][kind][model]["attack_auc"] for kind in KINDS]
            below, above = ([abs(x[end] - x["mean"]) for x in ends] for end in ("low", "high"))
            series.append(
                Series(
                    [place + (number - 1) * 0.25 for place in range(len(KINDS))],
                    [x["mean"] for x in ends],
                    WORDS[model].replace("`", ""),
                    [below, above],
                    "bars",
                    {"width": 0.22, "capsize": 3, "color": colour(number)},
                )
            )
        panels.append(
            Panel(
                series,
                title=top_name(top),
                ylabel="attack AUC; 0.5 tells nothing" if not panels else "",
                lines=[("y", 0.5, {"color": "#888888", "lw": 0.8})],
                xticks=(range(len(KINDS)), KINDS),
                ylim=(0, 1),
                legend={"fontsize": 8} if not panels else None,
            )
        )
    return Picture([panels], (5 * len(panels), 4))


BENCHES.add(
    "blind-people",
    Bench(
        "labels of people in blind runs: attacks before and after a refit, and without them",
        BlindPeopleSettings,
        measure,
        table,
        page,
        picture,
    ),
)
