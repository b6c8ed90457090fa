"""`unlabel bench`: measurements with a name, from `unlabel_bench` where that is installed."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated

import typer

from unlabel.bench import ABSENT
from unlabel.errors import UsageError


def bench(
    words: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,  # noqa: ARG001
) -> None:
    """Measure; see `unlabel bench list`."""
    raise UsageError(ABSENT)


def _commands() -> typer.Typer | None:
    """Return the commands of the bench; None where it is not installed, or not any more."""
    for entry in entry_points(group="unlabel.commands", name="bench"):
        try:
            commands: typer.Typer = entry.load()
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "unlabel_bench":
                raise
        else:
            return commands
    return None


app = _commands()
