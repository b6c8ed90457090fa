"""`unlabel commit | rollback | purge | recover`: what becomes of a request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import unlabel as ul
from unlabel import terms
from unlabel.cli.interrupts import on_interrupt
from unlabel.cli.output import Json, print_result, say
from unlabel.cli.target import Kit, Run, Target


def commit(
    run: Run = None,
    federation: Kit = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also where the label is still predicted, or the audit fell short; is recorded.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Make the staged request the model of every party."""
    target = Target.of(run, federation)
    ul.Federation.expect_committable(target.folder, force=force)  # before anybody is asked
    with target.open() as opened:
        request = opened.commit(force=force)
    facts = {"request": request, "committed": True, **target.json()}
    print_result(facts, f"Committed request {request}.", json=json)
    if not json:
        say(f"{terms.COMMITTED} Next: unlabel purge {target}")


def rollback(run: Run = None, federation: Kit = None, json: Json = False) -> None:
    """Drop the staged request at every party."""
    target = Target.of(run, federation)
    with target.open_standing(deciding=True) as opened:
        request = opened.rollback()
    facts = {"request": request, "rolled_back": True, **target.json()}
    print_result(facts, f"Rolled back request {request}.", json=json)


def purge(
    run: Run = None,
    federation: Kit = None,
    table_out: Annotated[
        Path | None,
        typer.Option(help="Also write the label holder's table without the forgotten labels."),
    ] = None,
    json: Json = False,
) -> None:
    """Remove what stems from before the last commit: checkpoints, curves, transcripts."""
    target = Target.of(run, federation)
    advice = f"Interrupted; run it again: unlabel purge {target}"
    with target.open() as opened, on_interrupt(advice):
        version = opened.purge(table_out=table_out)
        forgot = bool(opened.forgotten.labels or opened.forgotten.rows)
    facts = {"version": version, "purged": True, **target.json()}
    print_result(facts, f"Every party holds version {version} and nothing older.", json=json)
    if forgot and not json:
        clear = "clear them from your own table"
        if table_out is not None:
            clear = f"put {table_out}, which was written without them, in place of your own table"
        say(f"The run works without the forgotten labels now; {clear}.")
        say(f"Next: unlabel certificate {target}, and unlabel status {target} --copies")


def recover(run: Run = None, federation: Kit = None, json: Json = False) -> None:
    """Bring all parties together after a crash."""
    target = Target.of(run, federation)
    with target.open(recovering=True) as opened:
        done, version = opened.recover(), opened.version
    facts = {"recovered": done, "version": version, **target.json()}
    sentence = "" if version is None else f" Every party is on version {version}."
    print_result(facts, f"{done[0].upper()}{done[1:]}.{sentence}", json=json)
