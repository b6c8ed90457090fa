"""`unlabel commit | rollback | purge | recover`: what becomes of a request."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unlabel import erasure
from unlabel.cli.output import Json, messages, print_json
from unlabel.federation import Federation

Run = Annotated[Path, typer.Argument(help="Folder of the run.")]


def commit(
    run: Run,
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
    request = erasure.commit(Federation.open(run), force=force)
    _say({"request": request, "committed": True}, f"Committed request {request}.", run, json)
    if not json:
        messages.print(f"Old weights are still on disk. Next: unlabel purge {run}")


def rollback(run: Run, json: Json = False) -> None:
    """Drop the staged request at every party."""
    request = erasure.rollback(Federation.open(run))
    _say({"request": request, "rolled_back": True}, f"Rolled back request {request}.", run, json)


def purge(run: Run, json: Json = False) -> None:
    """Remove what stems from before the last commit: checkpoints, curves, transcripts."""
    version = erasure.purge(Federation.open(run))
    _say(
        {"version": version, "purged": True},
        f"Every party holds version {version} and nothing older.",
        run,
        json,
    )


def recover(run: Run, json: Json = False) -> None:
    """Bring all parties together after a crash."""
    done = erasure.recover(Federation.open(run, recovering=True))
    _say({"recovered": done}, f"{done[0].upper()}{done[1:]}.", run, json)


def _say(found: dict[str, object], sentence: str, run: Path, json: bool) -> None:
    if json:
        print_json({**found, "run": str(run)})
    else:
        messages.print(sentence)
