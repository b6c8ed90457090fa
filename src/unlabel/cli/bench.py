"""`unlabel bench`: measurements with a name."""

from __future__ import annotations

import json as jsonlib
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from unlabel.bench.provenance import provenance
from unlabel.bench.registry import BENCHES, Bench
from unlabel.cli.output import Json, messages, print_json, print_table
from unlabel.files import write_atomically
from unlabel.words import parse_settings

app = typer.Typer(help="Measure; see `unlabel bench list`.", no_args_is_help=True)


@app.command("list")
def list_(json: Json = False) -> None:
    """List the benches and their settings."""
    found = {name: BENCHES.get(name) for name in BENCHES.names()}
    if json:
        print_json(
            {
                "benches": [
                    {
                        "name": name,
                        "about": b.about,
                        "settings": [f.name for f in fields(b.settings)],
                    }
                    for name, b in found.items()
                ]
            }
        )
        return
    rows = [["name", "about"], *([name, bench.about] for name, bench in found.items())]
    print_table("Benches", rows)


def _command(name: str, bench: Bench) -> Any:
    def run(
        set_: Annotated[
            list[str] | None,
            typer.Option("--set", help="A setting as NAME=VALUE; lists with commas."),
        ] = None,
        out: Annotated[Path | None, typer.Option(help="Also write the JSON here.")] = None,
        json: Json = False,
    ) -> None:
        settings = parse_settings(bench.settings, set_ or [])
        with messages.status(name) as status:
            found = bench.run(settings, lambda text: status.update(f"{name}: {text}"))
        result = {"bench": name, **found, **provenance(settings)}
        if out is not None:
            write_atomically(out, (jsonlib.dumps(result, indent=2) + "\n").encode())
        if json:
            print_json(result)
        else:
            print_table(bench.about, bench.table(result))

    run.__doc__ = f"{bench.about[0].upper()}{bench.about[1:]}.\n\n{bench.settings.__doc__ or ''}"
    return run


for _name in BENCHES.names():
    app.command(_name)(_command(_name, BENCHES.get(_name)))
