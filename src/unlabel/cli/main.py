"""The command `unlabel`.

Exit status: 0 done, 1 could not be done (one sentence on standard error says why and what to do),
2 the command line itself is wrong, 3 the demanded level is not reached or a certificate does not
hold, 130 interrupted (see `exits`).
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.text import Text

from unlabel._version import __version__
from unlabel.cli import (
    audit,
    bench,
    certificate,
    data,
    decide,
    demo,
    evaluate,
    federation,
    forget,
    methods,
    party,
    predict,
    report,
    slots,
    status,
    train,
    verify,
)
from unlabel.cli.exits import INTERRUPTED, status_of
from unlabel.cli.output import messages
from unlabel.errors import UnlabelError

# What a party refuses is logged on its side; here the person reads it once, as the error.
logging.getLogger("unlabel").addHandler(logging.NullHandler())

app = typer.Typer(
    help="Make a vertically federated model forget a label.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo.demo)
app.command()(train.train)
app.command()(evaluate.evaluate)
app.command()(predict.predict)
app.command()(forget.forget)
app.command()(slots.slots)
app.command()(methods.methods)
app.command()(audit.audit)
app.command()(decide.commit)
app.command()(decide.rollback)
app.command()(decide.purge)
app.command()(decide.recover)
app.command()(status.status)
app.command()(status.ledger)
app.command()(report.report)
app.command()(certificate.certificate)
app.command()(verify.verify)
app.add_typer(certificate.keys, name="keys")
app.add_typer(federation.app, name="federation")
app.add_typer(party.app, name="party")
app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")


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
    """Return the whole tree of commands, which is long to build and the same every time."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the command line; an expected failure is one sentence and a non-zero exit."""
    try:
        _commands()(prog_name="unlabel")
    except UnlabelError as error:
        messages.print(Text("Error: ", style="bold red") + Text(str(error)), soft_wrap=True)
        sys.exit(status_of(error))
    except KeyboardInterrupt:
        messages.print("Interrupted; a run in a folder goes on with --resume.")
        sys.exit(INTERRUPTED)


def program() -> None:
    """Run the command line as a program of its own, which ends when it is done.

    Threads of the engine go on looking for a server that is gone, and would keep it from ending.
    """
    try:
        main()
    except SystemExit as done:
        if sys.modules.get("nvflare") is None:
            raise
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(done.code if isinstance(done.code, int) else int(done.code is not None))
