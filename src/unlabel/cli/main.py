"""The command `unlabel`: the table of its verbs, and what its exit status means.

A command's module is imported when the command is invoked, so that `unlabel --help` imports none:
PyTorch alone takes longer to import than most commands take to run.

Exit status: 0 done, 1 could not be done (one sentence on standard error says why and what to do),
2 the command line itself is wrong, 3 the demanded depth is not reached or a certificate does not
hold, 130 interrupted: one sentence says where things stand (see `exits`).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from unlabel._version import __version__
from unlabel.cli.exits import INTERRUPTED, status_of
from unlabel.cli.interrupts import UNKNOWN, Interrupted, on_interrupt, patient_interrupts
from unlabel.cli.noting import named_kit, noted
from unlabel.cli.output import say
from unlabel.errors import UnlabelError, at_a_terminal

#: The first line of each command's help, in the order of the help; a test compares them.
COMMANDS = {
    "demo": (
        "Train two parties on bundled data, forget a label, audit what is left; under a minute."
    ),
    "train": "Train a model between parties and keep the run in a folder.",
    "evaluate": "Show the accuracy of a run, label by label, and what is mistaken for what.",
    "predict": (
        "Predict new rows; without new rows, the run's own test rows or those of another --part."
    ),
    "serve": "Answer questions for predictions over HTTP, until Ctrl-C.",
    "export": "Write the top of a blind run to a file, signed; the next commit revokes it.",
    "desk": (
        "Open the erasure desk: requests to erase in a browser, from the demand to the letter."
    ),
    "account": "Accounts of the erasure desk.",
    "forget": "Forget a label, or the labels of people, and stage the result at every party.",
    "slots": "Make a hidden request at fixed times: the next that waits, else one about nothing.",
    "methods": "List the methods of forgetting, what each needs, and what it tells the partners.",
    "audit": (
        "Judge the staged request, or the last one committed, beside original and retrained models."
    ),
    "commit": "Make the staged request the model of every party.",
    "rollback": "Drop the staged request at every party.",
    "purge": "Remove what stems from before the last commit: checkpoints, curves, transcripts.",
    "recover": "Bring all parties together after a crash.",
    "status": "Show which version each party is on and what is staged.",
    "ledger": "Show what a party's ledger says; a broken chain is an error.",
    "report": "Write the last audit as one page: the verdict in plain words, then figures.",
    "certificate": "Have every party sign what it did for a request, and write certificate.json.",
    "verify": "Check a certificate offline; every fault is named, and what was not checked.",
    "keys": "Keys that seal what only an auditor may read.",
    "federation": "Set a federation of organisations up.",
    "party": "Run a party of a federation.",
    "data": "List and fetch the built-in datasets.",
    "bench": "Measure; see `unlabel bench list`.",
}
#: The files of commands that are not named like their file.
FILES = dict.fromkeys(("commit", "rollback", "purge", "recover"), "decide")
FILES |= {"report": "audit", "ledger": "status", "keys": "certificate", "account": "desk"}


@functools.cache
def load(name: str) -> Any:
    """Import a command, or a group of commands, and return it."""
    module = import_module(f"unlabel.cli.{FILES.get(name, name)}")
    command = getattr(module, "app", None) or getattr(module, name)
    if isinstance(command, typer.Typer):
        group = get_group(command)
        group.name = name
        return group
    alone = typer.Typer(add_completion=False)
    # Where the bench is not installed, whatever was asked of it gets the same answer.
    alone.command(name, context_settings={"ignore_unknown_options": name == "bench"})(command)
    return get_command(alone)


class Root(TyperGroup):
    """The commands of `unlabel`; one is imported when it is invoked."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, about in COMMANDS.items():
            self.add_command(TyperCommand(name=name, help=about))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that the words name, imported, and the words that are left."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, load(name) if name in COMMANDS else command, rest

    def invoke(self, ctx: Any) -> Any:
        """Run the command, with its lines in the kit's log of commands.

        An interrupt leaves as `Interrupted`, which Typer lets pass.
        """
        with on_interrupt(UNKNOWN), noted(named_kit()):
            return super().invoke(ctx)


app = typer.Typer(
    cls=Root,
    help="Make a vertically federated model forget a label.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"unlabel {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Make a vertically federated model forget a label."""


@functools.cache
def _commands() -> Callable[..., Any]:
    """Return the tree of commands, which is the same every time."""
    return get_command(app)


def main() -> None:
    """Run the command line; an expected failure is one sentence and a non-zero exit."""
    with at_a_terminal():
        try:
            with patient_interrupts():
                _commands()(prog_name="unlabel")
        except UnlabelError as error:
            say(Text("Error: ", style="bold red") + Text(str(error)))
            sys.exit(status_of(error))
        except Interrupted as interrupted:
            say(str(interrupted))
            sys.exit(INTERRUPTED)
