"""`unlabel forget`: carry out a request, stage it, and say what it came to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from unlabel import erasure
from unlabel.cli.output import Json, amount, messages, percent, print_json, print_table
from unlabel.cli.progress import StepBar
from unlabel.data.tables import read_ids
from unlabel.errors import ForgetError, SettingsError, unknown
from unlabel.federation import Federation
from unlabel.forget import (
    CONTROL,
    METHODS,
    Change,
    Method,
    Preset,
    Request,
    Result,
    Robust,
    Task,
    expect_fits,
)
from unlabel.words import parse_settings

WHAT = "What to forget"
HOW = "How"


def forget(
    run: Annotated[Path, typer.Argument(help="Folder of the run.")],
    label: Annotated[
        list[str] | None,
        typer.Option("--label", help="A label by name or number; repeat it.", rich_help_panel=WHAT),
    ] = None,
    ids: Annotated[
        Path | None,
        typer.Option(
            "--ids",
            help="CSV file of people whose labels are to be forgotten.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    secret: Annotated[
        bool,
        typer.Option(
            "--secret", help="Partners keep a commitment, not the label.", rich_help_panel=WHAT
        ),
    ] = False,
    method: Annotated[
        str | None,
        typer.Option(
            help="renormalise by default, people with --ids; see `unlabel methods`.",
            rich_help_panel=HOW,
        ),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="Named settings of the method.", rich_help_panel=HOW)
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", help="A setting of the method as NAME=VALUE.", rich_help_panel=HOW),
    ] = None,
    public: Annotated[
        Path | None,
        typer.Option(
            help="Public samples: an .npz file, or a folder with a table a party. By default those "
            "set aside before training.",
            rich_help_panel=HOW,
        ),
    ] = None,
    few_shot: Annotated[
        int | None,
        typer.Option(
            help="Public samples a forgotten label. Default 40, or the preset's.",
            rich_help_panel=HOW,
        ),
    ] = None,
    retained: Annotated[
        int | None,
        typer.Option(
            help="Public samples a retained label. Default 3, or the preset's.",
            rich_help_panel=HOW,
        ),
    ] = None,
    robust: Annotated[
        str,
        typer.Option(
            help="Samples with a suspicious label: none, drop or weight.", rich_help_panel=HOW
        ),
    ] = "none",
    cover: Annotated[
        int,
        typer.Option(
            help="Rows among which people are asked for (--ids); by default what suits the data.",
            rich_help_panel=HOW,
        ),
    ] = 0,
    again: Annotated[
        bool,
        typer.Option(
            "--again", help="Forget a forgotten label once more, in depth.", rich_help_panel=WHAT
        ),
    ] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto; the run's own by default.")] = "",
    record: Annotated[
        bool, typer.Option("--record", help="Each passive party keeps a transcript.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and explain; change nothing.")
    ] = False,
    commit: Annotated[
        bool, typer.Option("--commit", help="Commit at once instead of staging.")
    ] = False,
    json: Json = False,
) -> None:
    """Forget a label, or the labels of people, and stage the result at every party.

    Example: unlabel forget runs/digits --label 3
    """
    if robust not in get_args(Robust):
        raise SettingsError(unknown("robust option", robust, get_args(Robust)))
    people = ids is not None
    wanted = read_ids(ids) if ids is not None else []
    if people and not wanted:
        raise ForgetError(f"'{ids}' names nobody; give at least one id.")
    name, chosen = _choose(method, preset, people=people)
    made: Method = parse_settings(METHODS.get(name), set_ or [], chosen.method)
    federation = Federation.open(run, device=device, record=record)
    task, request = erasure.plan(
        federation,
        labels=label or (),
        ids=wanted,
        public=public,
        few_shot=chosen.few_shot if few_shot is None else few_shot,
        retained=chosen.retained if retained is None else retained,
        robust=robust,  # type: ignore[arg-type]
        secret=secret,
        cover=cover,
        again=again,
    )
    expect_fits(task, request, made, name)
    if commit and made.is_control():
        raise ForgetError(CONTROL)
    if dry_run:
        _explain(task, request, name, made, json=json)
        return
    with StepBar(messages, "forgetting") as bar:
        outcome = erasure.run_request(federation, task, request, made, bar.step)
    if commit:
        outcome.commit()
    result = {**outcome.to_json(), "committed": commit, "run": str(run)}
    if json:
        print_json(result)
    else:
        _show(outcome.result, run, committed=commit)


def _choose(name: str | None, preset: str | None, *, people: bool) -> tuple[str, Preset]:
    """Return a method by name with its default settings, or with those of a preset."""
    name, made = erasure.make_method(name, people)
    if preset is None:
        return name, Preset(made, few_shot=40, retained=3)
    presets = made.presets()
    if not presets:
        raise SettingsError(f"Method '{name}' has no presets; leave --preset out.")
    if preset not in presets:
        raise SettingsError(unknown(f"preset of '{name}'", preset, presets))
    return name, presets[preset]


def _explain(task: Task, request: Request, name: str, method: Method, *, json: bool) -> None:
    """Say what would be done."""
    shots = task.shots(request, method)
    found: dict[str, Any] = {
        "method": name,
        "labels": list(request.names),
        "people": len(request.rows),
        "few_shot": shots.forgotten,
        "retained_samples": len(shots.rows) - shots.forgotten,
        "public": task.public.source,
        "disclosed": task.public.disclosed,
        "duplicates": shots.duplicates,
        "suspects": [{"id": s.id, "score": s.score} for s in shots.suspects],
        "cover": len(task.covers(request)[0]),
        "tells_partners": method.discloses,
        "staged": False,
        "dry_run": True,
    }
    if json:
        print_json(found)
        return
    rows = [["what", "would be"], *([k.replace("_", " "), str(v)] for k, v in found.items())]
    print_table("Dry run: nothing was changed", rows)


def _show(result: Result, run: Path, *, committed: bool) -> None:
    what = (
        f"the labels of {result.people} people"
        if result.people
        else f"label{'s' * (len(result.labels) > 1)} {', '.join(result.labels)}"
    )
    rows = [["", "before", "after"]]
    rows.append(["accuracy on retained labels", *_both(result.retained_accuracy)])
    subject = "old labels of these people" if result.people else "the forgotten label"
    rows.append([f"accuracy on {subject}", *_both(result.forgotten_accuracy)])
    if result.confidence is not None:
        rows.append(["confidence in their old labels", *_both(result.confidence)])
    used = f"{result.method}: {result.steps} steps, {amount(result.transcript_bytes)} on the wire"
    if result.few_shot:
        used += f", {result.few_shot} + {result.retained_samples} samples from {result.public}"
    print_table(f"{what[0].upper()}{what[1:]}: before and after", rows, used)
    if result.still_known:
        left = percent(result.forgotten_accuracy.after)
        messages.print(
            f"[bold]Not forgotten[/bold]: {left} of the test rows are still called by the label. "
            f"Roll back and try another setting or method."
        )
    if result.drift_share is not None:
        messages.print(f"{percent(result.drift_share)} of it is drift of the normalisation.")
    if result.suspects:
        messages.print(
            f"{len(result.suspects)} public samples may carry a wrong label; the worst is "
            f"'{result.suspects[0]['id']}' (score {result.suspects[0]['score']:.2f}). "
            f"--robust drop leaves them out."
        )
    if result.disclosed:
        messages.print("The public samples are training rows, so partners learn who they are.")
    messages.print(f"Partners learn: {result.tells_partners}.")
    if result.control:
        messages.print(f"Nothing was forgotten: this is a control. Next: unlabel rollback {run}")
        return
    if committed:
        messages.print(f"Committed. Next: unlabel purge {run}")
    else:
        messages.print(f"Staged. Next: unlabel commit {run}, or unlabel rollback {run}")


def _both(change: Change) -> list[str]:
    return [percent(change.before), percent(change.after)]
