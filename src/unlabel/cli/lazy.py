"""A tree of commands whose modules are imported when a command is invoked, and not before.

The list of commands is a table, so that `unlabel --help` imports none of them: PyTorch alone takes
longer to import than most commands take to run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from unlabel.cli.interrupts import UNKNOWN, on_interrupt


@dataclass(frozen=True)
class Listed:
    """A command as the help of its group lists it.

    name   as it is typed
    where  its file and function, `file:function`, or `file:app` for a group of commands
    about  the first line of its own help; a test compares them
    """

    name: str
    where: str
    about: str

    def load(self) -> Any:
        """Import the command and return it."""
        file, _, attribute = self.where.partition(":")
        found = getattr(import_module(f"unlabel.cli.{file}"), attribute)
        if isinstance(found, typer.Typer):
            group = get_group(found)
            group.name = self.name
            return group
        alone = typer.Typer(add_completion=False)
        alone.command(self.name)(found)
        return get_command(alone)


class LazyGroup(TyperGroup):
    """A group that lists the commands of `table`, and imports one when it is invoked."""

    table: ClassVar[Sequence[Listed]] = ()

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._listed = {each.name: each for each in self.table}
        self._loaded: dict[str, Any] = {}
        for each in self.table:
            self.add_command(TyperCommand(name=each.name, help=each.about))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that the words name, imported, and the words that are left."""
        name, command, rest = super().resolve_command(ctx, args)
        if name in self._listed:
            if name not in self._loaded:
                self._loaded[name] = self._listed[name].load()
            command = self._loaded[name]
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an interrupt leaves as `Interrupted`, which Typer lets pass."""
        with on_interrupt(UNKNOWN):
            return super().invoke(ctx)
