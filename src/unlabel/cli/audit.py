"""`unlabel audit`: how deep a request has gone, in levels, with a sentence for every finding."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from unlabel.cli.exits import NOT_PASSED
from unlabel.cli.output import Json, make_table, messages, print_json, results
from unlabel.cli.progress import StepBar
from unlabel.cli.target import Kit, Run, Target
from unlabel.errors import SettingsError

if TYPE_CHECKING:
    from unlabel.audit import Finding, Verdict

#: What each level means, for people.
MEANING = {
    "none": "The predictions still show the label or its training rows, or the rest was damaged.",
    "output": "The label is no longer predicted. The models may know it as before.",
    "top": "The active party's top model has lost the label. The bottom models may know it.",
    "deep": "The bottom models have lost it too, as far as our probes can see.",
}
#: What decides first among findings of one measure, and how each is shown.
STYLES = {"fail": "bold red", "warn": "yellow", "pass": "green", "unknown": "dim"}


def audit(
    run: Run = None,
    federation: Kit = None,
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

    Exit status 0 where the demanded level holds, 3 where it does not.

    Example: unlabel audit runs/digits --retrained 3
    """
    from unlabel.audit.service import NO_DATA
    from unlabel.train import AuditSettings

    if demand:
        AuditSettings(demand=demand)  # type: ignore[arg-type]  # refused before a job is started
    target = Target.of(run, federation)
    if target.kit is not None and retrained:
        raise SettingsError(NO_DATA)  # before a job is started for it
    with target.open(device=device) as opened, StepBar(messages, "auditing") as bar:
        verdict = opened.audit(retrained=retrained, demand=demand or None, watch=bar.step)
    if json:
        print_json({**verdict.to_json(), **target.json()})
    else:
        show(verdict)
        _next(verdict, target)
    if not verdict.passed:
        raise typer.Exit(NOT_PASSED)


def show(verdict: Verdict) -> None:
    """Print a verdict: the level in a line, a row a measure, and what is not known."""
    results.print(headline(verdict), soft_wrap=True)
    rows: list[list[str | Text]] = [["level", "measure", "finding", "what was found"]]
    for (level, measure), found in groupby(verdict.findings, lambda f: (f.level, f.measure)):
        ruling, sentence = together(list(found), _parties(verdict, measure))
        rows.append([level, measure, Text(ruling, STYLES[ruling]), Text(sentence)])
    results.print(make_table("What it was judged by", rows))
    results.print(Text(f"Partners: {verdict.privacy.sentence}"), soft_wrap=True)
    for sentence in verdict.unknown:
        messages.print(f"Not known: {sentence}", soft_wrap=True)


def headline(verdict: Verdict) -> Text:
    """Return the verdict in a line."""
    how = ("holds", "green") if verdict.passed else ("does not hold", "red")
    return Text.assemble(
        "Level reached: ",
        (verdict.level, f"bold {how[1]}"),
        f" ('{verdict.demanded}' is demanded and ",
        how,
        f"). {MEANING[verdict.level]}",
    )


def together(findings: Sequence[Finding], parties: Sequence[str]) -> tuple[str, str]:
    """Return one ruling and one sentence for all findings of a measure.

    The first finding is of all parties together, the others of each party alone.
    """
    from unlabel.audit.gate import NO_RETRAINED

    ruling = next(each for each in STYLES if any(f.ruling == each for f in findings))
    sentence = next(f.sentence for f in findings if f.ruling == ruling)
    # Why is said once, below the table.
    sentence = sentence.replace(f": {NO_RETRAINED}", "")
    alone = [f"{p} {f.ruling}" for p, f in zip(parties, findings[1:], strict=False)]
    if any(f.ruling != "unknown" for f in findings) and alone:
        sentence += f" Each alone: {', '.join(alone)}."
    return ruling, sentence


def _parties(verdict: Verdict, measure: str) -> list[str]:
    """Return the parties that a measure also speaks about one by one."""
    return list(verdict.measures[measure].parties) if measure in verdict.measures else []


def _next(verdict: Verdict, run: Target) -> None:
    if verdict.state != "staged":
        way = f"unlabel report {run}"
    elif verdict.passed:
        way = f"unlabel commit {run}"
    else:
        way = f"unlabel rollback {run}, or unlabel commit {run} --force"
    messages.print(f"Next: {way}", soft_wrap=True)
