"""The figures of `forgetting` as a picture: what stays and goes by label, and the frontier."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

from unlabel.bench.pictures import COLOURS, new_plot, save


def draw(result: dict[str, Any], path: Path) -> None:
    """Write the picture."""
    pyplot = new_plot()
    figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(17, 4.6))
    _by_label(left, result, "retained", "change of D_r against the original, points")
    _by_label(middle, result, "forgotten", "accuracy on the forgotten label, %")
    _frontier(right, result)
    figure.tight_layout()
    save(pyplot, figure, path)


def _by_label(axes: Any, result: dict[str, Any], name: str, title: str) -> None:
    lines = [x for x in result["records"] if x["kind"] == "forget" and f"{name}_before" in x]
    requests = sorted({x["request"] for x in lines}, key=lambda text: (len(text), text))
    methods = list(dict.fromkeys(x["method"] for x in lines))
    # Methods of the frontier alone would leave most places empty.
    asked = {m: len({x["request"] for x in lines if x["method"] == m}) for m in methods}
    methods = [method for method in methods if 2 * asked[method] > len(requests)]
    for number, method in enumerate(methods):
        for place, request in enumerate(requests):
            base = "retained_before" if name == "retained" else ""
            values = [
                100 * (x[name] - (x[base] if base else 0))
                for x in lines
                if x["method"] == method and x["request"] == request
            ]
            shift = (number - (len(methods) - 1) / 2) * 0.22
            axes.plot(
                [place + shift] * len(values),
                values,
                "o",
                ms=4,
                color=COLOURS[number % len(COLOURS)],
                label=method if place == 0 else None,
            )
    axes.axhline(0, color="#888888", lw=0.8)
    axes.set_xticks(range(len(requests)), requests, rotation=45 if len(requests) > 10 else 0)
    axes.set_xlabel("request (labels)")
    axes.set_ylabel(title)
    axes.legend(fontsize=8)


def _frontier(axes: Any, result: dict[str, Any]) -> None:
    """Draw residual knowledge by both probes against the change of D_r, over probed requests."""
    lines = [x for x in result["records"] if "probe_linear" in x and "retained_before" in x]
    residuals = {
        x["method"]: x for x in result["summary"] if x["residual_linear"] and x["residual_nearest"]
    }
    for number, method in enumerate(dict.fromkeys(x["method"] for x in lines)):
        if method not in residuals:
            continue
        own = [x for x in lines if x["method"] == method]
        change = mean(100 * (x["retained"] - x["retained_before"]) for x in own)
        colour = COLOURS[number % len(COLOURS)]
        found = residuals[method]
        axes.plot(change, found["residual_linear"]["mean"], "o", color=colour, label=method)
        axes.plot(change, found["residual_nearest"]["mean"], "^", color=colour)
    axes.axhline(0, color="#888888", lw=0.8)
    axes.axhline(1, color="#888888", lw=0.8, ls=":")
    requests = sorted({x["request"] for x in lines})
    axes.set_xlabel(f"mean change of D_r, points (labels {', '.join(requests)})")
    axes.set_ylabel("residual knowledge: o linear, ^ nearest")
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
