"""How long each method takes between more and more parties: a comparison for each number."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unlabel.bench.comparison import every_method, methods_of
from unlabel.bench.comparison_summary import summarise
from unlabel.bench.comparison_table import FIGURES, markdown, times, where
from unlabel.bench.pictures import expect_plots, labels_in_words
from unlabel.bench.recipe import Recipe
from unlabel.bench.registry import BENCHES, Bench
from unlabel.bench.runtime_picture import draw
from unlabel.bench.trials import Trials
from unlabel.errors import SettingsError
from unlabel.files import write_atomically


@dataclass(frozen=True)
class RuntimeSettings(Recipe):
    """Settings of the bench.

    counts   numbers of passive parties; `parties` is not looked at
    labels   one request: the labels to forget together
    seed     of the one original for each number of parties
    methods  as in `single-label`; none stands for all of them
    repeats  times each request is made, unless it takes long; the last, a warm one, counts
    quality  also measure the membership attack, and draw D_r, y_u and ASR
    budget   seconds after which no new piece of work begins; 0 is no limit
    records  JSONL file of the figures; it is read first, and what is there is not repeated
    picture  PNG file to draw into; needs matplotlib
    page     Markdown file to write the tables into
    note     a sentence for that page, below its introduction
    """

    counts: tuple[int, ...] = (1, 2, 4, 8)
    labels: tuple[int, ...] = (0,)
    seed: int = 0
    methods: tuple[str, ...] = ()
    repeats: int = 2
    quality: bool = False
    budget: float = 0.0
    records: str = ""
    picture: str = ""
    page: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        if self.repeats < 1 or not self.labels or not self.counts or min(self.counts) < 1:
            raise SettingsError("Expected at least one label, one repeat, and counts from 1 on.")


def run(settings: RuntimeSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Forget with every method between each number of parties; return seconds and figures."""
    expect_plots(settings.picture)
    names = methods_of(settings.methods) or every_method(settings, len(settings.labels))
    ends = time.monotonic() + settings.budget if settings.budget else float("inf")
    summary, records = [], []
    for count in settings.counts:
        trials = Trials(
            replace(settings, parties=count),
            settings.labels,
            settings.records,
            lambda text, count=count: say(f"{count} parties, {text}"),  # type: ignore[misc]
            repeats=settings.repeats,
            probed=settings.quality,
            ends=ends,
        )
        found = [trials.original(settings.seed)]
        found += [trials.forget(name, settings.seed) for name in names]
        lines = [line for line in found if line is not None]
        records += [{**line, "parties": count} for line in lines]
        entries = summarise(lines, [("original", False), *((name, False) for name in names)])
        summary += [{"parties": count, **entry} for entry in entries]
    result = {
        "request": "+".join(map(str, settings.labels)),
        "counts": list(settings.counts),
        "methods": list(names),
        "summary": summary,
        "records": records,
        "about": {
            name: getattr(settings, name)
            for name in ("data", "model", "epochs", "repeats", "quality", "note")
        },
    }
    if settings.picture:
        draw(result, Path(settings.picture))
    if settings.page:
        write_atomically(Path(settings.page), page(result).encode())
    return result


def page(result: dict[str, Any]) -> str:
    """Return a page in Markdown: a table of seconds, and one a figure, if measured."""
    about = result["about"]
    counts = ", ".join(map(str, result["counts"]))
    parts = [
        f"# Forgetting {labels_in_words(result['request'])} for K = {counts}",
        f"{about['data']}, {about['model']}, K passive parties, {about['epochs']} epochs, one "
        f"seed; {where(result)}. Seconds of a request include choosing samples. {times(about)}",
        *([about["note"]] if about["note"] else []),
    ]
    for figure, title in _figures(result).items():
        parts += [f"## {title}", markdown([_heads(result, "method"), *_rows(result, figure)])]
    return "\n\n".join(parts) + "\n"


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return seconds by number of parties, a row a method; below them the figures, if measured."""
    rows = [_heads(result, "seconds")]
    for figure, short in _figures(result).items():
        before = "" if figure == "seconds" else f"{short} "
        rows += [[f"{before}{method}", *cells] for method, *cells in _rows(result, figure)]
    return rows


def _figures(result: dict[str, Any]) -> dict[str, str]:
    return {"seconds": "seconds", **(FIGURES if result["about"]["quality"] else {})}


def _heads(result: dict[str, Any], first: str) -> list[str]:
    return [first, *(f"K = {count}" for count in result["counts"])]


def _rows(result: dict[str, Any], figure: str) -> list[list[str]]:
    return [
        [method, *(_cell(result, method, count, figure) for count in result["counts"])]
        for method in result["methods"]
    ]


def _cell(result: dict[str, Any], method: str, count: int, figure: str) -> str:
    for entry in result["summary"]:
        if (entry["method"], entry["parties"]) == (method, count):
            if entry["failed"]:
                return "failed"
            value = entry[figure]["mean"] if entry[figure] else None
            return (
                "" if value is None else f"{value:.3g}" if figure == "seconds" else f"{value:.2f}"
            )
    return ""


BENCHES.add(
    "runtime",
    Bench(
        "seconds of every method for 1, 2, 4 and 8 passive parties",
        RuntimeSettings,
        run,
        table,
    ),
)
