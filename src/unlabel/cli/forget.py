"""`unlabel forget`: carry out a request, stage it, and say what it came to."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated, get_args

import typer

from unlabel import erasure
from unlabel.cli.forget_shown import explain, show
from unlabel.cli.output import Json, messages, print_json
from unlabel.cli.progress import StepBar
from unlabel.cli.slots import queue_request
from unlabel.cli.target import Far, Run, Target
from unlabel.data.tables import read_ids
from unlabel.erasure import Outcome
from unlabel.errors import ForgetError, SettingsError, unknown
from unlabel.federation import Federation
from unlabel.forget import CONTROL, METHODS, Method, Mode, Preset, Robust, expect_fits
from unlabel.words import parse_settings

WHAT = "What to forget"
HOW = "How"


def forget(
    run: Run = None,
    federation: Far = None,
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
    queue: Annotated[
        bool,
        typer.Option(
            "--queue",
            help="Let it wait for `unlabel slots`, and send nothing.",
            rich_help_panel=WHAT,
        ),
    ] = False,
    mode: Annotated[
        str | None,
        typer.Option(
            help="hidden: partners cannot tell what; deep: their bottoms forget too; open. "
            "By default the method's.",
            rich_help_panel=HOW,
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="The mode's by default, and hidden without one (people with --ids); see "
            "`unlabel methods`.",
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
    public_from: Annotated[
        str,
        typer.Option(
            help="labelled; pseudo: the model itself names the public samples; anchors: made from "
            "the labels' training rows, for the top alone.",
            rich_help_panel=HOW,
        ),
    ] = "labelled",
    any_public: Annotated[
        bool,
        typer.Option(
            "--any-public",
            help="Even with public samples whose labels the model does not share.",
            rich_help_panel=HOW,
        ),
    ] = False,
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
    reveal: Annotated[
        bool,
        typer.Option(
            "--reveal",
            help="Even where it shows partners what an earlier hidden request was about.",
            rich_help_panel=HOW,
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
    if mode is not None and mode not in get_args(Mode):
        raise SettingsError(unknown("mode", mode, get_args(Mode)))
    target = Target.of(run, federation)
    if public is not None and target.kit is not None:
        raise SettingsError(erasure.NO_FILES)  # before a job is started for it
    if queue:
        if target.kit is not None:
            raise SettingsError("Slots are for runs in one process; leave --queue out.")
        others = (ids, method, preset, set_, public, few_shot, retained, cover or None)
        flags = (
            *(secret, again, reveal, record, dry_run, commit, any_public),
            public_from != "labelled",
            *(mode not in (None, "hidden"), robust != "none", bool(device)),
        )
        queue_request(
            target.folder, label or (), alone=not any(flags) and not any(others), json=json
        )
        return
    people = ids is not None
    wanted = read_ids(ids) if ids is not None else []
    if people and not wanted:
        raise ForgetError(f"'{ids}' names nobody; give at least one id.")
    name, chosen = _choose(method, preset, mode, people=people)
    made: Method = parse_settings(METHODS.get(name), set_ or [], chosen.method)

    # Drawn once: a partner that leaves and returns is told the same again, not more.
    key = None if people else secrets.token_hex(32)

    def carry_out(opened: Federation) -> Outcome | None:
        task, request = erasure.plan(
            opened,
            labels=label or (),
            ids=wanted,
            public=public,
            few_shot=chosen.few_shot if few_shot is None else few_shot,
            retained=chosen.retained if retained is None else retained,
            robust=robust,  # type: ignore[arg-type]
            secret=secret,
            cover=cover,
            again=again,
            mode=mode,  # type: ignore[arg-type]
            key=key,
            public_from=public_from,  # type: ignore[arg-type]
            any_public=any_public,
        )
        expect_fits(task, request, made, name)
        if commit and made.is_control():
            raise ForgetError(CONTROL)
        if dry_run:
            explain(task, request, name, made, json=json)
            return None
        with StepBar(messages, "forgetting") as bar:
            return erasure.run_request(opened, task, request, made, bar.step, reveal=reveal)

    with target.open(device=device, record=record) as opened:
        outcome = opened.lasting(lambda: carry_out(opened))
        if outcome is None:
            return
        if commit:
            decided = outcome
            opened.lasting(lambda: _commit(opened, decided))
    result = {**outcome.to_json(), "committed": commit, **target.json()}
    if json:
        print_json(result)
    else:
        show(outcome.result, made, opened.labels, target, committed=commit)


def _commit(opened: Federation, outcome: Outcome) -> None:
    """Commit what was staged, unless that was done before a party got lost."""
    if erasure.is_committed(opened, outcome.result.request):
        outcome.staged = False
    else:
        outcome.commit()


def _choose(
    name: str | None, preset: str | None, mode: str | None, *, people: bool
) -> tuple[str, Preset]:
    """Return a method by name with its default settings, or with those of a preset."""
    name, made = erasure.make_method(name, people, mode)  # type: ignore[arg-type]
    if preset is None:
        return name, Preset(made, few_shot=40, retained=3)
    presets = made.presets()
    if not presets:
        raise SettingsError(f"Method '{name}' has no presets; leave --preset out.")
    if preset not in presets:
        raise SettingsError(unknown(f"preset of '{name}'", preset, presets))
    return name, presets[preset]
