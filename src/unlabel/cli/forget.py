"""`unlabel forget`: carry out a request, stage it, and say what it came to."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import unlabel as ul
from unlabel.cli.deprecated import mode_flag, old_option
from unlabel.cli.output import Json, messages, print_json, print_result, say
from unlabel.cli.progress import StepBar
from unlabel.cli.target import Device, Kit, Run, Target
from unlabel.errors import ForgetError, UsageError

WHAT, HOW = "What to forget", "How"
ALONE = (
    "A queued request is a hidden one with default settings; give --label with --queue and no "
    "other option."
)


def _option(panel: str, about: str, *names: str) -> Any:
    return typer.Option(*names, help=about, rich_help_panel=panel)


def forget(
    context: typer.Context,
    run: Run = None,
    federation: Kit = None,
    label: Annotated[
        list[str] | None, _option(WHAT, "A label by name or number; repeat it.")
    ] = None,
    ids: Annotated[
        Path | None, _option(WHAT, "CSV file of people whose labels are to be forgotten.")
    ] = None,
    id_: Annotated[
        list[str] | None,
        _option(WHAT, "A person whose label is to be forgotten; repeat it.", "--id"),
    ] = None,
    secret: Annotated[
        bool, _option(WHAT, "Partners keep a commitment, not the label.", "--secret")
    ] = False,
    defer: Annotated[
        str | None,
        _option(
            WHAT,
            "Let a request of people wait for `unlabel train --update`, until this day at the "
            "latest, and send nothing.",
        ),
    ] = None,
    queue: Annotated[
        bool, _option(WHAT, "Let it wait for `unlabel slots`, and send nothing.", "--queue")
    ] = False,
    deepen: Annotated[
        bool, _option(WHAT, "Forget a forgotten label once more, in depth.", "--deepen")
    ] = False,
    visibility: Annotated[
        str | None,
        _option(HOW, "hidden: partners cannot tell what is forgotten (default); open: they can."),
    ] = None,
    depth: Annotated[
        str | None,
        _option(
            HOW,
            "top: the label holder's model forgets (default); bottoms: every partner's too, open.",
        ),
    ] = None,
    method: Annotated[
        str | None,
        _option(HOW, "See `unlabel methods`; by default what --visibility and --depth ask for."),
    ] = None,
    preset: Annotated[str | None, _option(HOW, "Named settings of the method.")] = None,
    set_: Annotated[
        list[str] | None, _option(HOW, "A setting of the method as NAME=VALUE.", "--set")
    ] = None,
    public: Annotated[
        Path | None,
        _option(
            HOW,
            "Public samples, an .npz file or a folder; by default those set aside before training.",
        ),
    ] = None,
    few_shot: Annotated[
        int | None, _option(HOW, "Public samples a forgotten label. Default 40, or the preset's.")
    ] = None,
    retained: Annotated[
        int | None, _option(HOW, "Public samples a retained label. Default 3, or the preset's.")
    ] = None,
    robust: Annotated[
        str, _option(HOW, "Samples with a suspicious label: none, drop or weight.")
    ] = "none",
    public_from: Annotated[
        str,
        _option(
            HOW,
            "labelled; pseudo: named by the model; anchors: made from the training rows, top only.",
        ),
    ] = "labelled",
    any_public: Annotated[
        bool,
        _option(
            HOW, "Even with public samples whose labels the model does not share.", "--any-public"
        ),
    ] = False,
    allow_disclosure: Annotated[
        bool,
        _option(
            HOW,
            "Even where it shows partners what an earlier hidden request was about.",
            "--allow-disclosure",
        ),
    ] = False,
    allow_unfinished: Annotated[
        bool, _option(HOW, "Even in a model whose training was interrupted.", "--allow-unfinished")
    ] = False,
    device: Device = "",
    record: Annotated[
        bool, typer.Option("--record", help="Each passive party keeps a transcript.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check and explain; change nothing.")
    ] = False,
    commit: Annotated[
        bool, typer.Option("--commit", help="Commit at once instead of staging.")
    ] = False,
    mode: Annotated[str | None, old_option("--mode", "--visibility and --depth")] = None,
    json: Json = False,
) -> None:
    """Forget a label, or the labels of people, and stage the result at every party.

    Example: unlabel forget runs/digits --label 3
    """
    from unlabel.data.tables import read_ids
    from unlabel.forget.early import expect_possible
    from unlabel.forget.plan import has_hidden
    from unlabel.forget.settings import expect_remote, with_options

    target = Target.of(run, federation)
    visibility, depth = mode_flag(mode, visibility, depth)
    if queue:
        _queue(target, context, label or [], json=json)
        return
    people = [*(read_ids(ids) if ids is not None else ()), *(id_ or ())]
    if defer is not None:
        with target.open() as opened:
            waiting = opened.defer(people, defer)
            shows = not opened.is_blind and has_hidden(opened)
        then = " --allow-disclosure, which may show what was hidden before" if shows else ""
        facts = {"deferred": waiting.request, "until": waiting.until, **target.json()}
        sentence = (
            f"Request {waiting.request} waits until {waiting.until} at the latest, and no partner "
            f"has seen anything of it. It is carried out by: unlabel train --update --out {target}"
            f"{then}"
        )
        print_result(facts, sentence, json=json)
        return
    expect_possible(target.folder, label or (), deepen=deepen)  # before anybody is asked
    settings = ul.ForgetSettings(
        method=method,
        preset=preset,
        visibility=visibility,  # type: ignore[arg-type]
        depth=depth,  # type: ignore[arg-type]
        public=public,
        public_from=public_from,  # type: ignore[arg-type]
        any_public=any_public,
        few_shot=few_shot,
        retained=retained,
        robust=robust,  # type: ignore[arg-type]
        secret=secret,
        deepen=deepen,
        allow_disclosure=allow_disclosure,
        allow_unfinished=allow_unfinished,
    )
    if set_:
        settings = with_options(settings, set_, people=bool(people))
    if target.kit is not None:
        expect_remote(settings)  # before a job is started for it
    with target.open(device=device, record=record) as opened:
        from unlabel.cli.forget_shown import TRAINS_AGAIN, explain

        if people and not json and not opened.config.is_label_free:
            say(TRAINS_AGAIN)
        if dry_run:
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


def _queue(target: Target, context: typer.Context, labels: list[str], *, json: bool) -> None:
    """Let a request wait for its slot; the partners hear nothing of it."""
    typed = {
        name
        for name in context.params
        if str(context.get_parameter_source(name)).endswith("COMMANDLINE")
    }
    hidden = context.params["mode"] in (None, "hidden")
    hidden = hidden and context.params["visibility"] in (None, "hidden")
    alone = {"run", "federation", "label", "queue", "visibility", "mode", "json"}
    if not labels or not hidden or typed - alone:
        raise UsageError(ALONE)
    wanted, place = ul.Federation.enqueue(target.folder, labels)
    if json:
        print_json({"queued": list(wanted), "place": place, **target.json()})
    else:
        say(
            f"Queued as number {place}. It is carried out by: "
            f"unlabel slots {target} --every SECONDS --count SLOTS --purge"
        )
