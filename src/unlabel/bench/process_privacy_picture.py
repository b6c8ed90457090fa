"""The frontier in a picture: leakage against residual knowledge, and against D_r."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unlabel.bench.pictures import COLOURS, MARKS, new_plot, save, short_name

#: Share of the axis by which each method steps aside: several tell nothing, or all there is.
ASIDE = 0.012


def counted(count: int, what: str) -> str:
    """Return a count in words.

    >>> counted(1, "seed"), counted(3, "label")
    ('1 seed', '3 labels')
    """
    return f"{count} {what}{'s' * (count != 1)}"


def draw(result: dict[str, Any], path: Path) -> None:
    """Draw a mark at what attacks on a method reach, and a line to what it may tell at most."""
    pyplot = new_plot()
    figure, panels = pyplot.subplots(2, 1, figsize=(8, 8), sharex=True, layout="constrained")
    shown = [x for x in result["summary"] if x.get("at_least") is not None]
    most = max((x["most"] for x in shown if x["most"]), default=1.0)
    for place, found in enumerate(shown):
        colour = COLOURS[place % len(COLOURS)]
        told = found["at_least"]["value"] + (place - len(shown) / 2) * ASIDE * most
        style: dict[str, Any] = {"color": colour, "marker": MARKS[place % len(MARKS)]}
        style |= {"markersize": 6, "linestyle": "none"}
        name = short_name(found["method"])
        for panel, value, low, high in zip(panels, *_heights(found), strict=True):
            if value is None:
                continue
            bound = max(told, min(found["at_most"], most))
            panel.plot([told, bound], [value] * 2, color=colour, alpha=0.4)
            panel.plot([bound], [value], color=colour, marker="|", markersize=9)
            reach = [[max(0.0, value - low)], [max(0.0, high - value)]]
            panel.errorbar([told], [value], yerr=reach, label=name, capsize=2, **style)
    labels = ("residual knowledge", "accuracy on retained labels, %")
    for panel, text in zip(panels, labels, strict=True):
        panel.set_ylabel(text)
        panel.grid(alpha=0.3)
    _levels(panels, result)
    for panel in panels:
        panel.axvline(most, color="#999999", linestyle=":")
        panel.set_xlim(-0.1 * most, 1.1 * most)
    panels[1].set_xlabel(
        "nats told about the label: mark (moved aside a little), what attacks reach;\n"
        "line, up to the bound; dotted, all"
    )
    handles, names = panels[1].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", fontsize="small", ncols=4)
    about = result["about"]
    panels[0].set_title(
        f"{about['data']}, {about['model']}: {counted(len(about['labels']), 'label')}, "
        f"{counted(about['seeds'], 'seed')}"
    )
    save(pyplot, figure, path)


def _heights(found: dict[str, Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Return value, lower and upper end in each panel; None where there is nothing to draw."""
    left, spread = found["residual"], found["retained"]
    right: list[Any] = [None, None, None]
    if spread is not None:
        mean, deviation = 100 * spread["mean"], 100 * spread["deviation"]
        right = [mean, mean - deviation, mean + deviation]
    ends = [left.get(name) for name in ("value", "low", "high")]
    return [ends[0], right[0]], [ends[1], right[1]], [ends[2], right[2]]


def _levels(panels: Any, result: dict[str, Any]) -> None:
    """Draw where the original and the retrained model stand."""
    levels = [(panels[0], 1.0, "original"), (panels[0], 0.0, "retrained")]
    original = next(x for x in result["summary"] if x["method"] == "original")
    if original["retained"] is not None:
        levels.append((panels[1], 100 * original["retained"]["mean"], "original"))
    for panel, level, text in levels:
        panel.axhline(level, color="#999999", linestyle="--", linewidth=0.8)
        where = panel.get_yaxis_transform()  # across the panel, whatever its axis shows
        panel.text(
            0.25, level, text, color="#666666", fontsize="small", va="bottom", transform=where
        )
