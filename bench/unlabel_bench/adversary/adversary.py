"""The bench `adversary`: does the audit see through fakes, and let honest models pass?

Models retrained without a label are each judged beside three others, as a request that went to the
bottoms; tops refitted without it, as one that went to the top; and fakes (`fakes.py`), which must
not be found deeper than they are. How honest models spread gives the audit's units, and their
largest distances its limit: both from labels of even numbers alone, so that the labels of odd ones
show what that is worth.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from unlabel.audit.compare import compare
from unlabel.audit.figures import Measurement
from unlabel.audit.gate import RULES
from unlabel.audit.measure import MEASURES, Models
from unlabel.audit.observation import Observation, observe
from unlabel.audit.references import refitted, with_answers
from unlabel.data import Rows
from unlabel.errors import SettingsError
from unlabel.federation import Federation
from unlabel.train import Training, assemble
from unlabel.train.top_refit import refit_recipe, refit_top
from unlabel_bench.adversary.fakes import FAKES, Scene
from unlabel_bench.adversary.judging import page, summary, table
from unlabel_bench.originals import recipe_digest
from unlabel_bench.provenance import place_of
from unlabel_bench.recipe import Recipe
from unlabel_bench.records import Records
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.trials import end_of

#: Data, model of the bottoms and top of each scene.
SCENES = {
    "digits-deep-top": Recipe(data="digits", model="convnet", top="mlp", public=5),
    "digits-linear-top": Recipe(data="digits", model="mlp", top="linear", public=5),
    "table-deep-top": Recipe(data="made-table", model="mlp", top="mlp", public=5, epochs=30),
    "table-linear-top": Recipe(data="made-table", model="mlp", top="linear", public=5, epochs=30),
}
#: Measures that the gate judges by, and the two that decide answers.
JUDGED = ("forgotten-accuracy", "retained-accuracy", *RULES)
#: References beside which each model is judged.
BESIDE = 3


@dataclass(frozen=True)
class AdversarySettings:
    """Settings of the bench.

    scenes   of `SCENES`; `labels` by number, all of a scene if none are given
    models   retrained for each label
    records  JSONL file of the figures; what is there is not repeated
    page     Markdown file to write
    budget   seconds after which no new label begins; 0 has no end
    """

    scenes: tuple[str, ...] = tuple(SCENES)
    labels: tuple[int, ...] = ()
    models: int = 6
    records: str = ""
    page: str = ""
    budget: float = 0.0

    def __post_init__(self) -> None:
        unknown = [scene for scene in self.scenes if scene not in SCENES]
        if unknown:
            raise SettingsError(f"There is no scene '{unknown[0]}'; there are {', '.join(SCENES)}.")
        if self.models <= BESIDE:
            raise SettingsError(f"Expected `models` of more than {BESIDE} but got {self.models}.")


@dataclass(frozen=True)
class Case:
    """A model to be judged: what it is, the depth it truly has, and beside whom."""

    kind: str
    number: int
    depth: str
    seen: Observation
    beside: Sequence[Observation]


@dataclass
class Cast:
    """All models of one label in one scene."""

    recipe: Recipe
    label: int
    models: int
    federation: Federation = field(init=False)

    def __post_init__(self) -> None:
        self.federation = self.recipe.federation(0)

    def trained(self, seed: int, rows: Rows) -> Observation:
        """Return a model from a seed, trained on rows."""
        holdings = self.federation.holdings
        settings = replace(holdings.config.train, seed=seed)
        seeded = replace(holdings, config=replace(holdings.config, train=settings))
        with tempfile.TemporaryDirectory() as folder:
            active, _ = assemble(seeded, folder=Path(folder))
            Training(active, rows, settings, labels=len(self.federation.labels)).run()
            return observe(active, holdings.rows, self.federation.labels)

    def refit(self, seen: Observation, number: int = 0) -> Any:
        """Return a top refitted without the label, as `hidden` does it."""
        stay = [n for n in range(len(seen.names)) if n != self.label]
        training = self.federation.config.train
        recipe = refit_recipe(training, len(seen.train), number=number)
        parts = list(seen.train.embeddings.values())
        top = refit_top(self.federation.active.top, parts, seen.train.labels, stay, recipe)
        return top.cpu().eval()

    def cases(self, original: Observation) -> Iterator[Case]:
        """Yield honest models first, then fakes."""
        rows, labels = self.federation.holdings.rows, self.federation.holdings.labels
        kept = {
            part: getattr(rows, part)[labels[getattr(rows, part)] != self.label]
            for part in ("train", "validation")
        }
        retrained = [self.trained(1 + n, replace(rows, **kept)) for n in range(self.models)]
        for number, seen in enumerate(retrained):
            others = [*retrained[number + 1 :], *retrained[:number]]
            yield Case("retrained", number, "bottoms", seen, others[:BESIDE])
        for number in range(2):
            # Numbers beyond those of the audit's own tops.
            top = self.refit(original, 100 + number)
            beside = retrained[number * BESIDE :][:BESIDE]
            yield Case("refitted", number, "top", with_answers(original, top), beside)
        scene = Scene(original, retrained[-1], self.label, self.refit)
        for name, fake in FAKES.items():
            yield Case(name, 0, fake.depth, fake.make(scene), retrained[:BESIDE])

    def judged(
        self, case: Case, original: Observation, names: Sequence[str]
    ) -> dict[str, Measurement]:
        """Return some of the figures that the gate judges by."""
        label = (self.label,)
        run, seen = self.federation, case.seen
        tops = refitted(run.config.train, run.active.top, seen, label, len(seen.train))
        models: Models = {
            "original": [original],
            "mask": [original.masked(label)],
            "forgotten": [case.seen],
            "retrained": case.beside,
            "refitted": tops,
        }
        return compare(models, label, measures={name: MEASURES.get(name)() for name in names})


def compact(measured: Measurement) -> Result:
    """Return figures as plain data, without what no judgement needs."""
    values: dict[str, dict[str, Any]] = {}
    for model, figure in measured.values.items():
        each = [
            {"value": one.value, "parties": {p: {"value": e.value} for p, e in one.parties.items()}}
            for one in figure.each
        ]
        detail = {"parties": dict.fromkeys(figure.parties), "tried": figure.detail.get("tried", 0)}
        values[model] = {"value": figure.value, "detail": detail, "each": each}
        values[model]["seeds"] = list(figure.seeds)
    return {"depth": measured.depth, "unit": measured.unit, "values": values}


def measure(settings: AdversarySettings, say: Say) -> Result:
    """Make every model of every label, audit it, and judge."""
    ends = end_of(settings.budget)
    lines: list[Result] = []
    for name in settings.scenes:
        recipe = SCENES[name]
        records = Records(settings.records, recipe_digest(recipe))
        count = len(recipe.federation(0).labels)
        for label in settings.labels or range(count):
            done = records.find(scene=name, label=label, models=settings.models, kind="end")
            if done is None and label < count and time.monotonic() < ends:
                _play(recipe, name, label, settings.models, records, say)
        last = {
            (line["label"], line["kind"], line["number"]): line
            for line in records.of_recipe()
            if line["scene"] == name and line["models"] == settings.models and "values" in line
        }
        lines += last.values()
    return summary(lines)


def _play(recipe: Recipe, name: str, label: int, models: int, records: Records, say: Say) -> None:
    cast = Cast(recipe, label, models)
    key = {"scene": name, "label": label, "models": models}
    original = cast.trained(0, cast.federation.holdings.rows)
    for case in cast.cases(original):
        known = {**key, "kind": case.kind, "number": case.number, "depth": case.depth}
        line = records.find(**known) or {"values": {}}
        missing = [each for each in JUDGED if each not in line["values"]]
        if missing:
            measured = cast.judged(case, original, missing)
            values = {each: compact(figures) for each, figures in measured.items()}
            where = place_of(recipe, "cpu")
            records.add(**known, values={**line["values"], **values}, where=where)
            say(f"{name}, label {label}: {case.kind} {case.number}")
    records.add(**key, kind="end")


BENCHES.add(
    "adversary",
    Bench(
        "fakes and honest models before the audit: both error rates, and the units of its limits",
        AdversarySettings,
        measure,
        table,
        page,
    ),
)
