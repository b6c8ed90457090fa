"""The command `unlabel`: the table of its verbs, and what its exit status means.

Exit status: 0 done, 1 could not be done (one sentence on standard error says why and what to do),
2 the command line itself is wrong, 3 the demanded level is not reached or a certificate does not
hold, 130 interrupted: one sentence says where things stand (see `exits`).
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.text import Text

from unlabel._version import __version__
from unlabel.cli.exits import INTERRUPTED, status_of
from unlabel.cli.interrupts import Interrupted, patient_interrupts
from unlabel.cli.lazy import LazyGroup, Listed
from unlabel.cli.output import messages
from unlabel.errors import UnlabelError, at_a_terminal

#: Every command, in the order of the help.
COMMANDS = (
    Listed(
        "demo",
        "demo:demo",
        "Train two parties on bundled data, forget a label, audit what is left; under a minute.",
    ),
    Listed("train", "train:train", "Train a model between parties and keep the run in a folder."),
    Listed(
        "evaluate",
        "evaluate:evaluate",
        "Show the accuracy of a run, label by label, and what is mistaken for what.",
    ),
    Listed(
        "predict",
        "predict:predict",
        "Predict new rows; without new rows, the run's own test rows or those of another --part.",
    ),
    Listed(
        "forget",
        "forget:forget",
        "Forget a label, or the labels of people, and stage the result at every party.",
    ),
    Listed(
        "slots",
        "slots:slots",
        "Make a hidden request at fixed times: the next that waits, else one about nothing.",
    ),
    Listed(
        "methods",
        "methods:methods",
        "List the methods of forgetting, what each needs, and what it tells the partners.",
    ),
    Listed(
        "audit",
        "audit:audit",
        "Judge the staged request, or the last one committed, beside original and retrained "
        "models.",
    ),
    Listed("commit", "decide:commit", "Make the staged request the model of every party."),
    Listed("rollback", "decide:rollback", "Drop the staged request at every party."),
    Listed(
        "purge",
        "decide:purge",
        "Remove what stems from before the last commit: checkpoints, curves, transcripts.",
    ),
    Listed("recover", "decide:recover", "Bring all parties together after a crash."),
    Listed("status", "status:status", "Show which version each party is on and what is staged."),
    Listed(
        "ledger", "status:ledger", "Show what a party's ledger says; a broken chain is an error."
    ),
    Listed(
        "report",
        "report:report",
        "Write the last audit as one page: the verdict in plain words, then figures.",
    ),
    Listed(
        "certificate",
        "certificate:certificate",
        "Have every party sign what it did for a request, and write certificate.json.",
    ),
    Listed(
        "verify",
        "verify:verify",
        "Check a certificate offline; every fault is named, and what was not checked.",
    ),
    Listed("keys", "certificate:keys", "Keys that seal what only an auditor may read."),
    Listed("federation", "federation:app", "Set a federation of organisations up."),
    Listed("party", "party:app", "Run a party of a federation."),
    Listed("data", "data:app", "List and fetch the built-in datasets."),
    Listed("bench", "bench:app", "Measure; see `unlabel bench list`."),
)


class Root(LazyGroup):
    """The commands of `unlabel`."""

    table = COMMANDS


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
    return typer.main.get_command(app)


def main() -> None:
    """Run the command line; an expected failure is one sentence and a non-zero exit."""
    with at_a_terminal():
        try:
            with patient_interrupts():
                _commands()(prog_name="unlabel")
        except UnlabelError as error:
            messages.print(Text("Error: ", style="bold red") + Text(str(error)), soft_wrap=True)
            sys.exit(status_of(error))
        except Interrupted as interrupted:
            messages.print(str(interrupted), soft_wrap=True)
            sys.exit(INTERRUPTED)
