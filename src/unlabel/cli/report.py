"""`unlabel report`: an audit as one page that a person reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import unlabel as ul
from unlabel.cli.output import Json, messages, print_json
from unlabel.cli.target import Kit, Run, Target


def report(
    run: Run = None,
    federation: Kit = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write it; RUN/report.html by default.")
    ] = None,
    json: Json = False,
) -> None:
    """Write the last audit as one page: the verdict in plain words, then figures."""
    target = Target.of(run, federation)
    made = ul.Federation.report_of(target.folder, out)
    verdict = made.verdict
    if json:
        print_json(
            {
                "report": str(made.path),
                "request": verdict.request,
                "level": verdict.level,
                "passed": verdict.passed,
                **target.json(),
            }
        )
        return
    if made.trouble:
        messages.print(made.trouble)
    messages.print(f"Wrote {made.path} on request {verdict.request}.")
