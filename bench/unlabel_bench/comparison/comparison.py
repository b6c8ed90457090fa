"""All methods on the same requests: one, two and four labels, as the paper's tables ask.

Every figure is a line of a JSONL file; a bench that starts again on it repeats nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unlabel.errors import SettingsError
from unlabel.forget import METHODS
from unlabel_bench.comparison.claims import headline
from unlabel_bench.comparison.page import page, picture, table
from unlabel_bench.markdown import plain_name
from unlabel_bench.measures import read_method
from unlabel_bench.recipe import Recipe, RecordedRecipe
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.summary import summarise
from unlabel_bench.sweep import choices_of, sweep
from unlabel_bench.trials import Trials, end_of

#: Methods in the order of the tables; those of other names come before our own.
FIRST = (
    *("retrain", "finetune", "fisher", "amnesiac", "unsir", "boundary", "ssd", "delete", "scrub"),
    *("collapse", "tilt", "ascent", "mixup-ascent"),
)
LAST = ("deep", "renormalise", "hidden", "mask")
#: Settings with which a method stands in the tables, where they are not its defaults.
SHOWN = {"ascent": "ascent:samples=all"}


@dataclass(frozen=True)
class ComparisonSettings(RecordedRecipe):
    """Settings of the bench.

    labels      one request: the labels to forget together
    seeds       how many seeds, from 0 on
    methods     NAME, NAME@PRESET or NAME:SETTING=VALUE:...; none stands for all of them
    tuned       also try every method's sweep, judged on validation rows of seed 0
    tuned_from  records of another bench whose choices are taken in place of a sweep
    repeats     times each request is made; the last one counts, so 2 leaves warming up out
    budget      seconds after which no new piece of work begins; 0 is no limit
    """

    labels: tuple[int, ...] = (0,)
    seeds: int = 3
    methods: tuple[str, ...] = ()
    tuned: bool = False
    tuned_from: str = ""
    repeats: int = 1
    budget: float = 0.0

    def __post_init__(self) -> None:
        if self.seeds < 1 or self.repeats < 1 or not self.labels:
            raise SettingsError("Expected at least one label, one seed and one repeat.")
        if self.tuned and not self.tuned_from and not self.validation:
            raise SettingsError("Expected `validation` above 0 where `tuned` is true but got 0.")


@dataclass(frozen=True)
class TwoLabelSettings(ComparisonSettings):
    """The same for two labels."""

    labels: tuple[int, ...] = (0, 2)


@dataclass(frozen=True)
class FourLabelSettings(ComparisonSettings):
    """The same for four labels."""

    labels: tuple[int, ...] = (0, 2, 5, 7)


def measure(settings: ComparisonSettings, say: Say) -> Result:
    """Forget with every method on every seed; return figures, summary and what they show."""
    names = methods_of(settings.methods) or every_method(settings, len(settings.labels))
    taken = choices_of(settings.tuned_from, names) if settings.tuned_from else None
    trials = Trials(
        settings,
        settings.labels,
        settings.records,
        say,
        repeats=settings.repeats,
        ends=end_of(settings.budget),
    )
    chosen: list[dict[str, Any]] = taken or []
    for seed in range(settings.seeds):
        trials.original(seed)
        for name in names:
            trials.forget(name, seed)
        if settings.tuned and taken is None and seed == 0:
            chosen = [choice for name in names if (choice := sweep(trials, name)) is not None]
        for choice in chosen:
            if choice["words"]:
                trials.forget(choice["chosen"], seed, tuned=True)
    return _result(settings, trials, names, chosen)


def methods_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return methods by name, each once; a wrong one is refused before any training."""
    for name in names:
        read_method(name)
    return tuple(dict.fromkeys(names))


def every_method(recipe: Recipe, labels: int) -> tuple[str, ...]:
    """Return all methods that forget whole labels, each as it stands in the tables.

    One with a preset for this dataset, model and request stands there twice: by default and so.
    """
    known = METHODS.names()
    between = [name for name in known if name not in (*FIRST, *LAST)]
    ordered = [name for name in (*FIRST, *between, *LAST) if name in known]
    many = {1: "", 2: "two-label-", 4: "four-label-"}.get(labels, "?")
    preset = f"{many}{recipe.model}-{recipe.data}"
    shown: list[str] = []
    for name in ordered:
        shown.append(SHOWN.get(name, name))
        if preset in METHODS.get(name)().presets():
            shown.append(f"{name}@{preset}")
    return tuple(shown)


def _result(
    settings: ComparisonSettings,
    trials: Trials,
    names: tuple[str, ...],
    chosen: list[dict[str, Any]],
) -> dict[str, Any]:
    tuned = {choice["method"]: choice["chosen"] for choice in chosen if choice["words"]}
    rows = [("original", False)]
    for name in names:
        rows.append((name, False))
        rows += [(tuned[name], True)] if name in tuned else []
    lines = [x for x in trials.lines() if _belongs(x, settings, {name for name, _ in rows})]
    summary = summarise([x for x in lines if x["kind"] == "forget"], rows)
    return {
        "request": trials.request,
        "methods": [name for name, _ in rows[1:]],
        "summary": summary,
        "headline": headline(summary),
        "choices": [_choice(choice, lines) for choice in chosen],
        "records": lines,
        "about": settings.about("data", "model", "parties", "epochs", "seeds", "repeats"),
    }


def _belongs(line: dict[str, Any], settings: ComparisonSettings, names: set[str]) -> bool:
    """Return whether a line is one of these settings; a file may hold others."""
    if line["kind"] == "sweep":
        return any(plain_name(line["method"]) == plain_name(name) for name in names)
    if line.get("seed", -1) not in range(settings.seeds) or line["method"] not in names:
        return False
    return bool(line.get("repeats", settings.repeats) == settings.repeats)


def _choice(choice: dict[str, Any], lines: list[dict[str, Any]]) -> dict[str, Any]:
    tried = [
        x for x in lines if x["kind"] == "sweep" and x["method"] in choice.get("candidates", ())
    ]
    figures = ("method", "retained", "forgotten", "failed")
    return {
        "method": choice["method"],
        "chosen": choice["chosen"],
        "published_won": not choice["words"],
        "candidates": [{k: x[k] for k in figures if k in x} for x in tried],
    }


for _name, _labels, _settings in (
    ("single-label", "one label", ComparisonSettings),
    ("two-label", "two labels", TwoLabelSettings),
    ("four-label", "four labels", FourLabelSettings),
):
    BENCHES.add(
        _name,
        Bench(
            f"{_labels} by every method, beside the paper's figures",
            _settings,
            measure,
            table,
            page,
            picture,
        ),
    )
