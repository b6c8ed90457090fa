"""`unlabel audit`: how deep a request has gone, in levels, with a sentence for every finding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from unlabel import auditing
from unlabel.audit import LEVELS, Verdict
from unlabel.cli.output import Json, messages, print_json, print_table
from unlabel.cli.progress import StepBar
from unlabel.errors import SettingsError, unknown
from unlabel.federation import Federation

#: What each level means, for people.
MEANING = {
    "none": "The predictions still show the label, or the rest was damaged.",
    "output": "The label is no longer predicted. The models may know it as before.",
    "top": "The active party's model has lost the label. The partners' models may know it.",
    "deep": "The partners' models have lost it too, as far as our probes can see.",
}


def audit(
    run: Annotated[Path, typer.Argument(help="Folder of the run.")],
    retrained: Annotated[
        int,
        typer.Option(
            min=0, max=20, help="Models to retrain without the label, to compare with; kept."
        ),
    ] = 0,
    demand: Annotated[
        str, typer.Option(help="Level to demand: none, output, top or deep; the run's by default.")
    ] = "",
    device: Annotated[str, typer.Option(help="cpu, cuda or auto; the run's own by default.")] = "",
    json: Json = False,
) -> None:
    """Judge the staged request, or the last one committed, beside original and retrained models.

    Exit status 0 where the demanded level holds, 1 where it does not.

    Example: unlabel audit runs/digits --retrained 3
    """
    if demand and demand not in ("none", *LEVELS):
        raise SettingsError(unknown("level", demand, ("none", *LEVELS)))
    federation = Federation.open(run, device=device)
    limits = federation.config.audit
    if demand:
        limits = replace(limits, demand=demand)  # type: ignore[arg-type]
    with StepBar(messages, "auditing") as bar:
        verdict = auditing.audit(federation, retrained=retrained, demand=limits, watch=bar.step)
    if json:
        print_json({**verdict.to_json(), "run": str(run)})
    else:
        _show(verdict, run)
    if not verdict.passed:
        raise typer.Exit(1)


def _show(verdict: Verdict, run: Path) -> None:
    rows = [["level", "measure", "finding", "what was found"]]
    rows += [[f.level, f.measure, f.ruling, f.sentence] for f in verdict.findings]
    title = f"Level reached: {verdict.level}. {MEANING[verdict.level]}"
    print_table(title, rows, verdict.privacy.get("sentence"))
    for sentence in verdict.unknown:
        messages.print(f"Not known: {sentence}")
    if verdict.passed:
        messages.print(f"'{verdict.demanded}' was demanded and holds. Next: unlabel report {run}")
    else:
        messages.print(
            f"'{verdict.demanded}' was demanded and does not hold. Next: unlabel rollback {run}"
        )
