"""A comparison for people: rows for the terminal, and a page in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unlabel.bench.comparison_summary import plain_name
from unlabel.bench.paper_differences import FEW, differences
from unlabel.bench.paper_tables import CITATION, Printed, printed

FIGURES = {"retained": "D_r", "forgotten": "y_u", "asr": "ASR"}
PROBES = {"residual_linear": "linear", "residual_nearest": "nearest"}


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the means as rows for people; deviations and more stand in the page."""
    shown = {**FIGURES, "residual_linear": "linear"}
    shown = {k: v for k, v in shown.items() if any(entry[k] for entry in result["summary"])}
    rows = [["method", *shown.values(), "seconds", "needs", "rows are"]]
    for entry in result["summary"]:
        cells = [f"{entry[name]['mean']:.2f}" if entry[name] else "" for name in shown]
        rows.append(
            [
                # Which settings were chosen is told in the page.
                "  tuned" if entry["tuned"] else plain_name(entry["method"]),
                *(cells if entry["runs"] else ["failed", *cells[1:]]),
                _seconds(entry),
                entry["needs"] or "",
                told(entry).removeprefix("rows ").partition(" ")[0],
            ]
        )
    return rows


def told(entry: dict[str, Any]) -> str:
    """Return in few words what a method tells the passive parties about the label's rows."""
    if entry["names_rows"] is None:
        return ""
    if entry["names_rows"]:
        return "rows named"
    if entry["shows_rows"]:
        return "rows shown by gradients"
    return "rows hidden among others" if entry["tells"]["rows"] else "nothing"


def page(result: dict[str, Any]) -> str:
    """Return the page."""
    about = result["about"]
    labels = result["request"].split("+")
    theirs = {
        entry["method"]: printed(len(labels), about["model"], about["data"], _name(entry))
        for entry in result["summary"]
        if not entry["tuned"]
    }
    parts = [
        f"# Forgetting {'labels' if len(labels) > 1 else 'label'} {', '.join(labels)}",
        f"{about['data']}, {about['model']}, {about['parties']} passive parties, "
        f"{about['epochs']} epochs, {about['seeds']} seeds; {where(result)}. Mean and standard "
        f"deviation over seeds. D_r: accuracy on test rows of the other labels; y_u: on those of "
        f"the forgotten ones; ASR: forgotten rows that the membership attack calls members, whose "
        f"aim is the retrained model's. Linear and nearest: what probes still find in the "
        f"embeddings, 1 as in the original and 0 as in a retrained model. {_times(about)}",
        markdown(_rows(result, theirs)),
        f"*Paper* is what stands in: {CITATION}. Its own method stands beside `mixup-ascent`, its "
        f"baseline beside the original."
        if any(theirs.values())
        else "The paper has no figures for this dataset, model and number of labels.",
        *_failures(result),
        *_differences(result, theirs),
        "## What it shows",
        "\n".join(
            f"- {_HOLDS[claim['holds']]}: {claim['sentence']}"
            for claim in result["headline"].values()
        ),
        *_sweeps(result),
    ]
    return "\n\n".join(parts) + "\n"


_HOLDS = {True: "holds", False: "**does not hold**", None: "not measured"}


def _rows(result: dict[str, Any], theirs: dict[str, dict[str, Printed]]) -> list[list[str]]:
    beside = any(theirs.values())
    heads = ["method"]
    for name in FIGURES.values():
        heads += [name, "paper"] if beside else [name]
    heads += ["ASR over retrained", *PROBES.values(), "seconds", "bytes", "needs"]
    rows = [[*heads, "partners are told"]]
    for entry in result["summary"]:
        cells = [f"`{entry['method']}`" + (", tuned" if entry["tuned"] else "")]
        for figure, name in FIGURES.items():
            cells.append(with_spread(entry[figure]))
            if beside:
                cells.append(str(theirs.get(_key(entry), {}).get(name, "")))
        cells.append(with_spread(entry["asr_over_retrained"], signed=True))
        cells += [with_spread(entry[name]) for name in PROBES]
        rows.append([*cells, _seconds(entry), _bytes(entry), entry["needs"] or "", told(entry)])
    return rows


def _name(entry: dict[str, Any]) -> str:
    return plain_name(entry["method"])


def _key(entry: dict[str, Any]) -> str:
    return "" if entry["tuned"] else str(entry["method"])


def _times(about: dict[str, Any]) -> str:
    if about.get("repeats", 1) == 1:
        return "Seconds are of the first request on a model, warming up included."
    return "Requests of a few seconds are made again, and the seconds of the last count."


def where(result: dict[str, Any]) -> str:
    """Return the machines, versions and commits that the figures come from."""
    places = [x["where"] for x in result["records"] if "where" in x]
    # In the order of their first figure, each once.
    found = dict.fromkeys(
        f"{place['device']}, torch {place['torch']}, commit {place['commit'][:12]}"
        for place in places
    )
    return " and ".join(found) or "nothing measured yet"


def _differences(result: dict[str, Any], theirs: dict[str, dict[str, Printed]]) -> list[str]:
    lines = differences(result, theirs, FIGURES)
    title = f"## Where ours differ from the paper's by more than {FEW:g} points"
    return [title, "\n".join(lines)] if lines else []


def _failures(result: dict[str, Any]) -> list[str]:
    lines = [
        f"- `{entry['method']}` failed {len(entry['failed'])} times: {entry['failed'][0]}"
        for entry in result["summary"]
        if entry["failed"]
    ]
    return ["\n".join(lines)] if lines else []


def _sweeps(result: dict[str, Any]) -> list[str]:
    if not result["choices"]:
        return []
    rows = [["method", "chosen", "tried: D_r and y_u on validation rows"]]
    for choice in result["choices"]:
        tried = "; ".join(_tried(x, choice["method"]) for x in choice["candidates"])
        chosen = "published" if choice["published_won"] else _words(choice["chosen"], choice)
        rows.append([f"`{choice['method']}`", chosen, tried or "elsewhere"])
    text = (
        "Of the settings with y_u of 1 % or less the one with the highest D_r is chosen, else the "
        "one with the lowest y_u; on validation rows of seed 0."
    )
    return ["## Tuned settings", text, markdown(rows)]


def _words(name: str, choice: dict[str, Any]) -> str:
    return name.removeprefix(choice["method"]).lstrip(":").replace(":", " ")


def _tried(line: dict[str, Any], base: str) -> str:
    what = _words(line["method"], {"method": base}) or "published"
    if "failed" in line or line["retained"] is None or line["forgotten"] is None:
        return f"{what}: failed"
    return f"{what}: {100 * line['retained']:.2f}, {100 * line['forgotten']:.2f}"


def with_spread(found: dict[str, float] | None, *, signed: bool = False) -> str:
    """Return a figure with its deviation.

    >>> with_spread({"mean": 1.0, "deviation": 0.25}, signed=True)
    '+1.00 ± 0.25'
    """
    if found is None:
        return ""
    return f"{found['mean']:{'+' if signed else ''}.2f} ± {found['deviation']:.2f}"


def _seconds(entry: dict[str, Any]) -> str:
    return f"{entry['seconds']['mean']:.3g}" if entry["seconds"] else ""


def _bytes(entry: dict[str, Any]) -> str:
    return f"{entry['bytes']['mean']:,.0f}" if entry["bytes"] else ""


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a table in Markdown, the first as its head."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * len(rows[0])}", *lines[1:]])
