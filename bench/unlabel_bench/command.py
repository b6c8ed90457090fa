"""`unlabel bench`: measurements with a name."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Sequence
from dataclasses import fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from unlabel.cli.output import Json, messages, print_json, print_table
from unlabel.errors import SettingsError
from unlabel.files import write_atomically
from unlabel.words import parse_settings
from unlabel_bench import paper_command, scoreboard_command
from unlabel_bench.drawing import can_draw
from unlabel_bench.meanings import meanings
from unlabel_bench.provenance import provenance
from unlabel_bench.registry import BENCHES, Bench

#: Files of a bench that stand beside its JSON, by the setting that names them.
BESIDE = {"records": ".jsonl", "page": ".md", "picture": ".png"}

app = typer.Typer(help="Measure; see `unlabel bench list`.", no_args_is_help=True)


@app.command("list")
def list_(json: Json = False) -> None:
    """List the benches and their settings."""
    benches = {name: BENCHES.get(name) for name in BENCHES.names()}
    if json:
        print_json(
            {
                "benches": [
                    {
                        "name": name,
                        "about": b.about,
                        "settings": [f.name for f in fields(b.settings)],
                    }
                    for name, b in benches.items()
                ]
            }
        )
        return
    rows = [["name", "about"], *([name, bench.about] for name, bench in benches.items())]
    print_table("Benches", rows)


def _command(name: str, bench: Bench) -> Any:
    def run(**options: Any) -> None:
        out: Path | None = options.pop("out")
        json: bool = options.pop("json")
        if out is not None and (not out.name or out.is_dir()):
            raise SettingsError(f"Expected `--out` to be a file but got the folder '{out}'.")
        words = [*(options.pop("set_") or []), *_words(options)]
        settings = parse_settings(bench.settings, [*_beside(bench, out, words), *words])
        with messages.status(name) as status:
            measured = bench.run(settings, lambda text: status.update(f"{name}: {text}"))
        result = {"bench": name, **measured, **provenance(settings)}
        if out is not None:
            write_atomically(out, (jsonlib.dumps(result, indent=2) + "\n").encode())
        if json:
            print_json(result)
        else:
            print_table(bench.about, bench.table(result))

    # Typer reads the options from the signature, and they are the fields of the settings.
    run.__signature__ = Signature([*_options(bench), *_SHARED])  # type: ignore[attr-defined]
    run.__annotations__ = {}
    run.__doc__ = f"{bench.about[0].upper()}{bench.about[1:]}."
    return run


_SHARED = [
    Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
    for name, default, annotation in (
        (
            "set_",
            None,
            Annotated[
                list[str] | None,
                typer.Option("--set", help="A setting as NAME=VALUE, as an option of its own is."),
            ],
        ),
        (
            "out",
            None,
            Annotated[
                Path | None,
                typer.Option(help="Also write the JSON here, and beside it what else there is."),
            ],
        ),
        ("json", False, Json),
    )
]


def _options(bench: Bench) -> list[Parameter]:
    """Return an option for each setting."""
    texts, hints = meanings(bench.settings), get_type_hints(bench.settings)
    start = bench.settings()
    options = []
    for field in fields(bench.settings):
        flag = f"--{field.name.replace('_', '-')}"
        switch = hints[field.name] is bool
        option = typer.Option(
            f"{flag}/--no-{flag[2:]}" if switch else flag,
            help=texts.get(field.name, ""),
            show_default=_in_words(getattr(start, field.name)) or False,
            metavar=None if switch else _sort(hints[field.name]),
        )
        kind: Any = bool | None if switch else str | None
        options.append(
            Parameter(
                field.name,
                Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[kind, option],
            )
        )
    return options


def _sort(hint: Any) -> str:
    """Return what an option's value looks like."""
    listed = {tuple[int, ...]: "INT,INT,..", tuple[float, ...]: "FLOAT,FLOAT,.."}
    plain = {int: "INT", float: "FLOAT", str: "TEXT"}
    return listed.get(hint) or plain.get(hint) or "TEXT,TEXT,.."


def _in_words(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _words(options: dict[str, Any]) -> list[str]:
    """Return the options that have a value as NAME=VALUE."""
    return [f"{name}={_in_words(value)}" for name, value in options.items() if value is not None]


def _beside(bench: Bench, out: Path | None, words: Sequence[str]) -> list[str]:
    """Return where the files go that stand beside the JSON, unless the words say otherwise."""
    if out is None:
        return []
    named = {word.partition("=")[0] for word in words}
    free = {field.name for field in fields(bench.settings)} - named
    return [
        f"{name}={out.with_suffix(ending)}"
        for name, ending in BESIDE.items()
        if name in free and (name != "picture" or can_draw())
    ]


#: Commands whose options are not the fields of their settings.
SPECIAL = {"paper": paper_command.paper}

app.command(scoreboard_command.NAME)(scoreboard_command.scoreboard)
for _name in BENCHES.names():
    app.command(_name)(SPECIAL.get(_name) or _command(_name, BENCHES.get(_name)))
