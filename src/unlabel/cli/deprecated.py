"""Flags and words that were renamed: each works for one version more, and names the new one."""

from __future__ import annotations

from typing import Any

import typer

from unlabel.cli.output import say
from unlabel.compat import MODES, depth_name
from unlabel.errors import UsageError, unknown


def old_option(old: str, new: str) -> Any:
    """Return a hidden option under an old name, which says the new one where it is used."""

    def note(value: str | None) -> str | None:
        if value is not None:
            _goes(old, new)
        return value

    return typer.Option(old, hidden=True, callback=note)


def mode_flag(
    mode: str | None, visibility: str | None, depth: str | None
) -> tuple[str | None, str | None]:
    """Return visibility and depth, where `--mode` may have said them."""
    if mode is None:
        return visibility, depth
    if mode not in MODES:
        raise UsageError(unknown("mode", mode, MODES))
    if visibility is not None or depth is not None:
        raise UsageError("--mode says what --visibility and --depth say; leave --mode out.")
    return MODES[mode]


def depth_flag(depth: str | None) -> str | None:
    """Return a depth by its present name."""
    current: str | None = depth_name(depth)
    if current != depth:
        _goes(f"Depth '{depth}'", f"'{current}'")
    return current


def _goes(old: str, new: str) -> None:
    say(f"{old} will be removed in version 0.9; write {new}.")
