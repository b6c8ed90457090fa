"""Figures of the paper that take several records: numbers of parties, worth of modules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unlabel_bench.comparison.page import AXES
from unlabel_bench.drawing import GRID, Panel, Picture, Series, with_deviations
from unlabel_bench.markdown import short_name

#: A record's summary: a line a method.
Summary = Sequence[Mapping[str, Any]]
#: How the four variants of the ablation are called, by the words that tell them apart.
VARIANTS = ("GA-A", "GA-S", "GA-S + mixup", "whole method")


def parties(parts: Mapping[str, Summary]) -> Picture:
    """Return the figures of every method by number of parties, which names the parts."""
    counts = sorted(parts, key=int)
    # A record may hold more methods than another: those that all of them have can be followed.
    common = [
        entry["method"]
        for entry in parts[counts[0]]
        if all(any(x["method"] == entry["method"] for x in parts[count]) for count in counts)
    ]

    def series(name: str) -> list[Series]:
        return [
            with_deviations(
                _places(len(counts), number, len(common), 0.3),
                [_figure(parts[count], lambda x, m=method: x == m, name) for count in counts],  # type: ignore[misc]
                number,
                short_name(method),
                ls="-",
                lw=1.1,
                ms=6,
                capsize=3,
            )
            for number, method in enumerate(common)
        ]

    return _panels(series, counts, "passive parties")


def modules(parts: Mapping[str, Summary]) -> Picture:
    """Return the figures of the four variants of ascent, a group for each rate."""
    summary = [entry for part in parts.values() for entry in part if "ascent" in entry["method"]]
    rates = list(dict.fromkeys(rate_of(entry["method"]) for entry in summary))

    def series(name: str) -> list[Series]:
        return [
            with_deviations(
                _places(len(rates), number, len(VARIANTS), 0.5),
                [
                    _figure(
                        summary,
                        lambda x, r=rate, v=variant: (rate_of(x), variant_of(x)) == (r, v),  # type: ignore[misc]
                        name,
                    )
                    for rate in rates
                ],
                number,
                variant,
                ls="",
                lw=1.1,
                ms=6,
                capsize=3,
            )
            for number, variant in enumerate(VARIANTS)
        ]

    return _panels(series, rates, "rate of ascent")


#: The picture of an entry, by its name.
FIGURES: dict[str, Callable[[Mapping[str, Summary]], Picture]] = {
    "parties": parties,
    "modules": modules,
}


def variant_of(method: str) -> str:
    """Return what the paper calls a variant.

    >>> variant_of("mixup-ascent@resnet18-cifar10:recovery=false:lr=0.001")
    'GA-S + mixup'
    """
    if method.startswith("mixup-ascent"):
        return VARIANTS[2 if "recovery=false" in method else 3]
    return VARIANTS[0 if "samples=all" in method else 1]


def rate_of(method: str) -> str:
    """Return the rate that a method names; the paper's own where it names none."""
    named = [word for word in method.split(":") if word.startswith("lr=")]
    return named[0].removeprefix("lr=") if named else "paper's"


def _figure(summary: Summary, chosen: Callable[[str], bool], name: str) -> Any:
    return next((entry[name] for entry in summary if chosen(entry["method"])), None)


def _places(count: int, number: int, many: int, width: float) -> list[float]:
    """Return the places of one series, a little aside of the others."""
    return [place + width * ((number + 0.5) / many - 0.5) for place in range(count)]


def _panels(series: Callable[[str], list[Series]], ticks: Sequence[str], under: str) -> Picture:
    panels = [
        Panel(
            series(name),
            xlabel=under,
            ylabel=title,
            xticks=(range(len(ticks)), ticks),
            # A deviation may reach beyond what a share can be.
            ylim=lambda low, high: (max(low, -3), min(high, 103)),
            grid=GRID,
            open=True,
        )
        for name, title in AXES.items()
    ]
    many = len(panels[0].series)
    return Picture(
        [panels],
        (4.6 * len(panels), 4.6),
        legend={"fontsize": 9, "loc": "lower center", "ncols": many, "frameon": False},
        rect=(0, 0.1, 1, 1),
    )
