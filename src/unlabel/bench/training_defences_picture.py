"""The figures of `training-defences` as a picture: D_r and y_u by noise and by compression."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unlabel.bench.comparison_picture import PANELS
from unlabel.bench.pictures import COLOURS, MARKS, labels_in_words, new_plot, save, short_name

AXES = {
    "noise": "variance of the noise on each gradient",
    "keep": "share of the gradients' numbers that is sent",
}


def draw(result: dict[str, Any], path: Path) -> None:
    """Write the picture: a row of panels a defence, D_r on the left and y_u on the right."""
    pyplot = new_plot()
    figure, grid = pyplot.subplots(2, 2, figsize=(12.5, 8.6), squeeze=False)
    for panels, (what, under) in zip(grid, AXES.items(), strict=True):
        places = result["levels"][what]
        for axes, name in zip(panels, ("retained", "forgotten"), strict=True):
            _lines(axes, result, what, name)
            axes.set_ylabel(PANELS[name])
            axes.set_xlabel(under)
            # Levels are many powers of ten apart, and the first is 0: side by side.
            axes.set_xticks(range(len(places)), [f"{level:g}" for level in places])
            axes.set_ylim(-3, 103)
            axes.grid(color="#dddddd", lw=0.6)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
    about = result["about"]
    figure.suptitle(
        f"{about['data']}, {about['model']}; {labels_in_words(result['request'])} forgotten with "
        f"the defence on",
        fontsize=11,
    )
    handles, names = grid[0][0].get_legend_handles_labels()
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    if handles:
        figure.legend(handles, names, fontsize=9, loc="lower center", ncol=4, frameon=False)
    save(pyplot, figure, path)


def _lines(axes: Any, result: dict[str, Any], what: str, name: str) -> None:
    models = ["original", *result["methods"]]
    for number, method in enumerate(models):
        own = [
            x
            for x in result["summary"]
            if (x["what"], x["method"]) == (what, method) and x[name] is not None
        ]
        # Each a little aside of the others, where several have the same value.
        aside = 0.12 * (number - (len(models) - 1) / 2)
        axes.errorbar(
            [result["levels"][what].index(x["level"]) + aside for x in own],
            [x[name]["mean"] for x in own],
            yerr=[x[name]["deviation"] for x in own],
            marker=MARKS[number % len(MARKS)],
            ls="--" if method == "original" else "-",
            lw=1.4,
            ms=5,
            capsize=2,
            color=COLOURS[number % len(COLOURS)],
            label="before forgetting" if method == "original" else short_name(method),
        )
