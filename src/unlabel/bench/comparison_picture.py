"""The figures of a comparison as bars: what stays, what goes, and what the attack says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unlabel.bench.comparison_summary import RETRAINED, find
from unlabel.bench.pictures import COLOURS, labels_in_words, new_plot, save, short_name
from unlabel.forget.settings import DEFAULT_METHOD

PANELS = {
    "retained": "D_r: accuracy on retained labels, %",
    "forgotten": "y_u: accuracy on forgotten labels, %",
    "asr": "ASR: forgotten rows called members, %",
}


def draw(result: dict[str, Any], path: Path) -> None:
    """Write the picture."""
    pyplot = new_plot()
    entries = result["summary"]
    size = (15, 1.6 + 0.34 * len(entries))
    figure, panels = pyplot.subplots(1, len(PANELS), figsize=size, sharey=True)
    for axes, (name, title) in zip(panels, PANELS.items(), strict=True):
        _bars(axes, entries, name)
        axes.set_xlabel(title)
    panels[0].set_yticks(range(len(entries)), _names(entries))
    panels[0].set_ylim(len(entries) - 0.4, -0.6)
    about = result["about"]
    seeds = "one seed" if about["seeds"] == 1 else f"mean and deviation of {about['seeds']} seeds"
    figure.suptitle(
        f"{about['data']}, {about['model']}, {about['parties']} passive parties; "
        f"{labels_in_words(result['request'])} forgotten; {seeds}; dashed: the retrained model",
        fontsize=11,
    )
    figure.tight_layout()
    save(pyplot, figure, path)


def _bars(axes: Any, entries: list[dict[str, Any]], name: str) -> None:
    for place, entry in enumerate(entries):
        found = entry[name]
        if not entry["runs"]:
            axes.text(0.01, place, "failed", transform=axes.get_yaxis_transform(), va="center")
        if found is None:
            continue
        own = entry["method"].startswith(DEFAULT_METHOD)
        grey = entry["method"] == "original" or entry["control"]
        colour = COLOURS[1] if own else COLOURS[7] if grey else COLOURS[0]
        axes.barh(
            place,
            found["mean"],
            height=0.68,
            xerr=found["deviation"] or None,
            color=colour,
            alpha=0.55 if entry["tuned"] else 0.9,
            ecolor="#333333",
            capsize=2,
        )
        # Beside the end of the bar, so that small figures can be read as well.
        axes.annotate(
            f"{found['mean']:.1f}",
            (min(found["mean"] + found["deviation"], 100.0), place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            bbox={"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none"},
            zorder=4,
        )
    retrained = find(entries, RETRAINED)
    if retrained is not None and retrained[name]:
        axes.axvline(retrained[name]["mean"], color="#333333", lw=1, ls="--", zorder=3)
    axes.grid(axis="x", color="#dddddd", lw=0.6)
    axes.set_axisbelow(True)
    highest = max((x[name]["mean"] + x[name]["deviation"] for x in entries if x[name]), default=0)
    axes.set_xlim(0, 1.13 * min(100.0, max(highest, 1.0)))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _names(entries: list[dict[str, Any]]) -> list[str]:
    """Return a name a row; a tuned method stands below the default one, with the changes."""
    names, above = [], ""
    for entry in entries:
        name = short_name(entry["method"])
        names.append(f"tuned: {name.removeprefix(above).strip()}" if entry["tuned"] else name)
        above = above if entry["tuned"] else name
    return names
