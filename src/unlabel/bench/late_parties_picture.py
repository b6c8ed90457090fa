"""The figures of `late-parties` as a picture: accuracy and forgetting by lateness."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unlabel.bench.pictures import COLOURS, MARKS, new_plot, save, short_name


def draw(result: dict[str, Any], path: Path) -> None:
    """Write the picture: trainings by correction, requests with late gradients, time waited."""
    pyplot = new_plot()
    figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(14, 4.2))
    entries = result["summary"]
    _trainings(left, entries)
    _requests(middle, entries)
    for number, value in enumerate(dict.fromkeys(x["spread"] for x in result["waiting"])):
        own = [x for x in result["waiting"] if x["spread"] == value]
        places, shares = [x["late"] for x in own], [100 * x["time"] for x in own]
        right.plot(
            places, shares, MARKS[number], ls="-", color=COLOURS[number], label=f"spread {value:g}"
        )
    right.set_title("time beside a training in step (computed), %")
    right.set_ylim(bottom=0)
    for axes in (left, middle, right):
        axes.set_xlabel("steps late")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.tight_layout()
    save(pyplot, figure, path)


def _trainings(axes: Any, entries: list[dict[str, Any]]) -> None:
    own = [x for x in entries if x["kind"] == "training" and x["accuracy"] is not None]
    start = [x for x in own if x["late"] == 0]
    kinds = dict.fromkeys((x["who"], x["rule"]) for x in own if x["late"])
    for number, (who, rule) in enumerate(kinds):
        line = start + [x for x in own if x["late"] and (x["who"], x["rule"]) == (who, rule)]
        _line(axes, line, "accuracy", number, f"{rule}, {who} late", "-" if who == "all" else ":")
    axes.set_title("test accuracy after a late training, %")


def _requests(axes: Any, entries: list[dict[str, Any]]) -> None:
    late = [x for x in entries if x["kind"] == "request"]
    for number, method in enumerate(dict.fromkeys(x["method"] for x in late)):
        start = [
            x for x in entries if x["kind"] == "forget" and x["late"] == 0 and x["method"] == method
        ]
        line = [x for x in [*start, *late] if x["method"] == method]
        name = short_name(method).split()[0]
        for figure, style in (("retained", "-"), ("forgotten", ":")):
            shown = {"retained": "D_r", "forgotten": "y_u"}[figure]
            known = [x for x in line if x[figure] is not None]
            _line(axes, known, figure, number, f"{name}, {shown}", style)
    axes.set_title("forgetting while gradients come late, %")


def _line(
    axes: Any, line: list[dict[str, Any]], name: str, number: int, label: str, style: str
) -> None:
    axes.errorbar(
        [x["late"] for x in line],
        [100 * x[name]["mean"] for x in line],
        [100 * x[name]["deviation"] for x in line],
        marker=MARKS[number % len(MARKS)],
        ls=style,
        color=COLOURS[number % len(COLOURS)],
        label=label,
        capsize=2,
    )
