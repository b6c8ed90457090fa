"""`unlabel forget`: carry out a request, stage it, and say what it came to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import unlabel as ul
from unlabel.cli.deprecated import old_flag
from unlabel.cli.output import Json, messages, print_json
from unlabel.cli.progress import StepBar
from unlabel.cli.target import Kit, Run, Target
from unlabel.errors import ForgetError, UsageError

WHAT, HOW = "What to forget", "How"
ALONE = (
    "A queued request is a hidden one with default settings; give --label with --queue and no "
    "other option."
)


def _option(*names: str, panel: str, help_text: str) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel=panel)


def forget(
    context: typer.Context,
    run: Run = None,
    federation: Kit = None,
    label: Annotated[
        list[str] | None,
        _option("--label", panel=WHAT, help_text="A label by name or number; repeat it."),
    ] = None,
    ids: Annotated[
        Path | None,
        _option(
            "--ids", panel=WHAT, help_text="CSV file of people whose labels are to be forgotten."
        ),
    ] = None,
    id_: Annotated[
        list[str] | None,
        _option(
            "--id", panel=WHAT, help_text="A person whose label is to be forgotten; repeat it."
        ),
    ] = None,
    secret: Annotated[
        bool,
        _option("--secret", panel=WHAT, help_text="Partners keep a commitment, not the label."),
    ] = False,
    queue: Annotated[
        bool,
        _option(
            "--queue", panel=WHAT, help_text="Let it wait for `unlabel slots`, and send nothing."
        ),
    ] = False,
    deepen: Annotated[
        bool,
        _option("--deepen", panel=WHAT, help_text="Forget a forgotten label once more, in depth."),
    ] = False,
    mode: Annotated[
        str | None,
        _option(
            "--mode",
            panel=HOW,
            help_text="hidden: partners cannot tell what; deep: their bottoms forget too; open. "
            "By default the method's.",
        ),
    ] = None,
    method: Annotated[
        str | None,
        _option(
            "--method",
            panel=HOW,
            help_text="The mode's by default, and hidden without one (people with --ids); see "
            "`unlabel methods`.",
        ),
    ] = None,
    preset: Annotated[
        str | None, _option("--preset", panel=HOW, help_text="Named settings of the method.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        _option("--set", panel=HOW, help_text="A setting of the method as NAME=VALUE."),
    ] = None,
    public: Annotated[
        Path | None,
        _option(
            "--public",
            panel=HOW,
            help_text="Public samples: an .npz file, or a folder with a table a party. By default "
            "those set aside before training.",
        ),
    ] = None,
    few_shot: Annotated[
        int | None,
        _option(
            "--few-shot",
            panel=HOW,
            help_text="Public samples a forgotten label. Default 40, or the preset's.",
        ),
    ] = None,
    retained: Annotated[
        int | None,
        _option(
            "--retained",
            panel=HOW,
            help_text="Public samples a retained label. Default 3, or the preset's.",
        ),
    ] = None,
    robust: Annotated[
        str,
        _option(
            "--robust",
            panel=HOW,
            help_text="Samples with a suspicious label: none, drop or weight.",
        ),
    ] = "none",
    public_from: Annotated[
        str,
        _option(
            "--public-from",
            panel=HOW,
            help_text="labelled; pseudo: the model itself names the public samples; anchors: made "
            "from the labels' training rows, for the top alone.",
        ),
    ] = "labelled",
    any_public: Annotated[
        bool,
        _option(
            "--any-public",
            panel=HOW,
            help_text="Even with public samples whose labels the model does not share.",
        ),
    ] = False,
    cover: Annotated[
        int,
        _option(
            "--cover",
            panel=HOW,
            help_text="Rows among which people are asked for (--ids); by default what suits the "
            "data.",
        ),
    ] = 0,
    allow_disclosure: Annotated[
        bool,
        _option(
            "--allow-disclosure",
            panel=HOW,
            help_text="Even where it shows partners what an earlier hidden request was about.",
        ),
    ] = False,
    allow_unfinished: Annotated[
        bool,
        _option(
            "--allow-unfinished",
            panel=HOW,
            help_text="Even in a model whose training was interrupted.",
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
    again: Annotated[bool, old_flag("--again", "--deepen")] = False,
    reveal: Annotated[bool, old_flag("--reveal", "--allow-disclosure")] = False,
    json: Json = False,
) -> None:
    """Forget a label, or the labels of people, and stage the result at every party.

    Example: unlabel forget runs/digits --label 3
    """
    target = Target.of(run, federation)
    if queue:
        _queue(target, context, label or [], json=json)
        return
    people = _people(ids, id_ or [])
    settings = ul.ForgetSettings(
        method=method,
        preset=preset,
        mode=mode,  # type: ignore[arg-type]
        public=public,
        public_from=public_from,  # type: ignore[arg-type]
        any_public=any_public,
        few_shot=few_shot,
        retained=retained,
        robust=robust,  # type: ignore[arg-type]
        cover=cover,
        secret=secret,
        deepen=deepen or again,
        allow_disclosure=allow_disclosure or reveal,
        allow_unfinished=allow_unfinished,
    )
    if set_:
        settings = settings.with_options(set_, people=bool(people))
    if target.kit is not None:
        settings.expect_remote()  # before a job is started for it
    with target.open(device=device, record=record) as opened:
        if dry_run:
            from unlabel.cli.forget_shown import explain

            explain(opened.plan(label or (), ids=people, settings=settings), json=json)
            return
        with StepBar(messages, "forgetting") as bar:
            outcome = opened.forget(label or (), ids=people, settings=settings, watch=bar.step)
        if commit and outcome.why_not():
            outcome.rollback()  # here and now: another job for it would tell partners something
            raise ForgetError(f"{outcome.why_not()} It was rolled back.")
        if commit:
            outcome.commit()
    if json:
        print_json({**outcome.to_json(), "committed": commit, **target.json()})
    else:
        from unlabel.cli.forget_shown import show

        show(outcome.result, target, committed=commit)


def _people(file: Path | None, named: list[str]) -> list[str]:
    """Return the ids of a file and those that were named one by one."""
    if file is None:
        return named
    from unlabel.data.tables import read_ids

    found = [*read_ids(file), *named]
    if not found:
        raise ForgetError(f"'{file}' names nobody; give at least one id.")
    return found


def _queue(target: Target, context: typer.Context, labels: list[str], *, json: bool) -> None:
    """Let a request wait for its slot; the partners hear nothing of it."""
    given = {
        name
        for name in context.params
        if str(context.get_parameter_source(name)).endswith("COMMANDLINE")
    }
    hidden = context.params["mode"] in (None, "hidden")
    if not labels or not hidden or given - {"run", "federation", "label", "queue", "mode", "json"}:
        raise UsageError(ALONE)
    wanted, place = ul.Federation.enqueue(target.folder, labels)
    if json:
        print_json({"queued": list(wanted), "place": place, **target.json()})
    else:
        messages.print(
            f"Queued as number {place}. It is carried out by: "
            f"unlabel slots {target} --every SECONDS --count SLOTS --purge"
        )
