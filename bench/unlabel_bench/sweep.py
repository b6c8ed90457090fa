"""Tuning with the same effort for all: a method's sweep, judged on validation rows of one seed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unlabel.errors import SettingsError
from unlabel.forget.method import settings_of
from unlabel_bench.markdown import plain_name
from unlabel_bench.measures import read_method
from unlabel_bench.records import read_lines
from unlabel_bench.trials import Trials

#: Settings that are tried for each method beside its own.
SWEEPS: dict[str, list[str]] = json.loads(
    (Path(__file__).parent / "comparison" / "sweeps.json").read_bytes()
)
#: The share of forgotten rows still recognised, up to which a label counts as forgotten.
GONE = 0.01


def candidates(base: str) -> list[str]:
    """Return the settings that are tried for a method, by name; the method itself comes first.

    They stand in `comparison/sweeps.json`: four beside the method's own, the same number for all,
    on both sides of a rate or strength that already does something. A preset is somebody's own
    setting and is not tuned.
    """
    if "@" in base:
        return []
    before = settings_of(read_method(base))
    names = [base]
    for words in SWEEPS.get(plain_name(base), ()):
        settings = settings_of(read_method(f"{base}:{words}"))
        changes = {k: v for k, v in settings.items() if v != before[k]}
        if changes:
            names.append(":".join([base, *(f"{k}={_word(v)}" for k, v in changes.items())]))
    return names if len(names) > 1 else []


def choose(lines: Sequence[dict[str, Any]]) -> str | None:
    """Return the best candidate's name.

    Among those that forget (forgotten accuracy of 1 % at most) the one with the highest retained
    accuracy; where none does, the one with the lowest forgotten accuracy, and of several such that
    with the highest retained accuracy. The first of equals.
    """
    whole = [x for x in lines if x.get("retained") is not None and x.get("forgotten") is not None]
    forgetting = [line for line in whole if line["forgotten"] <= GONE]
    if forgetting:
        return str(max(forgetting, key=lambda x: x["retained"])["method"])
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
    known = trials.records.find(**key)
    if known is not None and known["words"] == words:
        return known
    return trials.records.add(**key, words=words, chosen=chosen)


def choices_of(path: str, methods: Sequence[str]) -> list[dict[str, Any]]:
    """Return for each method that has a sweep what was chosen in the records of another bench."""
    lines, _ = read_lines(Path(path))
    words = {x["method"]: x["words"] for x in lines if x.get("kind") == "choice"}
    choices = []
    for base in methods:
        names = candidates(base)
        if not names:
            continue
        if base not in words:
            raise SettingsError(
                f"Records '{path}' have no choice for method '{base}'; run the bench they are of "
                f"with tuned=true, or leave the method out."
            )
        chosen = ":".join(part for part in (base, words[base]) if part)
        choices.append({"method": base, "chosen": chosen, "words": words[base]})
    return choices


def _word(value: object) -> str:
    """Return a value as it is written in words."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(_word, value)) if isinstance(value, tuple) else str(value)
