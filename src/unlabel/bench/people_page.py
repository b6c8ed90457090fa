"""The figures of `people` as a table, a page and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unlabel.bench.comparison_table import markdown
from unlabel.bench.pictures import COLOURS, new_plot, save

MODELS = ("original", "retrained", "forgotten")
PAPER = (
    "The paper's method forgets whole labels. It has no way to forget the labels of single people, "
    "so its preset does not stand here: retraining without the people is the reference."
)


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the figures as rows for people."""
    rows = [["people", "model", "confidence", "of strangers", "attack AUC (95 %)"]]
    for kind, models in result["kinds"].items():
        for model, found in models.items():
            rows.append(
                [
                    f"{kind} ({found['people']})",
                    model,
                    f"{found['confidence']['mean']:.3f}",
                    f"{found['confidence_of_strangers']['mean']:.3f}",
                    _spread(found["attack_auc"], 3),
                ]
            )
    return rows


def page(result: dict[str, Any], data: str, note: str = "") -> str:
    """Return the figures as a page of Markdown."""
    about = (
        f"{result['people']:,} people on {data}, by requests that took {result['seconds']:.1f} s "
        f"each. Confidence is that in the old label. The attack sorts people by it; its AUC is 1/2 "
        f"where listed people and strangers of the same kind cannot be told apart."
    )
    parts = ["# Labels of people", about, *([note] if note else []), PAPER]
    parts += [markdown(table(result)), markdown(accuracies(result))]
    return "\n\n".join(parts) + "\n"


def accuracies(result: dict[str, Any]) -> list[list[str]]:
    """Return how many strangers each model tells right, and what that is less than before."""
    rows = [["model", "accuracy on strangers, % (95 %)", "points lost (95 %)"]]
    for model in MODELS:
        lost = result["lost_points"].get(model)
        right = {name: 100 * value for name, value in result["accuracy"][model].items()}
        rows.append([model, _spread(right, 2), _spread(lost, 2) if lost else ""])
    return rows


def draw(result: dict[str, Any], path: Path) -> None:
    """Write the attack's success on every kind of people as a picture."""
    pyplot = new_plot()
    figure, axes = pyplot.subplots(figsize=(7, 4))
    kinds = list(result["kinds"])
    for number, model in enumerate(MODELS):
        found = [result["kinds"][kind][model]["attack_auc"] for kind in kinds]
        means = [each["mean"] for each in found]
        reach = [
            [each["mean"] - each["low"] for each in found],
            [each["high"] - each["mean"] for each in found],
        ]
        places = [place + (number - 1) * 0.25 for place in range(len(kinds))]
        axes.bar(places, means, 0.22, yerr=reach, capsize=3, color=COLOURS[number], label=model)
    axes.axhline(0.5, color="#888888", lw=0.8)
    axes.set_xticks(range(len(kinds)), kinds)
    axes.set_ylim(0, 1)
    axes.set_ylabel("attack AUC; 0.5 tells nothing")
    axes.legend(fontsize=8)
    figure.tight_layout()
    save(pyplot, figure, path)


def _spread(found: dict[str, float], digits: int) -> str:
    return f"{found['mean']:.{digits}f} ({found['low']:.{digits}f} to {found['high']:.{digits}f})"
