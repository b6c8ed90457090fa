"""Bottoms that never see a label, on images: what they cost in accuracy, and give in forgetting.

For every seed, on one split of the rows:

    blind       bottoms by contrast, frozen; a top on embeddings that are kept; `refit` of a label
    tuned       the same bottoms as a start, trained together with labels; `restart` of the label
    supervised  trained together from nothing; `retrain` without the label, which is the reference

A blind run is made once and the tuned one begins with its bottoms: with one seed both would make
the same.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch

from unlabel.config import BottomsKind, FitSettings, LabelFreeSettings, RunConfig, TrainSettings
from unlabel.data import ACTIVE
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings
from unlabel.train import Holdings, assemble, load_holdings
from unlabel.train.assembly import LABEL_FREE
from unlabel.train.label_free import BASE
from unlabel_bench import markdown
from unlabel_bench.recipe import Recipe
from unlabel_bench.registry import BENCHES, Bench, Result, Say

#: Repetitions of a warm refit, of which the median counts.
WARM = 5


@dataclass(frozen=True)
class BlindImagesSettings(Recipe):
    """Settings of the bench; `epochs` are those of supervised training.

    seeds         to repeat it with
    contrast      passes of contrast
    contrast_batch, contrast_lr  of them
    across        whether parties agree with each other too
    views         of every training row that the top is fitted to
    tops          of the blind run
    fit_epochs    of the top, and its rate `fit_lr`
    tuned_epochs  of training together, from the bottoms of contrast
    tuned_augment what is done to images then
    label         to forget
    only          kinds to measure, all if empty
    records       JSONL file to which figures are added as they come
    page          Markdown file to write the table into
    """

    model: str = "resnet18"
    data: str = "cifar10"
    epochs: int = 24
    validation: float = 0.0
    seeds: tuple[int, ...] = (0,)
    contrast: int = 120
    contrast_batch: int = 1024
    contrast_lr: float = 0.4
    across: bool = True
    views: int = 8
    tops: tuple[str, ...] = ("mlp", "linear")
    fit_epochs: int = 60
    fit_lr: float = 2e-3
    tuned_epochs: int = 8
    tuned_augment: str = "crop-flip"
    label: str = "0"
    only: tuple[str, ...] = ()
    records: str = ""
    page: str = ""

    def run_config(self, seed: int, kind: BottomsKind, **train: Any) -> RunConfig:
        """Return a run of one kind of bottoms."""
        plain = self.config(seed)
        settings = replace(plain.train, **train)
        if kind == "blind":  # nothing of a training together, but the machine and the parts
            kept = ("seed", "test", "validation", "device", "precision", "save_every")
            settings = TrainSettings(**{name: getattr(settings, name) for name in kept})
        return replace(
            plain,
            bottoms=kind,
            train=settings,
            label_free=LabelFreeSettings(
                objective="contrast",
                epochs=self.contrast,
                batch=self.contrast_batch,
                lr=self.contrast_lr,
                across=self.across,
                views=self.views if kind == "blind" else 0,
            ),
            fit=FitSettings(epochs=self.fit_epochs, batch=1024, lr=self.fit_lr),
        )


def measure(settings: BlindImagesSettings, say: Say) -> Result:
    """Measure every kind for every seed."""
    lines: list[dict[str, Any]] = []

    def note(line: dict[str, Any]) -> None:
        lines.append(line)
        say(json.dumps(line))
        if settings.records:
            with open(settings.records, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    for seed in settings.seeds:
        with tempfile.TemporaryDirectory() as folder:
            _measure_seed(settings, seed, Path(folder), note, say)
    return {"lines": lines, "summary": summary(lines)}


def _measure_seed(
    settings: BlindImagesSettings,
    seed: int,
    folder: Path,
    note: Callable[[dict[str, Any]], None],
    say: Say,
) -> None:
    wanted = settings.only or ("supervised", "blind", "tuned")
    home = folder / "blind"
    if "supervised" in wanted:
        federation = _federation(settings.run_config(seed, "supervised"), folder / "supervised")
        seconds = _timed(federation, federation.train)
        note({"seed": seed, "kind": "supervised", **_figures(federation), "seconds": seconds})
        retrain = ForgetSettings(method="retrain", measure_drift=False)
        request = federation.forget([settings.label], settings=retrain)
        note({"seed": seed, "kind": "retrained", **_outcome(request.result)})
        del federation, request
        torch.cuda.empty_cache()
    if "blind" in wanted or "tuned" in wanted:
        _blind(settings, seed, home, note, say)
    if "tuned" in wanted:
        _tuned(settings, seed, home, folder / "tuned", note)


def _blind(
    settings: BlindImagesSettings,
    seed: int,
    home: Path,
    note: Callable[[dict[str, Any]], None],
    say: Say,
) -> None:
    config = settings.run_config(seed, "blind")

    def watch(step: int, steps: int, text: str) -> None:
        if step % 10 == 0 or step == steps:
            say(f"seed {seed}: {step} of {steps} {text}")

    for number, top in enumerate(settings.tops):
        chosen = replace(config, model=replace(config.model, top=top))
        place = home if number == 0 else home.with_name(f"blind-{top}")
        if number:  # the same bottoms and embeddings, another top
            shutil.copytree(home, place, ignore=shutil.ignore_patterns("versions"))
        federation = _federation(chosen, place)
        seconds = _timed(federation, partial(federation.train, watch=watch))
        note(
            {"seed": seed, "kind": "blind", "top": top, **_figures(federation), "seconds": seconds}
        )
        times = []
        for _ in range(WARM):
            request = federation.forget([settings.label])
            times.append(request.result.seconds)
            request.rollback()
        figures = {
            **_outcome(request.result),
            "first": times[0],
            "seconds": sorted(times)[WARM // 2],
        }
        note({"seed": seed, "kind": "refit", "top": top, **figures})
        del federation, request
        torch.cuda.empty_cache()


def _tuned(
    settings: BlindImagesSettings,
    seed: int,
    blind: Path,
    home: Path,
    note: Callable[[dict[str, Any]], None],
) -> None:
    """Begin with the bottoms of the blind run, train together, and forget."""
    for party in blind.iterdir():
        if (party / "base").is_dir():
            shutil.copytree(party / "base", home / party.name / "base")
    kept = Path(ACTIVE) / LABEL_FREE / BASE
    (home / kept).parent.mkdir(parents=True)
    shutil.copy(blind / kept, home / kept)
    train = {"epochs": settings.tuned_epochs, "augment": settings.tuned_augment}
    federation = _federation(settings.run_config(seed, "tuned", **train), home)
    seconds = _timed(federation, federation.train)
    note({"seed": seed, "kind": "tuned", **_figures(federation), "seconds": seconds})
    request = federation.forget([settings.label])
    note({"seed": seed, "kind": "restart", **_outcome(request.result)})


def _federation(config: RunConfig, folder: Path) -> Federation:
    """Return a federation in a folder that may hold bottoms already; it reads no settings there."""
    holdings: Holdings = load_holdings(config)
    active, passives = assemble(holdings, folder=folder)
    federation = Federation(holdings, active, passives, folder)
    holdings.bind(folder / ACTIVE)
    return federation


def _timed(federation: Federation, act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    if federation.active.device.type == "cuda":
        torch.cuda.synchronize(federation.active.device)
    return time.perf_counter() - started


def _figures(federation: Federation) -> dict[str, Any]:
    seen = federation.evaluate()
    return {"accuracy": seen.accuracy, "per_label_accuracy": list(seen.per_label_accuracy)}


def _outcome(result: Any) -> dict[str, Any]:
    return {
        "retained_before": result.retained_accuracy.before,
        "retained": result.retained_accuracy.after,
        "forgotten": result.forgotten_accuracy.after,
        "seconds": result.seconds,
    }


def summary(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return mean and deviation over seeds, a line for each kind and top."""
    keys = dict.fromkeys((line["kind"], line.get("top", "")) for line in lines)
    return [{"kind": kind, "top": top, **_spread([*_of(lines, kind, top)])} for kind, top in keys]


def _of(lines: list[dict[str, Any]], kind: str, top: str) -> list[dict[str, Any]]:
    return [line for line in lines if (line["kind"], line.get("top", "")) == (kind, top)]


def _spread(lines: list[dict[str, Any]]) -> dict[str, Any]:
    spread: dict[str, Any] = {"seeds": len(lines)}
    for name in ("accuracy", "retained", "forgotten", "seconds"):
        values = [line[name] for line in lines if line.get(name) is not None]
        if values:
            deviation = stdev(values) if len(values) > 1 else None
            spread[name] = {"mean": mean(values), "deviation": deviation}
    return spread


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the figures as rows for people."""
    rows = [["training or request", "top", "accuracy", "retained", "forgotten", "seconds"]]
    for line in result["summary"]:
        cells = [_cell(line.get(name), name) for name in ("accuracy", "retained", "forgotten")]
        rows.append([line["kind"], line["top"], *cells, _cell(line.get("seconds"), "seconds")])
    return rows


def _cell(figure: dict[str, Any] | None, name: str) -> str:
    if figure is None:
        return ""
    scale, digits = (1, 2) if name == "seconds" else (100, 2)
    spread = figure["deviation"]
    more = "" if spread is None else f" ± {scale * spread:.{digits}f}"
    return f"{scale * figure['mean']:.{digits}f}{more}"


def page(result: Result) -> str:
    """Return the figures as a page."""
    about = result["settings"]
    return f"""# Bottoms that never see a label, on images

{about["data"]}, {about["parties"]} parties, {about["model"]} each, seeds
{", ".join(map(str, about["seeds"]))}. Blind: {about["contrast"]} passes of contrast
{"(own views and agreement across parties)" if about["across"] else "(own views alone)"}, frozen, a
top fitted in {about["fit_epochs"]} passes over {about["views"]} views. Tuned: the same bottoms,
{about["tuned_epochs"]} passes together with labels. Supervised: {about["epochs"]} passes from
nothing. Label {about["label"]} is forgotten by `refit`, `restart` and `retrain`. Accuracies in
percent on the test rows, mean and deviation over seeds; seconds on the machine of the record, for
`refit` the median of {WARM} warm ones.

{markdown.table(table(result))}
"""


BENCHES.add(
    "blind-images",
    Bench(
        "blind, tuned and supervised bottoms on images: accuracy, and what forgetting costs",
        BlindImagesSettings,
        measure,
        table,
        page,
    ),
)
