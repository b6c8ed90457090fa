"""`unlabel bench scoreboard`: one page and one file of all recorded methods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from unlabel.cli.output import print_table
from unlabel.errors import SettingsError
from unlabel.files import write_atomically
from unlabel_bench.scoreboard.page import page
from unlabel_bench.scoreboard.rows import read

NAME = "scoreboard"


def written(results: Path) -> dict[str, str]:
    """Return page and data of the records in a folder, by the names of their files.

    No date and no machine: the same records make the same files, so that a test can compare.
    """
    rows = read(results)
    lines = ",\n".join(json.dumps(row) for row in rows)
    head = f'{{"bench": "{NAME}", "command": "unlabel bench {NAME}", "rows": [\n'
    return {
        f"{NAME}.html": page(rows, results),
        f"{NAME}.json": f"{head}{lines}\n]}}\n",
    }


def scoreboard(
    results: Annotated[
        Path, typer.Option(help="Folder of the records; the two files are written there.")
    ] = Path("results"),
) -> None:
    """Write every recorded method on every dataset as one page and one file of data."""
    if not results.is_dir():
        raise SettingsError(f"Expected `--results` to be a folder of records but got '{results}'.")
    texts = written(results)
    for name, text in texts.items():
        write_atomically(results / name, text.encode())
    rows = [["file", "bytes"], *([str(results / name), str(len(t))] for name, t in texts.items())]
    print_table("Scoreboard", rows)
