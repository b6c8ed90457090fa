"""The figures of a bench of robustness as a picture: a row of panels a group, level by level."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unlabel.bench.comparison_picture import PANELS
from unlabel.bench.pictures import COLOURS, MARKS, new_plot, save, short_name
from unlabel.bench.robustness import ANY

TITLES = {
    **PANELS,
    "probe_linear": "linear probe of the embeddings, %",
    "confidence": "confidence in old labels, %",
}
#: Figures of which a few points matter, so that they are not drawn from 0 to 100.
CLOSE = ("retained", "probe_linear")
#: Points that such a panel shows at least: less would make much of nothing.
LEAST = 10.0
#: Characters of all levels together that fit below a panel.
ROOM = 20


def draw(result: dict[str, Any], path: Path) -> None:
    """Write the picture; models that no level changes are dashed lines."""
    pyplot = new_plot()
    groups = list(dict.fromkeys(x["group"] for x in result["summary"]))
    panels = {group: _panels(result, group) for group in groups}
    width = max(map(len, panels.values()))
    figure, grid = pyplot.subplots(
        len(groups), width, figsize=(4.4 * width, 4.4 * len(groups) + 0.8), squeeze=False
    )
    for row, group in zip(grid, groups, strict=True):
        for axes in row[len(panels[group]) :]:
            axes.set_visible(False)
        for axes, name in zip(row, panels[group], strict=False):
            _lines(axes, result, group, name)
            axes.set_ylabel(TITLES[name])
            axes.set_xlabel(result["title"])
            _heights(axes, name)
            axes.grid(color="#dddddd", lw=0.6)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
        row[0].set_title(group, loc="left", fontsize=10)
    handles = {
        text: handle
        for row in grid
        for handle, text in zip(*row[0].get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="lower center", ncols=4, frameon=False)
    told = result["about"]
    seeds = "one seed" if told["seeds"] == 1 else f"mean and deviation of {told['seeds']} seeds"
    figure.suptitle(f"{told['bench']}: {told['data']}, {told['model']}; {seeds}", fontsize=11)
    figure.tight_layout(rect=(0, 0.02 + 0.1 / len(groups), 1, 1))
    save(pyplot, figure, path)


def _heights(axes: Any, name: str) -> None:
    """Let a panel show all shares, or those around its points."""
    low, high = axes.get_ylim()
    if name not in CLOSE:
        axes.set_ylim(-3, 103)
    elif high - low < LEAST:
        top = min((low + high + LEAST) / 2, 100.5)
        axes.set_ylim(top - LEAST, top)


def _panels(result: dict[str, Any], group: str) -> list[str]:
    own = [x for x in result["summary"] if x["group"] == group]
    return [name for name in TITLES if any(x[name] is not None for x in own)]


def _levels(result: dict[str, Any], group: str) -> list[str]:
    own = {x["level"] for x in result["summary"] if x["group"] == group}
    return [level for level in result["levels"] if level in own]


def _lines(axes: Any, result: dict[str, Any], group: str, name: str) -> None:
    places = {level: number for number, level in enumerate(_levels(result, group))}
    crowded = sum(map(len, places)) > ROOM
    axes.set_xticks(
        list(places.values()),
        list(places),
        rotation=20 if crowded else 0,
        ha="right" if crowded else "center",
    )
    for number, method in enumerate(result["methods"]):
        own = [x for x in result["summary"] if (x["group"], x["method"]) == (group, method)]
        points = [(places[x["level"]], x[name]) for x in own if x[name] and x["level"] in places]
        colour, label = COLOURS[number % len(COLOURS)], short_name(method)
        if points:
            axes.errorbar(
                [place for place, _ in points],
                [found["mean"] for _, found in points],
                yerr=[found["deviation"] for _, found in points],
                color=colour,
                marker=MARKS[number % len(MARKS)],
                ms=5,
                lw=1.4,
                capsize=2,
                label=label,
            )
        for found in (x[name] for x in own if x["level"] == ANY and x[name]):
            axes.axhline(found["mean"], color=colour, ls="--", lw=1.1, label=label)
