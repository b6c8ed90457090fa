"""`unlabel audit` and `unlabel report`: how deep a request has gone, in a table or on a page."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

import unlabel as ul
from unlabel.cli.deprecated import depth_flag
from unlabel.cli.exits import NOT_PASSED
from unlabel.cli.output import Json, make_table, messages, print_json, print_result, results, say
from unlabel.cli.progress import StepBar
from unlabel.cli.target import Device, Kit, Run, Target
from unlabel.errors import SettingsError
from unlabel.terms import GUARANTEE_MEANS, depth_means

if TYPE_CHECKING:
    from unlabel.audit import Finding, Verdict

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
        str | None,
        typer.Option(help="Depth to demand: none, answers, top or bottoms; the run's by default."),
    ] = None,
    device: Device = "",
    json: Json = False,
) -> None:
    """Judge the staged request, or the last one committed, beside original and retrained models.

    Exit status 0 where the demanded depth holds, 3 where it does not.

    Example: unlabel audit runs/digits --retrained 3
    """
    from unlabel.audit.service import NO_DATA
    from unlabel.config import AuditSettings

    demand = depth_flag(demand)
    if demand is not None:
        AuditSettings(demand=demand)  # type: ignore[arg-type]  # refused before a job is started
    target = Target.of(run, federation)
    if target.kit is not None and retrained and not _is_blind(target.folder):
        raise SettingsError(NO_DATA)  # before a job is started for it
    with target.open(device=device) as opened, StepBar(messages, "auditing") as bar:
        verdict = opened.audit(retrained=retrained, demand=demand, watch=bar.step)
    if json:
        print_json({**verdict.to_json(), **target.json()})
    else:
        show(verdict)
        _next(verdict, target)
    if not verdict.passed:
        raise typer.Exit(NOT_PASSED)


def _is_blind(folder: Path) -> bool:
    """Return whether models to compare with are fitted from what the label holder keeps."""
    from unlabel.compat import run_file
    from unlabel.runfolder import read_config_of

    return run_file(folder).is_file() and read_config_of(folder).bottoms == "blind"


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
    written = ul.Federation.report_of(target.folder, out)
    verdict = written.verdict
    judged = {name: getattr(verdict, name) for name in ("request", "depth", "passed")}
    facts = {"report": str(written.path), **judged, **target.json()}
    if written.trouble and not json:
        say(written.trouble)
    print_result(facts, f"Wrote {written.path} on request {verdict.request}.", json=json)


def show(verdict: Verdict) -> None:
    """Print a verdict: the depth in a line, a row a measure, and what is not known."""
    results.print(headline(verdict), soft_wrap=True)
    rows: list[list[str | Text]] = [["depth", "measure", "finding", "what was found"]]
    for (depth, measure), findings in groupby(verdict.findings, lambda f: (f.depth, f.measure)):
        ruling, sentence = together(list(findings), _parties(verdict, measure))
        rows.append([depth, measure, Text(ruling, STYLES[ruling]), Text(sentence)])
    results.print(make_table("What it was judged by", rows))
    if verdict.facts.construction:
        results.print(make_table("Measured all the same; it decides nothing", _figures(verdict)))
    for party, figures in verdict.facts.layers.items():
        values = ", ".join(f"{value:.3f}" for value in figures)
        results.print(Text(f"Layers of {party}, alignment before and after (CKA): {values}."))
    results.print(Text(f"Partners: {verdict.privacy.sentence}"), soft_wrap=True)
    guarantee = f"Guarantee: {verdict.guarantee}, {GUARANTEE_MEANS[verdict.guarantee]}."
    results.print(Text(guarantee), soft_wrap=True)
    for sentence in verdict.unknown:
        say(f"Not known: {sentence}")


def _figures(verdict: Verdict) -> list[list[str | Text]]:
    """Return every figure beside the original's, for a request that no figure decides on."""
    from unlabel.audit import MODELS
    from unlabel.report.wording import number

    models = [m for m in MODELS if any(m in each.values for each in verdict.measures.values())]
    rows: list[list[str | Text]] = [["measure", *models]]
    for name, each in verdict.measures.items():
        rows.append([name, *(number(each.value(model), each.unit) for model in models)])
    return rows


def headline(verdict: Verdict) -> Text:
    """Return the verdict in a line."""
    how = ("holds", "green") if verdict.passed else ("does not hold", "red")
    return Text.assemble(
        "Depth reached: ",
        (verdict.depth, f"bold {how[1]}"),
        f" ('{verdict.demanded}' is demanded and ",
        how,
        f"): {depth_means(verdict.depth, verdict.guarantee, people=bool(verdict.people))}.",
    )


def together(findings: Sequence[Finding], parties: Sequence[str]) -> tuple[str, str]:
    """Return one ruling and one sentence for all findings of a measure.

    The last are of each party, or each layer of the top, alone; one before is of all together.
    """
    from unlabel.audit.gate import NO_RETRAINED

    ruling = next(each for each in STYLES if any(f.ruling == each for f in findings))
    decisive = [f.sentence for f in findings if f.ruling == ruling]
    sentence = decisive[0] if parties else " ".join(decisive)
    # Why is said once, below the table.
    sentence = sentence.replace(f", {NO_RETRAINED}", "")
    each_alone = findings[len(findings) - len(parties) :]
    alone = [f"{p} {f.ruling}" for p, f in zip(parties, each_alone, strict=False)]
    if any(f.ruling != "unknown" for f in findings) and len(findings) > 1 and alone:
        sentence += f" Each alone: {', '.join(alone)}."
    return ruling, sentence


def _parties(verdict: Verdict, measure: str) -> list[str]:
    """Return the parties that a measure also speaks about one by one."""
    return list(verdict.measures[measure].parties) if measure in verdict.measures else []


def _next(verdict: Verdict, run: Target) -> None:
    from unlabel.train.facts import staged_in

    staged = staged_in(run.folder / "active")
    if verdict.state != "staged" or staged is None:
        way = f"unlabel report {run}"
    elif verdict.passed and not staged.why_not():
        way = f"unlabel commit {run}"
    else:
        forced = "" if staged.why_not(force=True) else f", or unlabel commit {run} --force"
        way = f"unlabel rollback {run}{forced}"
    say(f"Next: {way}")
