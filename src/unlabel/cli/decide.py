"""`unlabel commit | rollback | purge | recover`: what becomes of a request."""

from __future__ import annotations

from typing import Annotated

import typer

import unlabel as ul
from unlabel.cli.interrupts import on_interrupt
from unlabel.cli.output import Json, messages, print_json
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
    _say({"request": request, "committed": True}, f"Committed request {request}.", target, json)
    if not json:
        messages.print(
            f"Old weights are still on disk. Next: unlabel purge {target}", soft_wrap=True
        )


def rollback(run: Run = None, federation: Kit = None, json: Json = False) -> None:
    """Drop the staged request at every party."""
    target = Target.of(run, federation)
    with target.open() as opened:
        request = opened.rollback()
    found = {"request": request, "rolled_back": True}
    _say(found, f"Rolled back request {request}.", target, json)


def purge(run: Run = None, federation: Kit = None, json: Json = False) -> None:
    """Remove what stems from before the last commit: checkpoints, curves, transcripts."""
    target = Target.of(run, federation)
    again = f"Interrupted; run it again: unlabel purge {target}"
    with target.open() as opened, on_interrupt(again):
        version = opened.purge()
    _say(
        {"version": version, "purged": True},
        f"Every party holds version {version} and nothing older.",
        target,
        json,
    )
    if not json:
        messages.print(f"Next: unlabel certificate {target}", soft_wrap=True)


def recover(run: Run = None, federation: Kit = None, json: Json = False) -> None:
    """Bring all parties together after a crash."""
    target = Target.of(run, federation)
    with target.open(recovering=True) as opened:
        done = opened.recover()
    _say({"recovered": done}, f"{done[0].upper()}{done[1:]}.", target, json)


def _say(found: dict[str, object], sentence: str, target: Target, json: bool) -> None:
    if json:
        print_json({**found, **target.json()})
    else:
        messages.print(sentence)
