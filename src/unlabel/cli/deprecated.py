"""Flags that were renamed: they work for one version more, with a word on the new name."""

from __future__ import annotations

from typing import Any

import typer

from unlabel.cli.output import messages


def old_flag(old: str, new: str) -> Any:
    """Return a hidden switch under an old name, which says the new one where it is used."""

    def say(given: bool) -> bool:
        if given:
            messages.print(f"{old} goes with version 0.8; write {new}.", soft_wrap=True)
        return given

    return typer.Option(old, hidden=True, callback=say)
