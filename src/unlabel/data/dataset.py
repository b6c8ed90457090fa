"""What a dataset is before it is split between parties, and where datasets come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from unlabel.errors import DataError, SettingsError
from unlabel.registry import Registry

Array = npt.NDArray[Any]
Layout = Literal["image", "views", "table", "text"]
Augment = Literal["none", "crop", "crop-flip"]
Colour = Literal["auto", "grey", "colour"]
#: Is told how many files of how many are read, and the name of the last.
Watch = Callable[[int, int, str], None]


def watch_nothing(done: int, total: int, note: str) -> None:
    """Watch nothing."""


@dataclass(frozen=True)
class Dataset:
    """Features and labels of the same people, still in one piece.

    x       [N, C, H, W] uint8 for images, [N, V, H, W] uint8 for V grey views of an object,
            [N, D] floating-point for a table, [N] Python strings for texts
    y       [N] int64, 0 .. C-1
    labels  the name of each label
    test    the rows of the official test part; empty where there is none and a share is drawn
    augment what training may do to an image of this kind without changing its label
    blocks  for a table, how many numbers each of its columns became; empty where it is one each,
            and no number is missing
    marks   for a table with blocks, which of its numbers are marks, 0 or 1, and no amounts
    notes   what a person should know before trusting a figure of it, a sentence each
    ids     [N] what the rows are called, each differently; their numbers where it is empty
    """

    name: str
    x: Array
    y: Array
    labels: tuple[str, ...]
    layout: Layout = "image"
    test: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    augment: Augment = "none"
    blocks: tuple[int, ...] = ()
    marks: Array = field(default_factory=lambda: np.empty(0, dtype=bool))
    notes: tuple[str, ...] = ()
    ids: Array = field(default_factory=lambda: np.empty(0, dtype=str))

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

    def row_names(self) -> Array:
        """Return what the rows are called: their ids, or their numbers from 0, as text."""
        return self.ids if len(self.ids) else np.arange(len(self.y)).astype(str)


@dataclass(frozen=True)
class Pictures:
    """How pictures are made of files that hold other sizes, or no pictures at all.

    size    pixels along each side
    colour  grey, colour, or auto: grey where all pictures are
    views   of a mesh, from cameras that stand evenly around it; 0 is as many as the parties hold,
            one each
    """

    size: int = 64
    colour: Colour = "auto"
    views: int = 0

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a plain dict that pydantic reads)

    def __post_init__(self) -> None:
        if not 8 <= self.size <= 1024:
            raise SettingsError(f"Expected `size` to be 8 to 1024 pixels but got {self.size}.")
        if self.views < 0:
            raise SettingsError(f"Expected `views` to be 0 or more but got {self.views}.")


@dataclass(frozen=True)
class Source:
    """Where a named dataset comes from.

    about   one line for `unlabel data list`
    load    read it: from the folder the user names, or from the cache when that is None
    fetch   bring it into the cache with an ordinary package client; None where that cannot be done
    ready   whether `load(None)` would work now
    draw    read it from such a folder into pictures as they are asked for, where its files can be
            made into any, and tell how many files are done
    """

    about: str
    load: Callable[[Path | None], Dataset]
    fetch: Callable[[], Path] | None
    ready: Callable[[], bool]
    draw: Callable[[Path | None, Pictures, Watch], Dataset] | None = None


SOURCES: Registry[Source] = Registry("dataset", package="unlabel.data")


#: How the names of files end that hold a dataset of a user's own.
ARRAYS, SHEETS = (".npz",), (".csv", ".csv.gz", ".parquet")


@dataclass(frozen=True)
class Columns:
    """What the columns of a CSV or Parquet file are, where it is the whole data of a run.

    label       column of labels
    text        column of texts; without it all other columns are a table
    split       column that says `test` of the rows to test on; a share is drawn without it
    test        file of the rows to test on, beside the first one
    id          column that names the rows, each differently, and is no feature; without it a row
                goes by its number, from 0
    categories  columns of a table whose numbers are codes of categories; text is taken for one
    missing     values of a table: refuse, mean, flag or drop, as in the tables of parties
    """

    label: str = "label"
    text: str = ""
    split: str = ""
    test: str = ""
    id: str = ""
    categories: tuple[str, ...] = ()
    missing: Literal["refuse", "mean", "flag", "drop"] = "refuse"

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012  (a plain dict that pydantic reads)


def is_file_name(name: str) -> bool:
    """Return whether a dataset is named by its file.

    >>> is_file_name("people.csv.gz"), is_file_name("digits")
    (True, False)
    """
    return name.endswith(ARRAYS + SHEETS)


def load_dataset(
    name: str,
    folder: Path | None = None,
    views: bool = False,
    columns: Columns | None = None,
    pictures: Pictures | None = None,
    watch: Watch = watch_nothing,
) -> Dataset:
    """Load a built-in dataset by name, or a file of a user's own by path, taken from `folder`.

    views    an `.npz` file holds views of objects
    columns  what the columns of a CSV or Parquet file are
    pictures how pictures are made, of a dataset whose files can be made into any
    watch    is told how many of those files are read

    >>> load_dataset("digits").x.shape
    (1797, 1, 8, 8)
    """
    if not is_file_name(name):
        source = SOURCES.get(name)
        if source.draw is None:
            return source.load(folder)
        return source.draw(folder, pictures or Pictures(), watch)
    path = Path(name) if folder is None else folder / name
    if name.endswith(ARRAYS):
        from unlabel.data.npz import load_npz

        return load_npz(path, views=views)
    from unlabel.data.sheets import load_sheet

    return load_sheet(path, columns or Columns())
