"""What forgetting in the bottoms leaves, taken apart: fresh weights, the teacher, the epochs.

Beside the original and models retrained without the label, for as many epochs as the training and
for as many as a method takes, stand forms of `deep`. Of each model is measured what its frozen
embeddings know of the label. Every model is a line of a JSONL file as soon as it is measured; a
bench that starts again on the same file repeats nothing that is there.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.linalg import LinAlgError  # type: ignore[attr-defined]

from unlabel.errors import ForgetError, PartyRefused, SettingsError, TrainingError
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings
from unlabel.train import Forgotten, batch_count
from unlabel_bench import markdown
from unlabel_bench.knowledge import FEW, few_shot, information
from unlabel_bench.measures import (
    accuracies,
    embedded,
    figures_of,
    key_of,
    labels_of,
    probes,
    read_method,
    residual,
    settings_digest,
)
from unlabel_bench.originals import Original, open_original, recipe_digest
from unlabel_bench.provenance import place_of
from unlabel_bench.recipe import RecordedRecipe
from unlabel_bench.records import Records
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.summary import grouped, mean_of, spread, spread_of
from unlabel_bench.trials import end_of

Line = dict[str, Any]
#: Seeds of further retrained models are this far from the first.
APART = 1000
#: Figures of a line in percent, as tables name them.
SHARES = {
    **markdown.FIGURES,
    "probe_linear": "linear probe",
    **{f"few_{count}": f"{count} a label" for count in FEW},
}


@dataclass(frozen=True)
class DeepPartsSettings(RecordedRecipe):
    """Settings of the bench.

    seeds   to repeat it with
    labels  requests: a label, or labels joined by +
    models  in their order: original; retrained, or retrained:EPOCHS, with +1, +2 for others of it
            by other seeds; methods by name, with settings as NAME:SETTING=VALUE:..
    budget  seconds after which no new model begins; 0 is no limit
    """

    model: str = "resnet18"
    data: str = "cifar10"
    epochs: int = 24
    validation: float = 0.0
    seeds: tuple[int, ...] = (0,)
    labels: tuple[str, ...] = ("0",)
    models: tuple[str, ...] = (
        *("original", "retrained", "retrained+1", "retrained:6", "retrained:6+1", "retrained:4"),
        *("deep@distilled", "deep@distilled:reinitialise=1", "deep@distilled:teacher=0"),
        *("deep:reinitialise=1:contrast=0", "deep:contrast=0", "deep"),
    )
    budget: float = 0.0


def measure(settings: DeepPartsSettings, say: Say) -> Result:
    """Measure every model of every label and seed that is not in the records yet."""
    for word in settings.models:
        if word != "original" and _retrained(word) is None:
            read_method(word)  # a wrong word is told at once
    records = Records(settings.records, recipe_digest(settings))
    work, ends = _Models(settings, records, say), end_of(settings.budget)
    for seed in settings.seeds:
        for request in settings.labels:
            for word in settings.models:
                key = _key(word, request, seed)
                if records.find(**key) is None and time.monotonic() < ends:
                    line = records.add(**key, **work.figures(word, request, seed))
                    say(f"seed {seed} label {request} {word}: {_in_words(line)}")
    lines = [line for line in records.of_recipe() if line["model"] in settings.models]
    return {"records": lines, "summary": summary(lines)}


def _key(word: str, request: str, seed: int) -> Line:
    """Return what a line is a figure of; a method whose defaults changed is another one."""
    key: Line = {"request": request, "model": word, "seed": seed}
    plain = word == "original" or _retrained(word)
    return key if plain else key | {"settings": settings_digest(word)}


def _retrained(word: str) -> tuple[int, int] | None:
    """Return epochs (0: all) and number of a retrained model; None where it is something else.

    >>> _retrained("retrained:6+1"), _retrained("retrained"), _retrained("deep")
    ((6, 1), (0, 0), None)
    """
    name, _, copy = word.partition("+")
    name, _, epochs = name.partition(":")
    if name != "retrained":
        return None
    try:
        return int(epochs or 0), int(copy or 0)
    except ValueError as error:
        raise SettingsError(f"Expected retrained:EPOCHS+NUMBER but got '{word}'.") from error


class _Models:
    """The models of some settings, each trained when it is asked for."""

    def __init__(self, settings: DeepPartsSettings, records: Records, say: Say) -> None:
        self._settings, self._records, self._say = settings, records, say
        self._open: tuple[int, Original] | None = None

    def figures(self, word: str, request: str, seed: int) -> Line:
        """Make a model and measure it; one that fails is a figure too."""
        labels, settings = labels_of(request), self._settings
        if word == "original":
            original = self._original(seed)
            line = {"epochs": settings.epochs, "seconds": original.seconds}
            return self._measured(original.federation, labels) | line
        alone = _retrained(word)
        if alone is not None:
            return self._retrain(labels, seed + APART * alone[1], alone[0] or settings.epochs)
        try:
            return self._forget(word, request, seed)
        except (ForgetError, PartyRefused, TrainingError, ValueError, LinAlgError) as error:
            return {"failed": str(error)}

    def _original(self, seed: int) -> Original:
        """Return the original of a seed; one at a time, since a large one fills a device."""
        if self._open is None or self._open[0] != seed:
            self._open = None
            self._open = (seed, open_original(self._settings, seed, self._say))
        return self._open[1]

    def _retrain(self, labels: tuple[int, ...], seed: int, epochs: int) -> Line:
        federation = replace(self._settings, epochs=epochs).federation(seed)
        federation.forgotten = Forgotten(labels=labels)
        history = federation.train().history
        line = {"epochs": epochs, "seconds": sum(epoch.seconds for epoch in history)}
        return self._measured(federation, labels) | line

    def _forget(self, word: str, request: str, seed: int) -> Line:
        federation, labels = self._original(seed).federation, labels_of(request)
        options = ForgetSettings(
            method=read_method(word),
            key=key_of(seed, request),
            allow_collapse=True,
            allow_disclosure=True,
            measure_drift=False,
        )
        outcome = federation.forget(labels, settings=options)
        figures = figures_of(outcome.result)
        try:
            line = self._measured(federation, labels) | figures
        finally:
            outcome.rollback()
        rows = federation.holdings.rows.train
        truth = federation.active.labels[rows.to(federation.active.device)].cpu()
        stays = rows[~torch.isin(truth, torch.tensor(labels))]
        a_pass = batch_count(stays, min(self._settings.batch, len(stays)))
        return line | {"epochs": round(figures["steps"] / a_pass, 2)}

    def _measured(self, federation: Federation, labels: tuple[int, ...]) -> Line:
        retained, forgotten = accuracies(federation, labels)
        seen, count = embedded(federation, labels), len(federation.labels)
        line = {"retained": retained, "forgotten": forgotten, **probes(seen, labels, count)}
        line |= few_shot(seen, labels, count) | {"information": information(seen, labels)}
        return line | {"where": place_of(self._settings, federation.active.device.type)}


def summary(lines: Sequence[Line]) -> list[Line]:
    """Return an entry a model and label: means over seeds, and gaps to retrained models.

    gap       points of the linear probe above retrained models: `gap_full`, those of the
              training's epochs; `gap_matched`, those of as many epochs as the model itself had
    residual  (probe - retrained) / (original - retrained), against both
    idi       the same of `information`, against those of the training's epochs
    lost      points of retained accuracy below them

    A retrained model is compared with the others.
    """
    whole = [line for line in lines if "failed" not in line]
    entries = []
    for key, some in grouped(whole, "request", "model"):
        entry: Line = {**key, "runs": len(some)}
        for name in SHARES:
            entry[name] = spread_of(some, name, 100)
        for name in ("information", "epochs", "seconds"):
            entry[name] = spread_of(some, name)
        compared = [_compared(line, whole) for line in some]
        for name in ("gap_full", "gap_matched", "residual_full", "residual_matched", "idi", "lost"):
            entry[name] = spread([x[name] for x in compared if x[name] is not None])
        entries.append(entry)
    return entries


def _compared(line: Line, lines: Sequence[Line]) -> Line:
    """Return how far a model is from retrained ones."""
    same = [x for x in lines if x["request"] == line["request"] and x is not line]
    alone = {x["model"]: _retrained(x["model"]) for x in same}
    full = [x for x in same if (alone[x["model"]] or (1,))[0] == 0]
    matched = [x for x in same if alone[x["model"]] and x["epochs"] == line["epochs"]]
    original = [x for x in lines if (x["request"], x["model"]) == (line["request"], "original")]

    def between(name: str, others: list[Line]) -> float | None:
        ends = [mean_of([x[name] for x in some]) for some in (original, others)]
        if ends[0] is None or ends[1] is None:
            return None
        return residual(line[name], ends[0], ends[1])

    def above(name: str, others: list[Line]) -> float | None:
        mean = mean_of([x[name] for x in others])
        return None if mean is None else 100 * (line[name] - mean)

    lost = above("retained", full)
    return {
        "gap_full": above("probe_linear", full),
        "gap_matched": above("probe_linear", matched),
        "residual_full": between("probe_linear", full),
        "residual_matched": between("probe_linear", matched),
        "idi": between("information", full),
        "lost": None if lost is None else -lost,
    }


def table(result: Result) -> list[list[str]]:
    """Return the summaries as rows for people."""
    gaps = {
        "gap_full": "probe gap",
        "gap_matched": "probe gap, same epochs",
        "residual_full": "residual",
        "residual_matched": "residual, same epochs",
        "idi": "IDI",
        "lost": "lost",
    }
    heads = ["label", "model", "runs", "epochs", *SHARES.values(), *gaps.values(), "s"]
    rows = [heads]
    for entry in result["summary"]:
        cells = [markdown.figure(entry[name]) for name in (*SHARES, *gaps)]
        epochs = markdown.figure(entry["epochs"], 0).partition(" ")[0]
        about = [entry["request"], entry["model"], str(entry["runs"]), epochs]
        rows.append([*about, *cells, markdown.seconds(entry["seconds"])])
    return rows


def page(result: Result) -> str:
    """Return the figures as a page."""
    about = result["settings"]
    seeds = ", ".join(map(str, about["seeds"]))
    return markdown.page(
        "# What `deep` leaves, taken apart",
        f"{about['data']}, {about['parties']} parties, {about['model']} each, {about['epochs']} "
        f"epochs, seeds {seeds}; {markdown.where(result)}.",
        f"{markdown.DEFINITIONS}. Linear probe: accuracy on the label of a ridge classifier on "
        "frozen embeddings, fitted with all labels, or with few rows a label. Gap, residual and "
        "IDI: against models retrained without the label, for as many epochs as the training, or "
        "as the model itself; IDI is that of the last layer of the bottoms alone. Lost: points of "
        "retained accuracy below retrained models. `deep` is named with what is not its default; "
        "`deep@distilled` is its form of 0.9.",
        about["note"],
        markdown.table(table(result)),
    )


def _in_words(line: Line) -> str:
    if "failed" in line:
        return str(line["failed"])
    names = ("retained", "forgotten", "asr", "probe_linear", "few_1", "information", "seconds")
    return ", ".join(f"{name} {line[name]:.4g}" for name in names)


BENCHES.add(
    "deep-parts",
    Bench(
        "what deep leaves in the bottoms: fresh weights, teacher and epochs taken apart",
        DeepPartsSettings,
        measure,
        table,
        page,
    ),
)
