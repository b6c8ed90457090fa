"""A comparison for people: rows for the terminal, and a page in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10
from typing import Any

from unlabel.bench.comparison_summary import plain_name
from unlabel.bench.paper_differences import FEW, differences
from unlabel.bench.paper_tables import CITATION, Printed, printed
from unlabel.bench.pictures import labels_in_words, short_name
from unlabel.bench.trials import LONG

FIGURES = {"retained": "D_r", "forgotten": "y_u", "asr": "ASR"}
LEARNED = "partners learn"
PROBES = {"residual_linear": "linear", "residual_nearest": "nearest"}


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the means as rows of 80 columns; deviations, probes and more stand in the page."""
    rows = [["method", *FIGURES.values(), "s", "needs", LEARNED]]
    for entry in result["summary"]:
        cells = [_percent(entry[name]) for name in FIGURES]
        rows.append(
            [
                # Which settings were chosen is told in the page.
                "  tuned" if entry["tuned"] else short_name(entry["method"]),
                *(cells if entry["runs"] else ["failed", *cells[1:]]),
                _briefly(entry["seconds"]),
                entry["needs"] or "",
                _learned(entry),
            ]
        )
    return rows


def told(entry: dict[str, Any]) -> str:
    """Return in few words what the passive parties learn of the label's rows, or of its samples.

    A method that asks for public samples alone tells of these, and of no training rows.
    """
    if entry["names_rows"] is None:
        return ""
    rows = entry["tells"]["rows"]
    asked = set(rows) <= {"public"} and not entry["names_rows"]
    if asked and not entry["tells"]["gradients"]:  # the same samples whatever the label
        return "nothing"
    what = "samples" if set(rows) <= {"public"} else "rows"
    if entry["names_rows"]:
        return f"{what} named"
    return f"{what} shown by gradients" if entry["shows_rows"] else f"{what} among others"


def _learned(entry: dict[str, Any]) -> str:
    """Return the same as wide as the column's heading; of rows or samples where that fits."""
    text = told(entry).replace("shown ", "")
    return text if len(text) <= len(LEARNED) else text.partition(" ")[2]


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
        f"# Forgetting {labels_in_words(result['request'])}",
        f"{about['data']}, {about['model']}, {about['parties']} passive parties, "
        f"{about['epochs']} epochs, {_seeds(result)} D_r: accuracy on test rows of the other "
        f"labels; y_u: on those of the forgotten ones; ASR: forgotten rows that the "
        f"membership attack calls members, whose aim is the retrained model's. Linear and nearest: "
        f"what probes still find in the embeddings, 1 as in the original and 0 as in a retrained "
        f"model, empty where original and retrained are too near to tell. {times(about)}",
        *([about["note"]] if about.get("note") else []),
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
    rows = [[*heads, LEARNED]]
    for entry in result["summary"]:
        cells = [f"`{entry['method']}`" + (", tuned" if entry["tuned"] else "")]
        for figure, name in FIGURES.items():
            cells.append(with_spread(entry[figure]))
            if beside:
                cells.append(str(theirs.get(_key(entry), {}).get(name, "")))
        cells.append(with_spread(entry["asr_over_retrained"], signed=True))
        cells += [with_spread(entry[name]) for name in PROBES]
        seconds = seconds_with_spread(entry["seconds"])
        rows.append([*cells, seconds, _bytes(entry), entry["needs"] or "", told(entry)])
    return rows


def _name(entry: dict[str, Any]) -> str:
    return plain_name(entry["method"])


def _key(entry: dict[str, Any]) -> str:
    return "" if entry["tuned"] else str(entry["method"])


def times(about: dict[str, Any]) -> str:
    """Return of which request the seconds are."""
    if about.get("repeats", 1) == 1:
        return "Seconds are of the first request on a model, warming up included."
    return (
        f"A request is made {about['repeats']} times, or until one takes more than {LONG:g} "
        f"seconds, and the seconds of the last count."
    )


def where(result: dict[str, Any]) -> str:
    """Return the machines, versions and commits that the figures come from."""
    places = [x["where"] for x in result["records"] if "where" in x]
    # In the order of their first figure, each once.
    found = dict.fromkeys(
        f"{place['device']}, torch {place['torch']}, commit {_commit(place['commit'])}"
        for place in places
    )
    return " and ".join(found) or "nothing measured yet"


def _commit(name: str) -> str:
    """Return a commit in short; that its source had been changed is not left out."""
    head, _, changes = name.partition(" ")
    return f"{head[:12]} {changes}".strip()


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
        chosen = "default" if choice["published_won"] else _words(choice["chosen"], choice)
        rows.append([f"`{choice['method']}`", chosen, tried or "elsewhere"])
    text = (
        "Of the settings with y_u of 1 % or less the one with the highest D_r is chosen, else the "
        "one with the lowest y_u; on validation rows of seed 0."
    )
    return ["## Tuned settings", text, markdown(rows)]


def _words(name: str, choice: dict[str, Any]) -> str:
    return name.removeprefix(choice["method"]).lstrip(":").replace(":", " ")


def _tried(line: dict[str, Any], base: str) -> str:
    what = _words(line["method"], {"method": base}) or "default"
    if "failed" in line or line["retained"] is None or line["forgotten"] is None:
        return f"{what}: failed"
    return f"{what}: {100 * line['retained']:.2f}, {100 * line['forgotten']:.2f}"


def with_spread(found: dict[str, float] | None, *, signed: bool = False) -> str:
    """Return a figure with its deviation, where it is of more than one seed.

    >>> with_spread({"mean": 1.0, "deviation": 0.25}, signed=True)
    '+1.00 ± 0.25'
    """
    if found is None:
        return ""
    mean = f"{found['mean']:{'+' if signed else ''}.2f}"
    return f"{mean} ± {found['deviation']:.2f}" if _several(found) else mean


def seconds_with_spread(found: dict[str, float] | None) -> str:
    """Return seconds of three digits, and their deviation to the same place.

    >>> seconds_with_spread({"mean": 0.2841, "deviation": 0.1})
    '0.284 ± 0.100'
    """
    if found is None:
        return ""
    mean = found["mean"]
    places = max(0, 2 - floor(log10(mean))) if mean > 0 else 3
    text = f"{mean:.{places}f}"
    return f"{text} ± {found['deviation']:.{places}f}" if _several(found) else text


def _several(found: dict[str, float]) -> bool:
    # Recorded summaries from before have no count; they are of three seeds.
    return found.get("count", 2) > 1


def _briefly(found: dict[str, float] | None) -> str:
    """Return seconds in five columns."""
    if found is None:
        return ""
    mean = found["mean"]
    return "<0.01" if mean < 0.01 else f"{mean:.{3 if mean < 10 else 1}f}"


def _percent(found: dict[str, float] | None) -> str:
    """Return a mean in percent in four columns."""
    if found is None:
        return ""
    return f"{found['mean']:.1f}".replace("100.0", "100")


def _seeds(result: dict[str, Any]) -> str:
    count = result["about"]["seeds"]
    if count == 1:
        return f"one seed; {where(result)}."
    return f"{count} seeds; {where(result)}. Mean and standard deviation over seeds."


def _bytes(entry: dict[str, Any]) -> str:
    return f"{entry['bytes']['mean']:,.0f}" if entry["bytes"] else ""


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a table in Markdown, the first as its head."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * len(rows[0])}", *lines[1:]])
