"""`unlabel bench paper`: a table or figure of the paper by name."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from unlabel.cli.output import Json, messages, print_json, print_table
from unlabel.errors import SettingsError
from unlabel.files import write_atomically
from unlabel_bench.paper.entry import ENTRIES, STATUSES
from unlabel_bench.paper.paper import ALL, PaperSettings, measure, table
from unlabel_bench.provenance import provenance


def paper(
    name: Annotated[
        str, typer.Argument(help="A table or figure by name, or `all`; see --list.")
    ] = "",
    list_: Annotated[
        bool, typer.Option("--list", help="List all tables and figures with their status.")
    ] = False,
    small: Annotated[
        bool, typer.Option("--small", help="Measure the small form, on data everybody has.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=0, help="How many seeds; 0: as the entry says.")] = 0,
    folder: Annotated[Path | None, typer.Option(help="Where the files of the data lie.")] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="PART=FILE", help="The data of a part that cannot be fetched."),
    ] = None,
    part: Annotated[list[str] | None, typer.Option(help="One part alone; may be repeated.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting for every run of it."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="JSON file; records, pages and pictures go beside it.")
    ] = None,
    json: Json = False,
) -> None:
    """Measure a table or figure of the paper, whole or small, beside the paper's figures."""
    if list_:
        _list(json)
        return
    if not name:
        raise SettingsError(
            f"Expected the name of a table or figure, or '{ALL}'; `unlabel bench paper --list` "
            f"names them."
        )
    if out is not None and (not out.name or out.is_dir()):
        raise SettingsError(f"Expected `--out` to be a file but got the folder '{out}'.")
    settings = PaperSettings(
        entry=name,
        small=small,
        parts=tuple(part or ()),
        seeds=seeds,
        folder=str(folder or ""),
        given=tuple(data or ()),
        more=";".join(set_ or ()),
        out=str(out or ""),
    )
    with messages.status(name) as status:
        measured = measure(settings, lambda text: status.update(f"{name}: {text}"))
    result = {"bench": "paper", **measured, **provenance(settings)}
    if out is not None:
        write_atomically(out, (jsonlib.dumps(result, indent=2) + "\n").encode())
    if json:
        print_json(result)
    else:
        title = measured.get("title", "Tables and figures of the paper")
        print_table(title, table(result))


def _list(json: bool) -> None:
    entries = ENTRIES.values()
    if json:
        print_json({"statuses": dict(STATUSES), "entries": [entry.as_data() for entry in entries]})
        return
    rows = [["name", "where", "status", "what"]]
    rows += [[entry.name, entry.where, entry.status(), entry.title] for entry in entries]
    caption = "; ".join(f"{status}: {meaning}" for status, meaning in STATUSES.items())
    print_table("Tables and figures of the paper", rows, caption)
