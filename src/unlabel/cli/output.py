"""What a person sees: tables and messages on one side, one JSON object on the other."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

#: Progress, messages and errors go here, so that standard output holds results only.
messages = Console(stderr=True, highlight=False, markup=False, emoji=False)
results = Console(highlight=False)

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output and nothing else.")
]


def print_json(result: dict[str, Any]) -> None:
    """Print one JSON object on standard output."""
    typer.echo(json.dumps(result, indent=2))


def say(sentence: str | Text) -> None:
    """Print a message for people, without line breaks of its own."""
    messages.print(sentence, soft_wrap=True)


def print_result(facts: dict[str, Any], sentence: str, *, json: bool) -> None:
    """Print the result of a command: facts as JSON, or a sentence for people."""
    if json:
        print_json(facts)
    else:
        say(sentence)


def print_table(
    title: str, rows: Sequence[Sequence[str]], caption: str | None = None, *, lines: bool = False
) -> None:
    """Print rows as a table; the first is the heading, and a [label] stays as it is."""
    plain = [[Text(cell) for cell in row] for row in rows]
    below = Text(caption, style="table.caption") if caption else None
    results.print(make_table(title, plain, below, lines=lines))


def make_table(
    title: str,
    rows: Sequence[Sequence[str | Text]],
    caption: str | Text | None = None,
    *,
    lines: bool = False,
) -> Table:
    """Return rows as a table; the first is the heading, and columns with figures lie right.

    lines  draw one between rows, where rows are higher than a line
    """
    table = Table(
        title=title, caption=caption, title_justify="left", caption_justify="left", show_lines=lines
    )
    for index, heading in enumerate(rows[0]):
        cells = [str(row[index]) for row in rows[1:] if str(row[index]) != "-"]
        texts = [cell for cell in cells if cell[:1].isalpha()]
        left = index == 0 or len(texts) > len(cells) / 2
        table.add_column(heading, justify="left" if left else "right")
    for row in rows[1:]:
        table.add_row(*row)
    return table


def percent(share: float | None) -> str:
    """Return a share as text for people.

    >>> percent(0.9777)
    '97.8 %'
    """
    return "-" if share is None else f"{100 * share:.1f} %"


def to_svg(shown: RenderableType, title: str) -> str:
    """Return what a terminal would show as a picture that needs no font from elsewhere."""
    console = Console(record=True, width=88, file=io.StringIO(), highlight=False)
    console.print(shown)
    return re.sub(r"@font-face\s*{.*?}", "", console.export_svg(title=title), flags=re.DOTALL)
