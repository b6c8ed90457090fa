"""The lines of a bench of robustness as means over seeds, as a table, and as a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from unlabel.bench.comparison_table import markdown, where
from unlabel.bench.measures import spread
from unlabel.bench.pictures import labels_in_words, short_name
from unlabel.bench.robustness import ANY, RobustnessSettings, about
from unlabel.bench.robustness_picture import draw
from unlabel.files import write_atomically

#: Figures of a line, as shares, and their heads in tables.
FIGURES = {
    "retained": "D_r",
    "forgotten": "y_u",
    "asr": "ASR",
    "probe_linear": "linear probe",
    "probe_nearest": "nearest probe",
    "confidence": "confidence",
    "agreement": "agreement",
}
MEANINGS = (
    "D_r and y_u are the accuracies on test rows of the labels that stay and of the forgotten "
    "ones, ASR the share of forgotten training rows that an attack calls members (that of "
    "`retrain` is the aim), the probes what can still be read off the embeddings; all in %."
)


def summarise(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry a group, level and method, in the order in which they first come.

    Every figure is in percent, with its deviation over seeds. `failed`, `refused` and `warned`
    count runs; a run that was refused was forced afterwards, and its figures are those.
    """
    kinds = dict.fromkeys((x.get("group", ""), x["level"], x["method"]) for x in lines)
    found = []
    for group, level, method in kinds:
        own = [
            x
            for x in lines
            if (x.get("group", ""), x["level"], x["method"]) == (group, level, method)
        ]
        done = [x for x in own if "failed" not in x]
        entry: dict[str, Any] = {"group": group, "level": level, "method": method}
        for name in FIGURES:
            entry[name] = spread([100 * x[name] for x in done if x.get(name) is not None])
        found.append(
            entry
            | {
                "runs": len(done),
                "failed": [x["failed"] for x in own if "failed" in x],
                "refused": sum(bool(x.get("refused")) for x in done),
                "warned": sum(bool(x.get("warning")) for x in done),
            }
        )
    return found


def finish(
    settings: RobustnessSettings,
    bench: str,
    title: str,
    levels: Sequence[str],
    lines: list[dict[str, Any]],
) -> dict[str, Any]:
    """Return the result of a bench, and write its page and picture where they are asked for.

    title   of the levels, as it stands in tables and below the picture
    """
    result = {
        "title": title,
        "levels": list(levels),
        "methods": list(dict.fromkeys(x["method"] for x in lines)),
        "summary": in_order(summarise(lines), levels),
        "records": lines,
        "about": about(settings, bench),
    }
    if settings.picture:
        draw(result, Path(settings.picture))
    if settings.page:
        write_atomically(Path(settings.page), page(result).encode())
    return result


def in_order(entries: list[dict[str, Any]], levels: Sequence[str]) -> list[dict[str, Any]]:
    """Return entries by group and level, those that no level changes first."""
    groups = list(dict.fromkeys(x["group"] for x in entries))
    places = [ANY, *levels]
    return sorted(entries, key=lambda x: (groups.index(x["group"]), places.index(x["level"])))


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return a row a level and method."""
    groups = {x["group"] for x in result["summary"]}
    return [
        row
        for number, group in enumerate(dict.fromkeys(x["group"] for x in result["summary"]))
        for row in _rows(result, group, every=len(groups) > 1)[bool(number) :]
    ]


def page(result: dict[str, Any]) -> str:
    """Return a page in Markdown."""
    return f"# {result['about']['bench']}\n\n{block(result)}\n"


def block(result: dict[str, Any], picture: str = "") -> str:
    """Return the figures as they stand within a page: where they are from, tables, picture."""
    told = result["about"]
    many = "one seed" if told["seeds"] == 1 else f"{told['seeds']} seeds, mean ± deviation"
    parts = [
        f"{told['data']}, {told['model']}, {told['epochs']} epochs, "
        f"{1 - told['validation']:.0%} of the training rows, {told['public']} rows a label set "
        f"aside at most, {labels_in_words(told['request'])}, {many}; {where(result)}.",
        MEANINGS,
        *([told["note"]] if told["note"] else []),
    ]
    for group in dict.fromkeys(x["group"] for x in result["summary"]):
        parts += [f"**{group}**"] if group else []
        parts.append(markdown(_rows(result, group)))
    if picture:
        parts.append(f"![{told['bench']}]({picture})")
    return "\n\n".join(parts)


def _rows(result: dict[str, Any], group: str, *, every: bool = False) -> list[list[str]]:
    """Return a head and the rows of a group, with the figures that somebody has."""
    entries = [x for x in result["summary"] if x["group"] == group]
    seen = result["summary"] if every else entries
    names = [name for name in FIGURES if any(x[name] is not None for x in seen)]
    heads = [result["title"], "model", *(FIGURES[name] for name in names), "notes"]
    return [
        heads,
        *(
            [
                x["level"],
                short_name(x["method"]),
                *(figure(x[name]) for name in names),
                _notes(x),
            ]
            for x in entries
        ),
    ]


def figure(found: dict[str, float] | None) -> str:
    """Return a mean with its deviation."""
    if found is None:
        return ""
    around = f" ± {found['deviation']:.1f}" if found["count"] > 1 else ""
    return f"{found['mean']:.1f}{around}"


def _notes(entry: dict[str, Any]) -> str:
    total = entry["runs"] + len(entry["failed"])
    counts: dict[str, Callable[[], int]] = {
        "failed": lambda: len(entry["failed"]),
        "refused": lambda: entry["refused"],
        "warned": lambda: entry["warned"] - entry["refused"],
    }
    return ", ".join(f"{word} {n} of {total}" for word, of in counts.items() if (n := of()) > 0)
