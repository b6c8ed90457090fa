"""Who sees what of one row: an image in strips, an object in views, a text in stretches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unlabel.config import Columns
from unlabel.data import load_dataset, split_features
from unlabel.data.splits import split_texts
from unlabel.errors import SettingsError
from unlabel.words import parse_settings
from unlabel_bench.drawing import Panel, Picture
from unlabel_bench.registry import BENCHES, Bench, Result, Say


@dataclass(frozen=True)
class SplitSettings:
    """Settings of the bench.

    data     a built-in dataset or a file
    folder   where its files lie; no part of what is recorded
    split    views, where an .npz file holds some
    columns  of a CSV or Parquet file, as NAME=VALUE
    parties  how many
    row      of the dataset that is shown
    picture  PNG file to draw into; needs matplotlib
    """

    data: str = "digits"
    folder: str = ""
    split: str = ""
    columns: tuple[str, ...] = ()
    parties: int = 2
    row: int = 0
    picture: str = ""


def measure(settings: SplitSettings, say: Say) -> Result:
    """Split a row as a run would, and tell what each party holds."""
    say(settings.data)
    dataset = load_dataset(
        settings.data,
        Path(settings.folder) if settings.folder else None,
        views=settings.split == "views",
        columns=parse_settings(Columns, settings.columns),
    )
    if not 0 <= settings.row < len(dataset.y):
        raise SettingsError(
            f"Expected `row` to be from 0 to {len(dataset.y) - 1} but got {settings.row}."
        )
    whole = dataset.x[settings.row]
    held: dict[str, Any]
    if dataset.layout == "text":
        held = {name: part[0] for name, part in split_texts([whole], settings.parties).items()}
    else:
        parts = split_features(dataset.x, dataset.layout, settings.parties, blocks=dataset.blocks)
        held = {name: part[settings.row].tolist() for name, part in parts.items()}
    return {
        "layout": dataset.layout,
        "label": dataset.labels[int(dataset.y[settings.row])],
        "whole": whole if dataset.layout == "text" else whole.tolist(),
        "held": held,
    }


def table(result: Result) -> list[list[str]]:
    """Return what each party holds."""
    rows = [["party", "holds"]]
    for name, part in {"all together": result["whole"], **result["held"]}.items():
        shape = " x ".join(map(str, np.shape(part)))
        text = part if result["layout"] == "text" else f"{result['layout']} of shape {shape}"
        rows.append([name, text])
    return rows


def picture(result: Result) -> Picture:
    """Return the whole row, and each party's part of it."""
    parts = {"all together": result["whole"], **result["held"]}
    text = result["layout"] == "text"
    titled = {"fontsize": 9, "loc": "left"}
    look = {"xycoords": "axes fraction", "fontsize": 10, "va": "center", "wrap": True}
    panels = [
        Panel(
            [],
            title=name,
            titled=titled,
            bare=True,
            image=None if text else _pixels(part, result["layout"]),
            texts=[(part, (0, 0.5), look)] if text else [],
        )
        for name, part in parts.items()
    ]
    return Picture(
        [[panel] for panel in panels] if text else [panels],
        (9.0, 0.8 * len(parts)) if text else (9.0, 2.6),
        f"One row of label '{result['label']}'",
        title_size=10,
    )


def _pixels(part: Any, layout: str) -> Any:
    """Return a picture of a part: views side by side with a blank column between them."""
    values = np.asarray(part, dtype=np.uint8)
    if layout == "views":
        blank = np.full((values.shape[1], 1), 0, dtype=np.uint8)
        return np.hstack([x for view in values for x in (view, blank)][:-1])
    return values[0] if len(values) == 1 else values.transpose(1, 2, 0)


BENCHES.add(
    "paper-split",
    Bench(
        "who sees what of one row: strips, views, stretches of text",
        SplitSettings,
        measure,
        table,
        picture=picture,
    ),
)
