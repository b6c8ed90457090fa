"""How long each method takes between more and more parties: a comparison for each number."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unlabel.bench.comparison import every_method
from unlabel.bench.comparison_summary import summarise
from unlabel.bench.comparison_table import FIGURES, markdown, where
from unlabel.bench.measures import read_method
from unlabel.bench.pictures import expect_plots
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
    page     Markdown file to write the table into
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

    def __post_init__(self) -> None:
        if self.repeats < 1 or not self.labels or not self.counts or min(self.counts) < 1:
            raise SettingsError("Expected at least one label, one repeat, and counts from 1 on.")


def run(settings: RuntimeSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Forget with every method between each number of parties; return seconds and figures."""
    expect_plots(settings.picture)
    names = settings.methods or every_method(settings, len(settings.labels))
    for name in names:
        read_method(name)  # a name that is wrong is told before anything is trained
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
        "about": {name: getattr(settings, name) for name in ("data", "model", "epochs", "quality")},
    }
    if settings.picture:
        draw(result, Path(settings.picture))
    if settings.page:
        write_atomically(Path(settings.page), page(result).encode())
    return result


def page(result: dict[str, Any]) -> str:
    """Return the table as a page in Markdown."""
    about = result["about"]
    title = f"# Forgetting {result['request'].replace('+', ', ')} between 1 to "
    text = (
        f"{about['data']}, {about['model']}, {about['epochs']} epochs, one seed; "
        f"{where(result)}. Seconds of a request, choosing samples included; requests of a few "
        f"seconds are made twice and the second counts."
    )
    return f"{title}{max(result['counts'])} parties\n\n{text}\n\n{markdown(table(result))}\n"


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return seconds by number of parties, a row a method; below them the figures, if measured."""
    counts = result["counts"]
    rows = [["seconds", *(f"K = {count}" for count in counts)]]
    figures = {"seconds": "", **(FIGURES if result["about"]["quality"] else {})}
    for figure, short in figures.items():
        for method in result["methods"]:
            cells = [_cell(result, method, count, figure) for count in counts]
            rows.append([f"{short} {method}".strip(), *cells])
    return rows


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
