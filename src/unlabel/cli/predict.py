"""`unlabel predict`: labels of new rows, through all parties."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unlabel.cli.output import Json, messages, percent, print_json, print_table
from unlabel.cli.target import Kit, Run, Target
from unlabel.errors import UsageError
from unlabel.files import write_atomically

if TYPE_CHECKING:
    from unlabel.train.predictions import Predictions

SHOWN = 20


def predict(
    run: Run = None,
    federation: Kit = None,
    table: Annotated[
        list[str] | None,
        typer.Option(help="A party's file of new rows, as NAME=FILE; once for each party."),
    ] = None,
    data: Annotated[str | None, typer.Option(help="An .npz file whose `x` holds new rows.")] = None,
    part: Annotated[
        str, typer.Option(help="The run's own rows: test, validation, train or public.")
    ] = "test",
    out: Annotated[Path | None, typer.Option(help="Write a CSV file here.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto; the run's own by default.")] = "",
    json: Json = False,
) -> None:
    """Predict new rows; without new rows, the run's own test rows or those of another --part.

    Example: unlabel predict runs/loans --table host=new.csv --out predictions.csv

    In a federation --table active=new.csv names new people, whom the others find among their own.
    """
    target = Target.of(run, federation)
    tables = _parse_tables(table or [])
    # A list of the run's own people is no answer in need, for which fewer parties would do.
    with target.open(device=device, fewer=part == "test") as opened:
        target.note_unfinished(opened)
        found = opened.predict(tables=tables, data=data, part=part)
    if out is not None:
        write_atomically(out, _to_csv(found).encode())
    best = found.probabilities.max(1).tolist()
    rows = list(zip(found.ids.tolist(), found.labels, best, strict=True))
    if json:
        result: dict[str, object] = {"rows": len(rows), **target.json(), **_marks(found)}
        if out is not None:
            result["out"] = str(out)
        else:
            result["predictions"] = [{"id": i, "label": x, "probability": p} for i, x, p in rows]
        print_json(result)
        return
    shown = [["id", "label", "probability"], *([i, x, percent(p)] for i, x, p in rows[:SHOWN])]
    caption = f"the first {SHOWN} of {len(rows)}" if len(rows) > SHOWN else None
    without = f", WITHOUT {', '.join(found.without)}" if found.without else ""
    print_table(f"{len(rows)} predictions{without}", shown, caption)
    if found.without:
        messages.print(
            f"Down: {', '.join(found.without)}. The others answered alone, which is less accurate."
        )
    if found.unknown:
        messages.print(f"{found.unknown} more were left out: not every party knows them.")
    for note in found.notes:
        messages.print(note)
    if out is not None:
        messages.print(f"Written to {out}.")


def _parse_tables(given: list[str]) -> dict[str, Path]:
    tables = {}
    for text in given:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise UsageError(f"Expected `--table` like host=new.csv but got '{text}'.")
        tables[name] = Path(path)
    return tables


def _marks(found: Predictions) -> dict[str, object]:
    """Return what a reader must know of how the answer came about, where there is anything."""
    without = {"without": list(found.without)} if found.without else {}
    notes = {"notes": list(found.notes)} if found.notes else {}
    return {**without, **({"unknown": found.unknown} if found.unknown else {}), **notes}


def _to_csv(found: Predictions) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    mark = ["without"] if found.without else []
    without = [" ".join(found.without)] if found.without else []
    truth = ["true_label"] if found.truth is not None else []
    writer.writerow(["id", "label", *truth, *mark, *(f"p_{name}" for name in found.names)])
    for index, (row_id, label) in enumerate(zip(found.ids.tolist(), found.labels, strict=True)):
        chances = (f"{p:.6f}" for p in found.probabilities[index].tolist())
        known = [found.truth[index]] if found.truth is not None else []
        writer.writerow([row_id, label, *known, *without, *chances])
    return text.getvalue()
