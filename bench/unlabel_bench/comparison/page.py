"""A comparison for people: rows for the terminal, a page in Markdown, and a picture of bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unlabel.forget.settings import DEFAULT_METHOD
from unlabel_bench import markdown
from unlabel_bench.drawing import COLOURS, GRID, Panel, Picture, Series
from unlabel_bench.markdown import (
    DEFINITIONS,
    FIGURES,
    SHORT,
    in_words,
    labels_in_words,
    plain_name,
    short_name,
    where,
)
from unlabel_bench.paper.tables import CITATION, FEW, Printed, differences, printed
from unlabel_bench.summary import RETRAINED, find
from unlabel_bench.trials import LONG

LEARNED = "partners learn"
PROBES = {"residual_linear": "linear", "residual_nearest": "nearest"}
HOLDS = {True: "holds", False: "**does not hold**", None: "not measured"}
#: What pictures say beside an axis.
AXES = {
    "retained": "D_r: accuracy on retained labels, %",
    "forgotten": "y_u: accuracy on forgotten labels, %",
    "asr": "ASR: forgotten rows called members, %",
}

Line = dict[str, Any]


def table(result: Line) -> list[list[str]]:
    """Return the means as rows of 80 columns; deviations, probes and more stand in the page."""
    rows = [["method", *SHORT.values(), "s", "needs", "disclosed"]]
    for entry in result["summary"]:
        cells = [_percent(entry[name]) for name in FIGURES]
        rows.append(
            [
                # Which settings were chosen stands in the page.
                "  tuned" if entry["tuned"] else short_name(entry["method"]),
                *(cells if entry["runs"] else ["failed", *cells[1:]]),
                _briefly(entry["seconds"]),
                entry["needs"] or "",
                _learned_in_short(entry),
            ]
        )
    return rows


def _percent(spread: Mapping[str, float] | None) -> str:
    """Return a mean in percent in four columns."""
    return f"{spread['mean']:.1f}".replace("100.0", "100") if spread else ""


def _briefly(spread: Mapping[str, float] | None) -> str:
    """Return seconds in five columns."""
    if spread is None:
        return ""
    mean = spread["mean"]
    return "<0.01" if mean < 0.01 else f"{mean:.{3 if mean < 10 else 1}f}"


def learned(entry: Line) -> str:
    """Return in few words what the passive parties learn of the label's rows, or of its samples.

    A method that asks for public samples alone tells of these, and of no training rows. One that
    asks for all rows, or for public samples, and sends no gradients tells nothing: it asks for the
    same whatever the label.
    """
    if entry["names_rows"] is None:
        return ""
    tells = entry["tells"]
    rows = set(tells["rows"])
    same = rows <= {"public"} or (
        {"forgotten", "retained"} <= rows and set(tells["messages"]) <= {"BeginRequest"}
    )
    if same and not entry["names_rows"] and not tells["gradients"]:
        return "nothing"
    what = "samples" if rows <= {"public"} else "rows"
    if entry["names_rows"]:
        return f"{what} named"
    return f"{what} shown by gradients" if entry["shows_rows"] else f"{what} among others"


def _learned_in_short(entry: Line) -> str:
    """Return the same in twelve columns; of rows or samples where that fits."""
    text = learned(entry).replace("shown ", "")
    return text if len(text) <= 12 else text.partition(" ")[2]


def page(result: Line) -> str:
    """Return the page."""
    about = result["about"]
    theirs = {
        entry["method"]: printed(
            len(result["request"].split("+")),
            about["model"],
            about["data"],
            plain_name(entry["method"]),
        )
        for entry in result["summary"]
        if not entry["tuned"]
    }
    different = differences(result, theirs)
    return markdown.page(
        f"# Forgetting {labels_in_words(result['request'])}",
        f"{about['data']}, {about['model']}, {about['parties']} passive parties, "
        f"{about['epochs']} epochs, {_seeds(result)} {DEFINITIONS}, whose aim is the "
        f"retrained model's. Linear and nearest: "
        f"what probes still find in the embeddings, 1 as in the original and 0 as in a retrained "
        f"model, empty where original and retrained are too near to tell. {times(about)}",
        in_words(about.get("note", "")),
        markdown.table(_rows(result, theirs)),
        f"*Paper* is what stands in: {CITATION}. Its own method stands beside `mixup-ascent`, its "
        f"baseline beside the original."
        if any(theirs.values())
        else "The paper has no figures for this dataset, model and number of labels.",
        markdown.bullets(
            [
                f"`{x['method']}` failed {len(x['failed'])} times: {x['failed'][0]}"
                for x in result["summary"]
                if x["failed"]
            ]
        ),
        f"## Where ours differ from the paper's by more than {FEW:g} points" if different else "",
        "\n".join(different),
        "## What it shows",
        markdown.bullets(
            [
                f"{HOLDS[claim['holds']]}: {in_words(claim['sentence'])}"
                for claim in result["headline"].values()
            ]
        ),
        *_sweeps(result),
    )


def _seeds(result: Line) -> str:
    count = result["about"]["seeds"]
    if count == 1:
        return f"one seed; {where(result)}."
    return f"{count} seeds; {where(result)}. Mean and standard deviation over seeds."


def times(about: Line) -> str:
    """Return of which request the seconds are."""
    if about.get("repeats", 1) == 1:
        return "Seconds are of the first request on a model, warming up included."
    return (
        f"A request is made {about['repeats']} times, or until one takes more than {LONG:g} "
        f"seconds: the last is warm, and the first cold where there are several."
    )


def _rows(result: Line, theirs: Mapping[str, Mapping[str, Printed]]) -> list[list[str]]:
    beside = any(theirs.values())
    heads = ["method"]
    for name in FIGURES.values():
        heads += [name, "paper"] if beside else [name]
    # Records from before have no seconds of the first of several requests.
    cold = any(entry.get("seconds_cold") for entry in result["summary"])
    times = ["seconds, cold", "seconds, warm"] if cold else ["seconds"]
    heads += [f"{FIGURES['asr']} over retrained", *PROBES.values(), *times, "bytes", "needs"]
    rows = [[*heads, LEARNED]]
    for entry in result["summary"]:
        cells = [f"`{entry['method']}`" + (", tuned" if entry["tuned"] else "")]
        known = {} if entry["tuned"] else theirs.get(entry["method"], {})
        for name in FIGURES:
            cells.append(markdown.figure(entry[name]))
            cells += [str(known.get(name, ""))] if beside else []
        cells.append(markdown.figure(entry["asr_over_retrained"], signed=True))
        cells += [markdown.figure(entry[name]) for name in PROBES]
        sent = f"{entry['bytes']['mean']:,.0f}" if entry["bytes"] else ""
        cells += [markdown.seconds(entry["seconds_cold"])] if cold else []
        cells.append(markdown.seconds(entry["seconds"]))
        rows.append([*cells, sent, entry["needs"] or "", learned(entry)])
    return rows


def _sweeps(result: Line) -> list[str]:
    if not result["choices"]:
        return []
    rows = [
        ["method", "chosen", "tried: retained accuracy and forgotten accuracy on validation rows"]
    ]
    for choice in result["choices"]:
        base = choice["method"]
        tried = "; ".join(_tried(x, base) for x in choice["candidates"])
        chosen = "default" if choice["published_won"] else _words(choice["chosen"], base)
        rows.append([f"`{base}`", chosen, tried or "elsewhere"])
    text = (
        "Of the settings with forgotten accuracy of 1 % or less the one with the highest retained "
        "accuracy is chosen, else the "
        "one with the lowest forgotten accuracy; on validation rows of seed 0."
    )
    return ["## Tuned settings", text, markdown.table(rows)]


def _words(name: str, base: str) -> str:
    return name.removeprefix(base).lstrip(":").replace(":", " ")


def _tried(line: Line, base: str) -> str:
    what = _words(line["method"], base) or "default"
    if "failed" in line or line["retained"] is None or line["forgotten"] is None:
        return f"{what}: failed"
    return f"{what}: {100 * line['retained']:.2f}, {100 * line['forgotten']:.2f}"


def picture(result: Line) -> Picture:
    """Return bars of what stays, what goes and what the attack says, a row a method."""
    entries, about = result["summary"], result["about"]
    seeds = markdown.over_seeds(about["seeds"], "mean and deviation of {} seeds")
    panels = [_panel(entries, name, number == 0) for number, name in enumerate(AXES)]
    return Picture(
        [panels],
        (15, 1.6 + 0.34 * len(entries)),
        f"{about['data']}, {about['model']}, {about['parties']} passive parties; "
        f"{labels_in_words(result['request'])} forgotten; {seeds}; dashed: the retrained model",
        options={"sharey": True},
    )


def _panel(entries: list[Line], name: str, first: bool) -> Panel:
    retrained = find(entries, RETRAINED)
    aim = retrained[name]["mean"] if retrained is not None and retrained[name] else None
    highest = max((x[name]["mean"] + x[name]["deviation"] for x in entries if x[name]), default=0)
    failed: list[Any] = [
        ("failed", (0.01, place), {"xycoords": ("axes fraction", "data"), "va": "center"})
        for place, entry in enumerate(entries)
        if not entry["runs"]
    ]
    return Panel(
        [_bar(entry, place, entry[name]) for place, entry in enumerate(entries) if entry[name]],
        xlabel=AXES[name],
        lines=[]
        if aim is None
        else [("x", aim, {"color": "#333333", "lw": 1, "ls": "--", "zorder": 3})],
        texts=[
            *failed,
            *(_value(place, entry[name]) for place, entry in enumerate(entries) if entry[name]),
        ],
        yticks=(range(len(entries)), _names(entries)) if first else None,
        ylim=(len(entries) - 0.4, -0.6) if first else None,
        xlim=(0, 1.13 * min(100.0, max(highest, 1.0))),
        grid={"axis": "x", **GRID},
        open=True,
    )


def _bar(entry: Line, place: int, spread: Mapping[str, float]) -> Series:
    ours = entry["method"].startswith(DEFAULT_METHOD)
    grey = entry["method"] == "original" or entry["control"]
    return Series(
        [spread["mean"]],
        [place],
        error=spread["deviation"] or None,
        kind="rows",
        options={
            "height": 0.68,
            "color": COLOURS[1] if ours else COLOURS[7] if grey else COLOURS[0],
            "alpha": 0.55 if entry["tuned"] else 0.9,
            "ecolor": "#333333",
            "capsize": 2,
        },
    )


def _value(place: int, spread: Mapping[str, float]) -> tuple[str, tuple[float, float], Line]:
    """Return a figure beside the end of its bar, so that small ones can be read as well."""
    end = min(spread["mean"] + spread["deviation"], 100.0)
    box = {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none"}
    options = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
    return (
        f"{spread['mean']:.1f}",
        (end, place),
        {**options, "fontsize": 8, "bbox": box, "zorder": 4},
    )


def _names(entries: list[Line]) -> list[str]:
    """Return a name a row; a tuned method stands below the default one, with the changes."""
    names, above = [], ""
    for entry in entries:
        name = short_name(entry["method"])
        names.append(f"tuned: {name.removeprefix(above).strip()}" if entry["tuned"] else name)
        above = above if entry["tuned"] else name
    return names
