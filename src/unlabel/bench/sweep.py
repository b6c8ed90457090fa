"""Tuning with the same effort for all: a method's sweep, judged on validation rows of one seed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unlabel.bench.measures import read_method
from unlabel.bench.records import read_lines
from unlabel.bench.trials import Trials
from unlabel.errors import SettingsError
from unlabel.forget.method import SWEEP, settings_of

#: The share of forgotten rows still recognised, up to which a label counts as forgotten.
GONE = 0.01


def candidates(base: str) -> list[str]:
    """Return the settings that are tried for a method, by name; the method itself comes first."""
    start = read_method(base)
    found = [base]
    before = settings_of(start)
    for other in start.sweep()[:SWEEP]:
        changes = {k: v for k, v in settings_of(other).items() if v != before[k]}
        if changes:
            found.append(":".join([base, *(f"{k}={_word(v)}" for k, v in changes.items())]))
    return found if len(found) > 1 else []


def choose(lines: Sequence[dict[str, Any]]) -> str | None:
    """Return the best candidate's name.

    Among those that forget (y_u of 1 % at most) the one with the highest D_r; where none does,
    the one with the lowest y_u, and of several such that with the highest D_r. The first of equals.
    """
    whole = [x for x in lines if x.get("retained") is not None and x.get("forgotten") is not None]
    gone = [line for line in whole if line["forgotten"] <= GONE]
    if gone:
        return str(max(gone, key=lambda x: x["retained"])["method"])
    if whole:
        return str(min(whole, key=lambda x: (x["forgotten"], -x["retained"]))["method"])
    return None


def sweep(trials: Trials, base: str) -> dict[str, Any] | None:
    """Try a method's candidates and keep the choice; None where there is none, or no time."""
    names = candidates(base)
    lines = [line for name in names if (line := trials.judge(name)) is not None]
    if not names or len(lines) < len(names):
        return None
    chosen = choose(lines) or base
    words = chosen.removeprefix(base).lstrip(":")
    key = {"kind": "choice", "request": trials.request, "method": base, "candidates": names}
    found = trials.records.find(**key)
    if found is not None and found["words"] == words:
        return found
    return trials.records.add(**key, words=words, chosen=chosen)


def choices_of(path: str, methods: Sequence[str]) -> list[dict[str, Any]]:
    """Return for each method that has a sweep what was chosen in the records of another bench."""
    lines, _ = read_lines(Path(path))
    words = {_plain(x["method"]): x["words"] for x in lines if x.get("kind") == "choice"}
    found = []
    for base in methods:
        names = candidates(base)
        if not names:
            continue
        if _plain(base) not in words:
            raise SettingsError(
                f"Records '{path}' have no choice for method '{base}'; run the bench they are of "
                f"with tuned=true, or leave the method out."
            )
        chosen = ":".join(part for part in (base, words[_plain(base)]) if part)
        found.append({"method": base, "chosen": chosen, "words": words[_plain(base)]})
    return found


def _plain(name: str) -> str:
    """Return a method's name without its preset, which belongs to one dataset and request."""
    head, *words = name.split(":")
    return ":".join([head.partition("@")[0], *words])


def _word(value: object) -> str:
    """Return a value as it is written in words."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(_word, value)) if isinstance(value, tuple) else str(value)
