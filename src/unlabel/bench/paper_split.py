"""Who sees what of one row: an image in strips, an object in views, a text in stretches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unlabel.bench.pictures import expect_plots, new_plot, save
from unlabel.bench.registry import BENCHES, Bench
from unlabel.data import Columns, load_dataset, split_features
from unlabel.data.splits import split_texts
from unlabel.errors import SettingsError
from unlabel.words import parse_settings


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


def run(settings: SplitSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Split a row as a run would, and tell what each party holds."""
    expect_plots(settings.picture)
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
        parts = split_features(dataset, settings.parties)
        held = {name: part[settings.row].tolist() for name, part in parts.items()}
    result = {
        "layout": dataset.layout,
        "label": dataset.labels[int(dataset.y[settings.row])],
        "whole": whole if dataset.layout == "text" else whole.tolist(),
        "held": held,
    }
    if settings.picture:
        draw(result, Path(settings.picture))
    return result


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return what each party holds."""
    rows = [["party", "holds"]]
    for name, part in {"all together": result["whole"], **result["held"]}.items():
        shape = " x ".join(map(str, np.shape(part)))
        text = part if result["layout"] == "text" else f"{result['layout']} of shape {shape}"
        rows.append([name, text])
    return rows


def draw(result: dict[str, Any], path: Path) -> None:
    """Write the picture: the whole row, and each party's part of it."""
    pyplot = new_plot()
    shown = {"all together": result["whole"], **result["held"]}
    height = 1.6 if result["layout"] == "text" else 2.6
    size = (9.0, height * len(shown) / 2) if result["layout"] == "text" else (9.0, height)
    across = result["layout"] != "text"
    figure, panels = pyplot.subplots(
        *((1, len(shown)) if across else (len(shown), 1)), figsize=size
    )
    for axes, (name, part) in zip(panels, shown.items(), strict=True):
        axes.set_title(name, fontsize=9, loc="left")
        axes.set_axis_off()
        if across:
            axes.imshow(_pixels(part, result["layout"]), cmap="gray_r", interpolation="nearest")
        else:
            axes.text(0, 0.5, part, fontsize=10, va="center", wrap=True)
    figure.suptitle(f"One row of label '{result['label']}'", fontsize=10)
    figure.tight_layout()
    save(pyplot, figure, path)


def _pixels(part: Any, layout: str) -> Any:
    """Return a picture of a part: views side by side with a blank column between them."""
    values = np.asarray(part, dtype=np.uint8)
    if layout == "views":
        blank = np.full((values.shape[1], 1), 0, dtype=np.uint8)
        return np.hstack([x for view in values for x in (view, blank)][:-1])
    return values[0] if len(values) == 1 else values.transpose(1, 2, 0)


BENCHES.add(
    "paper-split",
    Bench("who sees what of one row: strips, views, stretches of text", SplitSettings, run, table),
)
