"""The lines of a bench of robustness: means over seeds, a table, a page and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unlabel_bench import markdown
from unlabel_bench.comparison.page import AXES
from unlabel_bench.drawing import GRID, Panel, Picture, Series, colour, with_deviations
from unlabel_bench.markdown import labels_in_words, over_seeds, short_name, where
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.robustness.levels import ANY, Circumstance, Ladder, RobustnessSettings
from unlabel_bench.summary import failures, grouped, spread_of

#: Figures of a line, as shares, and their heads in tables.
FIGURES = {
    **markdown.FIGURES,
    "probe_linear": "linear probe",
    "probe_nearest": "nearest probe",
    "confidence": "confidence",
    "agreement": "agreement",
}
MEANINGS = (
    f"{markdown.DEFINITIONS} (that of `retrain` is the aim); probes: what can still be read off "
    f"the embeddings; all in %."
)
PANELS = {
    **AXES,
    "probe_linear": "linear probe of the embeddings, %",
    "confidence": "confidence in old labels, %",
}
#: Figures of which a few points matter, so that they are not drawn from 0 to 100.
CLOSE = ("retained", "probe_linear")
#: Points that such a panel shows at least: less would make much of nothing.
LEAST = 10.0
#: Characters of all levels together that fit below a panel.
FITTING = 20

Line = dict[str, Any]


def summarise(lines: Sequence[Line]) -> list[Line]:
    """Return one entry a group, level and method, in the order in which they first come.

    Every figure is in percent, with its deviation over seeds. `failed`, `refused` and `warned`
    count runs; a run that was refused was forced afterwards, and its figures are those.
    """
    entries = []
    for key, here in grouped(lines, "group", "level", "method"):
        whole, failed = failures(here)
        entries.append(
            {
                **key,
                **{name: spread_of(whole, name, 100) for name in FIGURES},
                "runs": len(whole),
                "failed": failed,
                "refused": sum(bool(x.get("refused")) for x in whole),
                "warned": sum(bool(x.get("warning")) for x in whole),
            }
        )
    return entries


def results(
    settings: RobustnessSettings, bench: str, title: str, levels: Sequence[str], lines: list[Line]
) -> Result:
    """Return the result of a bench.

    title   of the levels, as it stands in tables and below the picture
    """
    request = "+".join(map(str, settings.labels))
    names = ("data", "model", "parties", "epochs", "batch", "validation", "public", "seeds")
    return {
        "title": title,
        "levels": list(levels),
        "methods": list(dict.fromkeys(x["method"] for x in lines)),
        "summary": in_order(summarise(lines), levels),
        "records": lines,
        "about": {"bench": bench, "request": request, **settings.about(*names)},
    }


def climb(
    bench: str,
    title: str,
    settings: RobustnessSettings,
    say: Say,
    levels: Sequence[Circumstance],
    *,
    apart: bool = False,
) -> Result:
    """Measure every level with every method and seed; return the result of the bench."""
    lines = Ladder(bench, settings, say, apart=apart).climb(levels)
    return results(settings, bench, title, [level.name for level in levels], lines)


def add_bench(name: str, about: str, settings: type[RobustnessSettings], measure: Any) -> None:
    """Register a bench of robustness."""
    BENCHES.add(name, Bench(about, settings, measure, table, page, picture))


def in_order(entries: list[Line], levels: Sequence[str]) -> list[Line]:
    """Return entries by group and level, those that no level changes first."""
    groups = list(dict.fromkeys(x["group"] for x in entries))
    places = [ANY, *levels]
    return sorted(entries, key=lambda x: (groups.index(x["group"]), places.index(x["level"])))


def _groups(result: Result) -> list[str]:
    return list(dict.fromkeys(x["group"] for x in result["summary"]))


def table(result: Result) -> list[list[str]]:
    """Return a row a level and method."""
    groups = _groups(result)
    return [
        row
        for number, group in enumerate(groups)
        for row in _rows(result, group, every=len(groups) > 1)[bool(number) :]
    ]


def page(result: Result) -> str:
    """Return a page in Markdown."""
    return markdown.page(f"# {result['about']['bench']}", block(result))


def block(result: Result, image: str = "") -> str:
    """Return the figures as they stand within a page: where they are from, tables, picture."""
    about = result["about"]
    tables = [
        part
        for group in _groups(result)
        for part in (f"**{group}**" if group else "", markdown.table(_rows(result, group)))
    ]
    return markdown.page(
        f"{about['data']}, {about['model']}, {about['epochs']} epochs, "
        f"{1 - about['validation']:.0%} of the training rows, {about['public']} rows a label set "
        f"aside at most, {labels_in_words(about['request'])}, {over_seeds(about['seeds'])}; "
        f"{where(result)}.",
        MEANINGS,
        about["note"],
        *tables,
        f"![{about['bench']}]({image})" if image else "",
    ).rstrip("\n")


def _rows(result: Result, group: str, *, every: bool = False) -> list[list[str]]:
    """Return a head and the rows of a group, with the figures that somebody has."""
    entries = [x for x in result["summary"] if x["group"] == group]
    seen = result["summary"] if every else entries
    names = [name for name in FIGURES if any(x[name] is not None for x in seen)]
    rows = [[result["title"], "model", *(FIGURES[name] for name in names), "notes"]]
    for x in entries:
        cells = [markdown.figure(x[name], 1) for name in names]
        rows.append([x["level"], short_name(x["method"]), *cells, _notes(x)])
    return rows


def _notes(entry: Line) -> str:
    total = entry["runs"] + len(entry["failed"])
    counts = {
        "failed": len(entry["failed"]),
        "refused": entry["refused"],
        "warned": entry["warned"] - entry["refused"],
    }
    return ", ".join(f"{word} {count} of {total}" for word, count in counts.items() if count > 0)


def picture(result: Result) -> Picture:
    """Return a row of panels a group, level by level; what no level changes is a dashed line."""
    groups, about = _groups(result), result["about"]
    rows = [_panels(result, group) for group in groups]
    seeds = over_seeds(about["seeds"], "mean and deviation of {} seeds")
    return Picture(
        rows,
        (4.4 * max(map(len, rows)), 4.4 * len(groups) + 0.8),
        f"{about['bench']}: {about['data']}, {about['model']}; {seeds}",
        legend={"loc": "lower center", "ncols": 4, "frameon": False},
        rect=(0, 0.02 + 0.1 / len(groups), 1, 1),
    )


def _panels(result: Result, group: str) -> list[Panel]:
    entries = [x for x in result["summary"] if x["group"] == group]
    names = [name for name in PANELS if any(x[name] is not None for x in entries)]
    known = {x["level"] for x in entries}
    levels = [level for level in result["levels"] if level in known]
    crowded = sum(map(len, levels)) > FITTING
    return [
        Panel(
            _series(result, entries, levels, name, labelled=number == 0),
            title="" if number else group,
            titled={"loc": "left", "fontsize": 10},
            xlabel=result["title"],
            ylabel=PANELS[name],
            xticks=(range(len(levels)), levels),
            ticks={"rotation": 20 if crowded else 0, "ha": "right" if crowded else "center"},
            ylim=_around if name in CLOSE else (-3, 103),
            lines=_unchanged(result, entries, name, labelled=number == 0),
            grid=GRID,
            open=True,
        )
        for number, name in enumerate(names)
    ]


def _series(
    result: Result, entries: list[Line], levels: list[str], name: str, *, labelled: bool
) -> list[Series]:
    series = []
    for number, method in enumerate(result["methods"]):
        here = [x for x in entries if x["method"] == method and x["level"] in levels and x[name]]
        if here:
            places, label = [levels.index(x["level"]) for x in here], short_name(method)
            spreads = [x[name] for x in here]
            label_or_none = label if labelled else None
            series.append(with_deviations(places, spreads, number, label_or_none, ms=5, lw=1.4))
    return series


def _unchanged(result: Result, entries: list[Line], name: str, *, labelled: bool) -> list[Any]:
    return [
        (
            "y",
            x[name]["mean"],
            {"color": colour(result["methods"].index(x["method"])), "ls": "--", "lw": 1.1}
            | ({"label": short_name(x["method"])} if labelled else {}),
        )
        for x in entries
        if x["level"] == ANY and x[name]
    ]


def _around(low: float, high: float) -> tuple[float, float]:
    """Return the limits of a panel that shows what is around its points, not all shares."""
    if high - low >= LEAST:
        return low, high
    top = min((low + high + LEAST) / 2, 100.5)
    return top - LEAST, top
