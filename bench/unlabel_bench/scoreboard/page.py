"""The scoreboard as one HTML page that loads nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from math import floor, log10
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from unlabel_bench.markdown import plain_name
from unlabel_bench.scoreboard.plot import legend, plot
from unlabel_bench.scoreboard.rows import Row, data_name, group

#: What the columns mean, for who does not know the paper's words.
COLUMNS = (
    ("retained", "accuracy on test rows of the labels that stay, %"),
    ("forgotten", "accuracy on those of the forgotten label, %: the aim is 0"),
    ("attack ratio", "membership attack's success over that on a retrained model: the aim is 1"),
    (
        "residual",
        "what a linear probe finds of the label in the partners' models: 1 as before, 0 as "
        "retrained; none where the two are too near to tell",
    ),
    (
        "depth",
        "which models have lost it. Known where a request is exact; else only what the method "
        "aims at is shown, as no record here holds an audit",
    ),
    ("visibility", "whether partners can tell what was forgotten"),
    ("seconds", "of a first request, and of a warm one where it was repeated"),
)
#: Columns and whether they hold numbers.
HEADS = {
    "method": False,
    "retained": True,
    "forgotten": True,
    "attack ratio": True,
    "residual": True,
    "depth": False,
    "visibility": False,
    "guarantee": False,
    "seconds, first": True,
    "seconds, warm": True,
    "bytes": True,
    "runs": True,
    "forgets": False,
    "bottoms": False,
    "data": False,
    "model x parties": False,
    "record": False,
}


@dataclass(frozen=True)
class Cell:
    """What a cell shows, what it is sorted by, and where it leads."""

    text: str = ""
    value: float | None = None
    apart: str = ""
    link: str = ""


def page(rows: list[Row], folder: Path) -> str:
    """Return the page of rows whose records lie in a folder."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    names = list(dict.fromkeys(row["data"] for row in rows))
    return environment.from_string(_text("page.html")).render(
        style=Markup(_text("page.css", "unlabel.report") + _text("page.css")),
        script=Markup(_text("page.js")),
        columns=COLUMNS,
        plot=plot(rows),
        legend=legend(),
        heads=list(HEADS),
        numbers=[number for number, is_number in enumerate(HEADS.values()) if is_number],
        data=names,
        # The paper's main case, where it is among them.
        first="CIFAR-10" if "CIFAR-10" in names else "",
        models=sorted({_model(row) for row in rows}),
        first_model="resnet18 x 2" if "CIFAR-10" in names else "",
        methods=sorted({plain_name(row["method"]).partition(" ")[0] for row in rows}),
        rows=[
            {
                "data": row["data"],
                "model": _model(row),
                "plain": plain_name(row["method"]).partition(" ")[0],
                "group": group(row),
                "cells": cells(row),
            }
            for row in rows
        ],
        records=[
            {"name": name, "about": _about(folder / name)}
            for name in dict.fromkeys(row["record"] for row in rows)
        ],
    )


def _text(name: str, package: str = "unlabel_bench.scoreboard") -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")


def cells(row: Row) -> list[Cell]:
    """Return what a row shows, in the order of `HEADS`."""
    swept = ", settings swept" if row["swept"] else ""
    failed = f", {row['failed']} failed" if row["failed"] else ""
    depth = row["depth"] or (f"aims at {row['aim']}" if row["aim"] else "")
    return [
        Cell(f"{row['method'].partition('@')[0] + _settings(row['method'])}{swept}"),
        *(_figure(row[name], 1) for name in ("retained", "forgotten")),
        *(_figure(row[name], 2) for name in ("attack_ratio", "residual")),
        Cell(depth),
        Cell(row["visibility"] or ""),
        Cell(row["guarantee"] or ""),
        *(_digits(row[name]) for name in ("seconds_first", "seconds_warm")),
        _sent(row["bytes"]),
        Cell(f"{row['runs']}{failed}", float(row["runs"])),
        Cell(_request(row["request"])),
        Cell(row["bottoms"]),
        Cell(row["data"]),
        Cell(_model(row)),
        Cell("record", link=row["record"]),
    ]


def _model(row: Row) -> str:
    return f"{row['model']} x {row['parties']}"


def _settings(method: str) -> str:
    """Return a method's preset and settings as words that break between them."""
    _, at, rest = method.partition("@")
    return f" @ {rest}".replace(":", " ") if at else ""


def _request(request: str) -> str:
    """Return a request for people.

    >>> _request("0+2"), _request("3"), _request("each of 10 labels")
    ('labels 0, 2', 'label 3', 'each of 10 labels')
    """
    if not request.replace("+", "").isdigit():
        return request
    return f"label{'s' if '+' in request else ''} {request.replace('+', ', ')}"


def _figure(known: dict[str, Any] | None, digits: int) -> Cell:
    if known is None:
        return Cell()
    mean = round(known["mean"], digits) + 0.0  # no minus before a zero
    apart = "" if known["deviation"] is None else f"{known['deviation']:.{digits}f}"
    return Cell(f"{mean:.{digits}f}", known["mean"], apart)


def _digits(known: dict[str, Any] | None) -> Cell:
    """Return seconds in three digits."""
    if known is None:
        return Cell()
    places = max(0, 2 - floor(log10(known["mean"]))) if known["mean"] > 0 else 3
    return _figure(known, places)


def _sent(known: dict[str, Any] | None) -> Cell:
    """Return bytes with a unit; they do not differ between seeds by more than a rounding."""
    if known is None:
        return Cell()
    value, unit = float(known["mean"]), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return Cell(f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}", known["mean"])


def _about(path: Path) -> str:
    """Return what a record says of where it comes from."""
    record = json.loads(path.read_text(encoding="utf-8"))
    about, settings = record.get("about", {}), record["settings"]
    devices = dict.fromkeys(
        line["where"]["device"]
        for line in (record.get("records") or record.get("lines") or ())
        if "where" in line
    )
    device = ", ".join(devices) or settings.get("device", "")
    what = f"{data_name(settings['data'])}, {settings['model']}, {settings['epochs']} epochs"
    note = about.get("note") or settings.get("note") or ""
    return f"{what}; {device}; {record['date'][:10]}. {note}".strip()
