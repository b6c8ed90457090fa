"""Pages and tables in Markdown, and figures and names as they stand in them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import floor, log10
from pathlib import Path
from typing import Any

from unlabel.files import write_atomically

#: What a request is judged by, as tables and pages name it.
FIGURES = {
    "retained": "retained accuracy",
    "forgotten": "forgotten accuracy",
    "asr": "membership attack",
}
#: The same where a table has 80 columns.
SHORT = {"retained": "kept", "forgotten": "left", "asr": "attack"}
#: The paper's symbols, which records before 0.8 use in their sentences.
SYMBOLS = {"D_r": "retained", "y_u": "forgotten", "ASR": "asr"}
#: What the figures are, with the paper's symbols once.
DEFINITIONS = (
    "Retained accuracy (D_r in the paper): on test rows of the other labels; forgotten accuracy "
    "(y_u): on those of the forgotten ones; membership attack (ASR): forgotten rows that it calls "
    "members"
)


def in_words(text: str) -> str:
    """Return a sentence of a record with words in place of the paper's symbols.

    >>> in_words("`hidden` has D_r 90.10 at y_u 0.00.")
    '`hidden` has retained accuracy 90.10 at forgotten accuracy 0.00.'
    """
    return re.sub(r"\b(D_r|y_u|ASR)\b", lambda match: FIGURES[SYMBOLS[match[1]]], text)


def write_page(path: Path, text: str) -> bool:
    """Write a page unless it says so already; return whether it was written."""
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return False
    write_atomically(path, text.encode())
    return True


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a table, the first as its head."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], f"|{' --- |' * len(rows[0])}", *lines[1:]])


def page(*parts: str) -> str:
    """Return paragraphs, headings and tables as a page; what is empty is left out."""
    return "\n\n".join(filter(None, parts)) + "\n"


def bullets(lines: Sequence[str]) -> str:
    """Return lines as a list."""
    return "\n".join(f"- {line}" for line in lines)


def figure(
    spread: Mapping[str, float] | None, digits: int = 2, *, scale: float = 1, signed: bool = False
) -> str:
    """Return a mean with its deviation, where it is of more than one value.

    >>> figure({"mean": 1.0, "deviation": 0.25}, signed=True)
    '+1.00 ± 0.25'
    """
    if spread is None:
        return ""
    mean = f"{scale * spread['mean']:{'+' if signed else ''}.{digits}f}"
    # Recorded summaries from before have no count; they are of three seeds.
    several = spread.get("count", 2) > 1
    return f"{mean} ± {scale * spread['deviation']:.{digits}f}" if several else mean


def seconds(spread: Mapping[str, float] | None) -> str:
    """Return seconds of three digits, and their deviation to the same place.

    >>> seconds({"mean": 0.2841, "deviation": 0.1})
    '0.284 ± 0.100'
    """
    if spread is None:
        return ""
    places = max(0, 2 - floor(log10(spread["mean"]))) if spread["mean"] > 0 else 3
    return figure(spread, places)


def interval(ends: Mapping[str, float] | None, digits: int = 3, *, scale: float = 1) -> str:
    """Return a value with its interval.

    >>> interval({"value": 0.5, "low": 0.25, "high": 0.75}, 2)
    '0.50 (0.25 to 0.75)'
    """
    if not ends:
        return ""
    value = ends["value"] if "value" in ends else ends["mean"]
    value, low, high = (f"{scale * x:.{digits}f}" for x in (value, ends["low"], ends["high"]))  # type: ignore[assignment]
    return f"{value} ({low} to {high})"


def number(value: float | None, digits: int = 2, *, scale: float = 1, missing: str = "") -> str:
    """Return a number, or what stands for one that was not measured."""
    return missing if value is None else f"{scale * value:.{digits}f}"


def labels_in_words(request: str) -> str:
    """Return the labels of a request for people.

    >>> labels_in_words("0"), labels_in_words("0+2")
    ('label 0', 'labels 0, 2')
    """
    return f"{'labels' if '+' in request else 'label'} {request.replace('+', ', ')}"


def counted(count: int, what: str) -> str:
    """Return a count in words.

    >>> counted(1, "seed"), counted(3, "label")
    ('1 seed', '3 labels')
    """
    return f"{count} {what}{'s' * (count != 1)}"


def over_seeds(count: int, several: str = "{} seeds, mean ± deviation") -> str:
    """Return over how many seeds figures are taken."""
    return "one seed" if count == 1 else several.format(count)


def plain_name(name: str) -> str:
    """Return a method's name without preset and settings.

    >>> plain_name("mixup-ascent@resnet18-cifar10:epochs=3")
    'mixup-ascent'
    """
    return name.partition(":")[0].partition("@")[0]


def short_name(name: str) -> str:
    """Return a method's name without its preset, which the title names.

    >>> short_name("mixup-ascent@resnet18-cifar10:lr=0.001")
    'mixup-ascent lr=0.001'
    """
    head, *words = name.split(":")
    return " ".join([head.partition("@")[0], *words])


def where(result: Mapping[str, Any]) -> str:
    """Return the machines, versions and commits that figures come from, each once."""
    places = dict.fromkeys(
        f"{x['where']['device']}, torch {x['where']['torch']}, "
        f"commit {short_commit(x['where']['commit'])}"
        for x in result["records"]
        if "where" in x
    )
    return " and ".join(places) or "nothing measured yet"


def short_commit(name: str) -> str:
    """Return a commit in short; that its source had been changed is not left out."""
    head, _, changes = name.partition(" ")
    return f"{head[:12]} {changes}".strip()
