"""`unlabel predict`: labels of new rows, through all parties."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unlabel.cli.output import Json, percent, print_json, print_table, say
from unlabel.cli.target import Device, Kit, Run, Target
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
    device: Device = "",
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
        predictions = opened.predict(tables=tables, data=data, part=part)
    if out is not None:
        write_atomically(out, _to_csv(predictions).encode())
    best = predictions.probabilities.max(1).tolist()
    rows = list(zip(predictions.ids.tolist(), predictions.labels, best, strict=True))
    if json:
        # What a reader must know of how the answer came about, where there is anything.
        facts = {name: getattr(predictions, name) for name in ("without", "unknown", "notes")}
        marks = {name: value for name, value in facts.items() if value}
        result: dict[str, object] = {"rows": len(rows), **target.json(), **marks}
        if out is not None:
            result["out"] = str(out)
        else:
            result["predictions"] = [{"id": i, "label": x, "probability": p} for i, x, p in rows]
        print_json(result)
        return
    shown = [["id", "label", "probability"], *([i, x, percent(p)] for i, x, p in rows[:SHOWN])]
    caption = f"the first {SHOWN} of {len(rows)}" if len(rows) > SHOWN else None
    without = f", WITHOUT {', '.join(predictions.without)}" if predictions.without else ""
    print_table(f"{len(rows)} predictions{without}", shown, caption)
    if predictions.without:
        say(
            f"Down: {', '.join(predictions.without)}. The others answered alone, which is less "
            f"accurate."
        )
    if predictions.unknown:
        say(f"{predictions.unknown} more were left out: not every party knows them.")
    for note in predictions.notes:
        say(note)
    if out is not None:
        say(f"Written to {out}.")


def _parse_tables(texts: list[str]) -> dict[str, Path]:
    tables = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise UsageError(f"Expected `--table` like host=new.csv but got '{text}'.")
        tables[name] = Path(path)
    return tables


def _to_csv(predictions: Predictions) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    mark = ["without"] if predictions.without else []
    without = [" ".join(predictions.without)] if predictions.without else []
    truth = ["true_label"] if predictions.truth is not None else []
    writer.writerow(["id", "label", *truth, *mark, *(f"p_{name}" for name in predictions.names)])
    for index, (row_id, label) in enumerate(
        zip(predictions.ids.tolist(), predictions.labels, strict=True)
    ):
        chances = (f"{p:.6f}" for p in predictions.probabilities[index].tolist())
        known = [predictions.truth[index]] if predictions.truth is not None else []
        writer.writerow([row_id, label, *known, *without, *chances])
    return text.getvalue()
