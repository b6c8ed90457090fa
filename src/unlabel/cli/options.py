"""Flags shared by the verbs, and how they become a run's configuration."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unlabel.config import AUTO, RunConfig
from unlabel.config.loader import parse_run, plain_settings, read_yaml
from unlabel.errors import RunError, UsageError

#: Settings that `auto` stands for until a run begins, and that it then names.
RESOLVED = ("train.epochs", "train.patience", "label_free.objective")


def parse_parties(text: str) -> int | list[int] | dict[str, int]:
    """Read `--parties`: how many, the width of each, or widths by name.

    >>> parse_parties("2"), parse_parties("20,8"), parse_parties("left=10,right=18")
    (2, [20, 8], {'left': 10, 'right': 18})
    """
    try:
        if "=" in text:
            pairs = [part.partition("=") for part in text.split(",")]
            widths = {name.strip(): int(width) for name, _, width in pairs}
            if len(widths) < len(pairs):
                raise ValueError("a name stands there twice")
            return widths
        if "," in text:
            return [int(part) for part in text.split(",")]
        return int(text)
    except ValueError as error:
        raise UsageError(
            f"Expected `--parties` like 2, 20,8 or left=10,right=18, each name once, "
            f"but got '{text}'."
        ) from error


def parse_options(words: Sequence[str]) -> dict[str, Any] | None:
    """Read every `--top-option`: a name and a number, true, false, null or text; None if none.

    >>> parse_options(["max_iter=200", "early_stopping=true", "solver=saga"])
    {'max_iter': 200, 'early_stopping': True, 'solver': 'saga'}
    """
    options: dict[str, Any] = {}
    for word in words:
        name, equals, text = (part.strip() for part in word.partition("="))
        if not equals or not name or not text or name in options:
            raise UsageError(
                f"Expected `--top-option` like max_iter=200, each name once, but got '{word}'."
            )
        try:
            options[name] = json.loads(text)
        except ValueError:
            options[name] = text
    return options or None


def make_config(file: Path | None, flags: dict[str, Any]) -> RunConfig:
    """Join the configuration file with the flags, which win; `train.lr` names a nested setting."""
    raw = read_yaml(file) if file is not None else {}
    for name, value in flags.items():
        *path, last = name.split(".")
        holder = raw
        for key in path:
            holder = holder.setdefault(key, {}) if isinstance(holder, dict) else None
        # Where the file has no mapping, the check below says so.
        if value is not None and isinstance(holder, dict):
            holder[last] = value
    if file is None:
        return parse_run(raw, "flags").under(Path.cwd())
    return parse_run(raw, str(file)).under(file.resolve().parent)


def expect_same(wanted: RunConfig, kept: RunConfig, folder: Path) -> None:
    """Raise where a run is to be resumed with settings other than its own."""
    wanted_flat, kept_flat = _flat(plain_settings(wanted)), _flat(plain_settings(kept))
    for name in sorted(wanted_flat.keys() | kept_flat.keys()):
        wish, have = wanted_flat.get(name), kept_flat.get(name)
        # A kept run names the columns that `rest` stood for, the epochs and the objective that
        # `auto` stood for, where it was started, and whose keys its first certificate met.
        met = name.startswith("trust.") and wish is None
        auto = name in RESOLVED and wish == AUTO
        resolved = name == "code" or met or auto or (name.endswith("features") and wish == "rest")
        if wish != have and not resolved:
            raise RunError(
                f"Run '{folder}' was made with {name} = {have}, not {wish}; resume it with its own "
                f"settings, or choose another --out."
            )


def _flat(raw: Any, prefix: str = "") -> dict[str, Any]:
    settings: dict[str, Any] = {}
    items = raw.items() if isinstance(raw, dict) else enumerate(raw)
    for key, value in items:
        name = f"{prefix}{key}"
        whole = name.endswith(("features", "serves", "parties"))
        if isinstance(value, dict | list) and not whole:
            settings |= _flat(value, f"{name}.")
        else:
            settings[name] = value
    return settings
