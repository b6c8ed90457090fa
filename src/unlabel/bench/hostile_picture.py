"""The figures of `hostile` as a picture: accuracy with and without a check, attack by attack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unlabel.bench.pictures import COLOURS, MARKS, new_plot, save

#: The accuracies that are shown, as they stand in the legend.
SHOWN = {"honest": "no attack", "unchecked": "attacked, no check", "stopped_at": "where it stopped"}


def draw(result: dict[str, Any], path: Path) -> None:
    """Write the picture: a panel a model and time, a line an attack, with how many were noticed."""
    pyplot = new_plot()
    entries = result["summary"]
    panels = list(dict.fromkeys((x["model"], x["when"]) for x in entries))
    attacks = list(dict.fromkeys(x["attack"] for x in entries))
    size = (4.2 * len(panels) + 2.2, 1.4 + 0.3 * len(attacks))
    figure, grid = pyplot.subplots(1, len(panels), figsize=size, squeeze=False, sharey=True)
    places = {attack: number for number, attack in enumerate(reversed(attacks))}
    for axes, (model, when) in zip(grid[0], panels, strict=True):
        own = [x for x in entries if (x["model"], x["when"]) == (model, when)]
        for number, (name, label) in enumerate(SHOWN.items()):
            known = [x for x in own if x[name] is not None]
            axes.plot(
                [100 * x[name] for x in known],
                [places[x["attack"]] for x in known],
                MARKS[number],
                color=COLOURS[number],
                label=label,
                alpha=0.8,
            )
        for x in own:
            told = f"{x['noticed']}/{x['runs']}"
            axes.text(104, places[x["attack"]], told, va="center", fontsize=8)
        axes.set_xlim(0, 118)
        axes.set_xlabel("test accuracy in %, and how many were noticed")
        axes.set_title(f"{model}, {when}")
        axes.grid(axis="y", alpha=0.3)
    grid[0][0].set_yticks(list(places.values()), list(places))
    grid[0][0].legend(loc="lower left", fontsize=8)
    figure.tight_layout()
    save(pyplot, figure, path)
