"""The figures of `runtime` as a picture: seconds, and if measured the quality, by parties."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unlabel.bench.comparison_picture import PANELS
from unlabel.bench.pictures import COLOURS, MARKS, labels_in_words, new_plot, save, short_name

SECONDS = "seconds a request (log scale)"


def draw(result: dict[str, Any], path: Path) -> None:
    """Write the picture."""
    pyplot = new_plot()
    panels = {"seconds": SECONDS, **(PANELS if result["about"]["quality"] else {})}
    wide = 2 if len(panels) > 1 else 1
    figure, grid = pyplot.subplots(
        wide, wide, figsize=(6.4 * wide + 2.6, 4.4 * wide), squeeze=False
    )
    for axes, (name, title) in zip(grid.flat, panels.items(), strict=True):
        _lines(axes, result, name)
        axes.set_ylabel(title)
        axes.set_xlabel("passive parties")
        axes.set_xticks(range(len(result["counts"])), result["counts"])
        axes.grid(color="#dddddd", lw=0.6)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    grid[0][0].set_yscale("log")
    about = result["about"]
    labels = labels_in_words(result["request"])
    figure.suptitle(f"{about['data']}, {about['model']}; {labels} forgotten", fontsize=11)
    handles, names = grid[0][0].get_legend_handles_labels()
    figure.tight_layout(rect=(0, 0, 1 - 2.5 / (6.4 * wide + 2.6), 1))
    if handles:
        figure.legend(handles, names, fontsize=9, loc="center right", frameon=False)
    save(pyplot, figure, path)


def _lines(axes: Any, result: dict[str, Any], name: str) -> None:
    """Draw a line a method; each a little aside of the others, where many have the same value."""
    methods = result["methods"]
    for number, method in enumerate(methods):
        own = [x for x in result["summary"] if x["method"] == method and x[name]]
        failed = any(x["failed"] for x in result["summary"] if x["method"] == method)
        aside = 0 if name == "seconds" else 0.25 * ((number + 0.5) / len(methods) - 0.5)
        axes.plot(
            [result["counts"].index(x["parties"]) + aside for x in own],
            [x[name]["mean"] for x in own],
            MARKS[number % len(MARKS)],
            ls="-" if number < len(COLOURS) else "--",
            lw=2.4 if method.startswith("renormalise") else 1.1,
            ms=5,
            color=COLOURS[number % len(COLOURS)],
            label=short_name(method) + ("" if own else ", failed" if failed else ""),
        )
