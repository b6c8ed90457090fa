"""Our figures beside the paper's: a run of an entry, or its records, in Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from unlabel.forget.settings import DEFAULT_METHOD
from unlabel_bench import markdown
from unlabel_bench.comparison.claims import aims
from unlabel_bench.markdown import FIGURES, plain_name, where
from unlabel_bench.paper.entry import STATUSES, Entry, Part
from unlabel_bench.paper.tables import (
    FEW,
    UNKNOWN,
    Printed,
    differences,
    printed,
    printed_lambda,
    printed_leakage,
)
from unlabel_bench.registry import BENCHES, Result
from unlabel_bench.summary import RETRAINED, find

COMPARISONS = ("single-label", "two-label", "four-label")
#: Methods of which a long table of clusters is shown.
CLUSTERED = ("boundary", "mixup-ascent", "renormalise")
HOLDS = {True: "holds", False: "**missed**", None: "not measured"}
NOT_RECORDED = "Not recorded."


def page(entry: Entry, result: Result) -> str:
    """Return the page of a run of an entry, small or whole."""
    parts = {part.name: part for part in entry.parts}
    texts = [
        f"# {entry.where}: {entry.title}",
        f"{'A small run' if result['small'] else 'A whole run'}, "
        f"{result['took_seconds']:.0f} seconds. {_read_from(entry)}",
    ]
    for measured_part in result["parts"]:
        name = measured_part["part"]
        part = None if result["small"] else parts.get(name)
        heading = name if part is None else f"{part.model}, {part.ours or part.theirs}"
        texts.append(f"## {heading}")
        texts += figures(part, measured_part["bench"], measured_part["result"])
    return markdown.page(*texts)


def section(entry: Entry, records: Mapping[str, Result]) -> str:
    """Return the section of an entry: each part that is recorded, beside the paper.

    records  what was measured, by the path of its file; other files are not there
    """
    texts = [
        f"## {entry.where}: {entry.title}",
        f"`unlabel bench paper {entry.name}`: **{entry.status()}** ({STATUSES[entry.status()]}). "
        f"{_read_from(entry)}",
    ]
    for part in entry.parts:
        texts += [f"### {entry.name}, {part.name}", _about(part)]
        if part.record in records:
            texts += _recorded(part, records[part.record])
        elif not part.record.endswith(".md"):
            texts.append(NOT_RECORDED if part.record else _why_not(part))
    return "\n\n".join(texts)


def _read_from(entry: Entry) -> str:
    return f"What the paper reads from it: {entry.claim} {entry.differs}".strip()


def _about(part: Part) -> str:
    theirs = f"The paper: {part.model} on {part.theirs}."
    link = f" [`{part.record}`](../{part.record})." if part.status != "small only" else ""
    ours = "the same" if part.ours == part.theirs else part.ours
    return f"{theirs} Here: {ours or 'nothing yet'} ({part.status}).{link}"


def _why_not(part: Part) -> str:
    return f"Not recorded: it needs {part.wanted}." if part.wanted else NOT_RECORDED


def measured(record: Result) -> tuple[str, Result]:
    """Return the bench of a record and what it found, whichever way it was run."""
    if "parts" in record:
        part = record["parts"][0]
        return part["bench"], part["result"]
    return record["bench"], record


def _recorded(part: Part, record: Result) -> list[str]:
    bench, result = measured(record)
    texts = figures(part, bench, result)
    if bench in COMPARISONS and any(plain_name(x) == DEFAULT_METHOD for x in result["methods"]):
        texts.append(aims_in_words(part, result))
    return [*texts, provenance_in_words(record, result)]


def figures(part: Part | None, bench: str, result: Result) -> list[str]:
    """Return what a bench found, beside the paper's figures where it prints some."""
    special: dict[str, Callable[[Part | None, Result], list[str]]] = {
        "process-privacy": _leakage,
        "label-clusters": _clusters,
        "paper-layers": _layers,
        **dict.fromkeys(COMPARISONS, _comparison),
    }
    if bench in special:
        return special[bench](part, result)
    return [markdown.table(BENCHES.get(bench).table(result))]


def _comparison(part: Part | None, result: Result) -> list[str]:
    """Return a row a method that is not tuned, and why figures on the same data differ."""
    entries = [entry for entry in result["summary"] if not entry["tuned"]]
    theirs = {entry["method"]: _printed(part, entry["method"]) for entry in entries}
    beside = any(theirs.values())
    heads = ["method"]
    for name in FIGURES.values():
        heads += [name, f"{name}, paper"] if beside else [name]
    rows = [heads]
    for entry in entries:
        cells = [f"`{entry['method']}`"]
        for name in FIGURES:
            shown = markdown.figure(entry[name]) if entry["runs"] else "failed"
            cells += [shown, str(theirs[entry["method"]].get(name, ""))] if beside else [shown]
        rows.append(cells)
    texts = [markdown.table(rows)]
    if beside and part is not None:
        texts += _differing(part, result, theirs)
    return texts


def _differing(
    part: Part, result: Result, theirs: Mapping[str, Mapping[str, Printed]]
) -> list[str]:
    if part.possible == "real data, small form":
        return [
            "The model and the training are smaller than the paper's, so only the order counts."
        ]
    if part.possible != "reproduced":
        return [f"The data are others than the paper's ({part.theirs}), so only the order counts."]
    lines = differences(result, theirs)
    if not lines:
        return [f"All within {FEW:g} points of the paper's."]
    return [f"By more than {FEW:g} points apart:", "\n".join(lines)]


def _printed(part: Part | None, method: str) -> Mapping[str, Printed]:
    if part is None:
        return {}
    if part.table is None:
        return printed_lambda(method)
    # What is run at other settings than the paper's has nothing to stand beside.
    return printed(*part.table, plain_name(method)) if ":" not in method else {}


def aims_in_words(part: Part, result: Result) -> str:
    """Return whether the aims hold for our default method, and why not where they do not."""
    judged = aims(result["summary"])
    lines = [f"{HOLDS[aim.holds]}: {aim.sentence}" for aim in judged]
    if any(aim.holds is False for aim in judged):
        lines.append(f"why: {part.reason or UNKNOWN}")
        names = [x["method"] for x in result["summary"] if not x["tuned"] and not x["control"]]
        others = [n for n in names if all(a.holds for a in aims(result["summary"], n))]
        kept = ", ".join(f"`{n}`" for n in others if plain_name(n) not in ("original", RETRAINED))
        lines.append(f"all three hold for: {kept or 'no method'}")
    ours = find(result["summary"], DEFAULT_METHOD)
    assert ours is not None  # the caller looked
    return f"Aims of `{ours['method']}`:\n\n" + markdown.bullets(lines)


def _leakage(part: Part | None, result: Result) -> list[str]:
    """Return the share of the nearest private rows that are of the label."""
    data = part.table[2] if part and part.table else ""
    rows = [["method", "of the label among its k nearest private rows, %", "paper, %"]]
    for entry in result["summary"]:
        name = plain_name(entry["method"])
        if name == "original":
            continue
        share = entry["rows"].get("members")
        theirs = printed_leakage(data, name)
        why_none = {"retrain": "all rows are named"}.get(name, "no such samples are asked for")
        shown = markdown.number(share, scale=100, missing=why_none)
        rows.append([f"`{entry['method']}`", shown, "" if theirs is None else f"{theirs.mean:g}"])
    return [markdown.table(rows)]


def _layers(part: Part | None, result: Result) -> list[str]:  # noqa: ARG001 - as the others
    requests = [["labels at once", "the paper's datasets: labels"], *result["requests"]]
    layers = BENCHES.get("paper-layers").table(result)
    return [markdown.table(layers), markdown.table(requests)]


def _clusters(part: Part | None, result: Result) -> list[str]:
    rows = BENCHES.get("label-clusters").table(result)
    shown = [row for row in rows[1:] if part is None or plain_name(row[0]) in CLUSTERED]
    return [markdown.table([rows[0], *shown])]


def provenance_in_words(record: Result, result: Result) -> str:
    """Return machine, versions, commit and command of a record."""
    place = where(result) if any("where" in x for x in result.get("records", ())) else ""
    if not place:
        machine = record["machine"]
        about = result.get("about", {})
        if record.get("settings", {}).get("device") == "cuda" and not machine.get("gpu"):
            # Drawn anew elsewhere, from lines that do not say where they were measured.
            return f"{about['note']} `{command_of(record)}`."
        device = machine.get("gpu") or f"{machine['system']}, {machine['threads']} thread"
        place = f"{device}, torch {record['versions']['torch']}, commit {record['commit'][:12]}"
    seeds = _seeds(record.get("settings", {}), result.get("summary", ()))
    return f"Measured: {seeds}{place}; `{command_of(record)}`."


def command_of(record: Result) -> str:
    """Return the command of a record, without the files it wrote and what it noted.

    >>> command_of({"command": "unlabel bench runtime --set page=a.md note=Two ran. epochs=2"})
    'unlabel bench runtime epochs=2'
    """
    command = record.get("command") or " && ".join(record.get("commands", ()))
    command = re.sub(r" (--set )?(page|picture|records|kept)=\S+", "", command)
    command = re.sub(r" (--set |--)?note[= ].*?(?= [a-z_]+=| --|$)", "", command)
    return re.sub(r" --out \S+", "", command)


def _seeds(settings: Mapping[str, Any], summary: Sequence[Mapping[str, Any]]) -> str:
    """Return how many seeds were run; from how many to how many where methods differ in it."""
    runs = {x["runs"] + len(x["failed"]) for x in summary if "failed" in x and "tuned" in x}
    if len(runs) > 1:
        return f"{min(runs)} to {max(runs)} seeds a method; "
    seeds = settings.get("seeds")
    if isinstance(seeds, Sequence):
        return f"seeds {', '.join(map(str, seeds))}; "
    return f"{seeds} seed{'' if seeds == 1 else 's'}; " if seeds else ""
