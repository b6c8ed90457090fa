"""How long each method takes between more and more parties: a comparison for each number."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from unlabel.errors import SettingsError
from unlabel_bench import markdown
from unlabel_bench.comparison.comparison import every_method, methods_of
from unlabel_bench.comparison.page import AXES, times
from unlabel_bench.drawing import COLOURS, GRID, Panel, Picture, Series, colour, mark
from unlabel_bench.markdown import FIGURES, labels_in_words, short_name, where
from unlabel_bench.recipe import RecordedRecipe
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.summary import summarise
from unlabel_bench.trials import Trials, end_of


@dataclass(frozen=True)
class RuntimeSettings(RecordedRecipe):
    """Settings of the bench.

    counts   numbers of passive parties; `parties` is not looked at
    labels   one request: the labels to forget together
    seed     of the one original for each number of parties
    methods  as in `single-label`; none stands for all of them
    repeats  times each request is made, unless it takes long; the last, a warm one, counts
    quality  also measure the membership attack, and draw it and both accuracies
    budget   seconds after which no new piece of work begins; 0 is no limit
    """

    counts: tuple[int, ...] = (1, 2, 4, 8)
    labels: tuple[int, ...] = (0,)
    seed: int = 0
    methods: tuple[str, ...] = ()
    repeats: int = 2
    quality: bool = False
    budget: float = 0.0

    def __post_init__(self) -> None:
        if self.repeats < 1 or not self.labels or not self.counts or min(self.counts) < 1:
            raise SettingsError("Expected at least one label, one repeat, and counts from 1 on.")


def measure(settings: RuntimeSettings, say: Say) -> Result:
    """Forget with every method between each number of parties; return seconds and figures."""
    names = methods_of(settings.methods) or every_method(settings, len(settings.labels))
    ends = end_of(settings.budget)
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
        tried = [trials.original(settings.seed)]
        tried += [trials.forget(name, settings.seed) for name in names]
        lines = [line for line in tried if line is not None]
        records += [{**line, "parties": count} for line in lines]
        entries = summarise(lines, [("original", False), *((name, False) for name in names)])
        summary += [{"parties": count, **entry} for entry in entries]
    return {
        "request": "+".join(map(str, settings.labels)),
        "counts": list(settings.counts),
        "methods": list(names),
        "summary": summary,
        "records": records,
        "about": settings.about("data", "model", "epochs", "repeats", "quality"),
    }


def page(result: Result) -> str:
    """Return a page in Markdown: a table of seconds, and one a figure, if measured."""
    about = result["about"]
    counts = ", ".join(map(str, result["counts"]))
    tables = [
        part
        for figure, title in _figures(result).items()
        for part in (
            f"## {title}",
            markdown.table([_heads(result, "method"), *_rows(result, figure)]),
        )
    ]
    return markdown.page(
        f"# Forgetting {labels_in_words(result['request'])} for K = {counts}",
        f"{about['data']}, {about['model']}, K passive parties, {about['epochs']} epochs, one "
        f"seed; {where(result)}. Seconds of a request include choosing samples. {times(about)}",
        about["note"],
        *tables,
    )


def table(result: Result) -> list[list[str]]:
    """Return seconds by number of parties, a row a method; below them the figures, if measured."""
    rows = [_heads(result, "seconds")]
    for figure, short in _figures(result).items():
        before = "" if figure == "seconds" else f"{short} "
        rows += [[f"{before}{method}", *cells] for method, *cells in _rows(result, figure)]
    return rows


def _figures(result: Result) -> dict[str, str]:
    return {"seconds": "seconds", **(FIGURES if result["about"]["quality"] else {})}


def _heads(result: Result, first: str) -> list[str]:
    return [first, *(f"K = {count}" for count in result["counts"])]


def _rows(result: Result, figure: str) -> list[list[str]]:
    entries = {(x["method"], x["parties"]): x for x in result["summary"]}
    return [
        [method, *(_cell(entries.get((method, count)), figure) for count in result["counts"])]
        for method in result["methods"]
    ]


def _cell(entry: dict[str, Any] | None, figure: str) -> str:
    if entry is None or not (entry["failed"] or entry[figure]):
        return ""
    if entry["failed"]:
        return "failed"
    return f"{entry[figure]['mean']:{'.3g' if figure == 'seconds' else '.2f'}}"


def picture(result: Result) -> Picture:
    """Return seconds, and if measured the quality, by number of parties."""
    about = result["about"]
    axes = {"seconds": "seconds a request (log scale)", **(AXES if about["quality"] else {})}
    wide = 2 if len(axes) > 1 else 1
    panels = [
        Panel(
            _lines(result, name),
            xlabel="passive parties",
            ylabel=title,
            xticks=(range(len(result["counts"])), result["counts"]),
            yscale="log" if name == "seconds" else "linear",
            grid=GRID,
            open=True,
        )
        for name, title in axes.items()
    ]
    width = 6.4 * wide + 2.6
    return Picture(
        [panels[place : place + wide] for place in range(0, len(panels), wide)],
        (width, 4.4 * wide),
        f"{about['data']}, {about['model']}; {labels_in_words(result['request'])} forgotten",
        legend={"fontsize": 9, "loc": "center right", "frameon": False},
        rect=(0, 0, 1 - 2.5 / width, 1),
    )


def _lines(result: Result, name: str) -> list[Series]:
    """Return a line a method; each a little aside of the others, where many have the same value."""
    series, methods = [], result["methods"]
    for number, method in enumerate(methods):
        entries = [x for x in result["summary"] if x["method"] == method]
        known = [x for x in entries if x[name]]
        missing = ", failed" if any(x["failed"] for x in entries) else ""
        first = name == "seconds"
        aside = 0 if first else 0.25 * ((number + 0.5) / len(methods) - 0.5)
        options = {
            "marker": mark(number),
            "ls": "-" if number < len(COLOURS) else "--",
            "lw": 2.4 if method.startswith("renormalise") else 1.1,
            "ms": 5,
            "color": colour(number),
        }
        series.append(
            Series(
                [result["counts"].index(x["parties"]) + aside for x in known],
                [x[name]["mean"] for x in known],
                short_name(method) + ("" if known else missing) if first else None,
                options=options,
            )
        )
    return series


BENCHES.add(
    "runtime",
    Bench(
        "seconds of every method for 1, 2, 4 and 8 passive parties",
        RuntimeSettings,
        measure,
        table,
        page,
        picture,
    ),
)
