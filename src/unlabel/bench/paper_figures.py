"""Figures of the paper that take several records: numbers of parties, worth of modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unlabel.bench.comparison_picture import PANELS
from unlabel.bench.pictures import COLOURS, MARKS, new_plot, save, short_name

#: A record's summary: a line a method.
Summary = Sequence[Mapping[str, Any]]
#: How the four variants of the ablation are called, by the words that tell them apart.
VARIANTS = ("GA-A", "GA-S", "GA-S + mixup", "whole method")


def draw_parties(parts: Mapping[str, Summary], path: Path) -> None:
    """Write D_r, y_u and ASR of every method by number of parties, which names the parts."""
    counts = sorted(parts, key=int)
    # A record may hold more methods than another: those that all of them have can be followed.
    common = [
        entry["method"]
        for entry in parts[counts[0]]
        if all(any(x["method"] == entry["method"] for x in parts[count]) for count in counts)
    ]
    pyplot = new_plot()
    figure, grid = pyplot.subplots(1, len(PANELS), figsize=(4.6 * len(PANELS), 4.6))
    for axes, (name, title) in zip(grid, PANELS.items(), strict=True):
        for number, method in enumerate(common):
            aside = 0.3 * ((number + 0.5) / len(common) - 0.5)
            found = [_figure(parts[count], method, name) for count in counts]
            _points(
                axes, [place + aside for place in range(len(counts))], found, number, lines=True
            ).set_label(short_name(method))
        axes.set_xticks(range(len(counts)), counts)
        axes.set_xlabel("passive parties")
        _dress(axes, title)
    _legend(pyplot, figure, grid[0], path)


def draw_modules(parts: Mapping[str, Summary], path: Path) -> None:
    """Write D_r, y_u and ASR of the four variants of ascent, a group for each rate."""
    summary = [entry for part in parts.values() for entry in part if "ascent" in entry["method"]]
    rates = list(dict.fromkeys(_rate(entry["method"]) for entry in summary))
    pyplot = new_plot()
    figure, grid = pyplot.subplots(1, len(PANELS), figsize=(4.6 * len(PANELS), 4.6))
    for axes, (name, title) in zip(grid, PANELS.items(), strict=True):
        for number, variant in enumerate(VARIANTS):
            aside = 0.5 * ((number + 0.5) / len(VARIANTS) - 0.5)
            own = [
                next(
                    (
                        entry[name]
                        for entry in summary
                        if _rate(entry["method"]) == rate and _variant(entry["method"]) == variant
                    ),
                    None,
                )
                for rate in rates
            ]
            places = [place + aside for place in range(len(rates))]
            _points(axes, places, own, number, lines=False).set_label(variant)
        axes.set_xticks(range(len(rates)), rates)
        axes.set_xlabel("rate of ascent")
        _dress(axes, title)
    _legend(pyplot, figure, grid[0], path)


#: What draws an entry, by its name.
FIGURES: dict[str, Callable[[Mapping[str, Summary], Path], None]] = {
    "parties": draw_parties,
    "modules": draw_modules,
}


def _variant(method: str) -> str:
    """Return what the paper calls a variant.

    >>> _variant("mixup-ascent@resnet18-cifar10:recovery=false:lr=0.001")
    'GA-S + mixup'
    """
    if method.startswith("mixup-ascent"):
        return VARIANTS[2 if "recovery=false" in method else 3]
    return VARIANTS[0 if "samples=all" in method else 1]


def _rate(method: str) -> str:
    """Return the rate that a method names; the paper's own where it names none."""
    named = [word for word in method.split(":") if word.startswith("lr=")]
    return named[0].removeprefix("lr=") if named else "paper's"


def _figure(summary: Summary, method: str, name: str) -> Mapping[str, float] | None:
    return next((entry[name] for entry in summary if entry["method"] == method), None)


def _points(
    axes: Any,
    places: Sequence[float],
    found: Sequence[Mapping[str, float] | None],
    number: int,
    *,
    lines: bool,
) -> Any:
    """Draw figures with their deviations; what failed or was not measured has no mark."""
    here = [(place, x) for place, x in zip(places, found, strict=True) if x]
    return axes.errorbar(
        [place for place, _ in here],
        [x["mean"] for _, x in here],
        yerr=[x["deviation"] for _, x in here],
        fmt=MARKS[number % len(MARKS)],
        ls="-" if lines else "",
        lw=1.1,
        ms=6,
        capsize=3,
        color=COLOURS[number % len(COLOURS)],
    )


def _dress(axes: Any, title: str) -> None:
    axes.set_ylabel(title)
    # A deviation may reach beyond what a share can be.
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, -3), min(high, 103))
    axes.grid(color="#dddddd", lw=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _legend(pyplot: Any, figure: Any, axes: Any, path: Path) -> None:
    handles, names = axes.get_legend_handles_labels()
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    figure.legend(handles, names, fontsize=9, loc="lower center", ncols=len(names), frameon=False)
    save(pyplot, figure, path)
