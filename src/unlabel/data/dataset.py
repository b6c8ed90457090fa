"""What a dataset is before it is split between parties, and where datasets come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from unlabel.config.data import Augment, Columns, Pictures, is_file_name
from unlabel.errors import DataError, UnlabelError
from unlabel.progress import Watch, watch_nothing
from unlabel.registry import Registry

Array = npt.NDArray[Any]
Layout = Literal["image", "views", "table", "text"]


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
    indicators  for a table with blocks, which of its numbers are indicators of a category or gap
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
    indicators: Array = field(default_factory=lambda: np.empty(0, dtype=bool))
    notes: tuple[str, ...] = ()
    ids: Array = field(default_factory=lambda: np.empty(0, dtype=str))

    def __post_init__(self) -> None:
        rank = {"image": 4, "views": 4, "table": 2, "text": 1}[self.layout]
        wrong = None
        if self.x.ndim != rank:
            wrong = f"expected features of rank {rank} but got shape {list(self.x.shape)}"
        elif rank == 4 and self.x.dtype != np.uint8:
            wrong = f"expected pixels as uint8 numbers 0..255 but got {self.x.dtype}"
        elif self.layout == "table" and self.x.dtype.kind not in "biuf":
            wrong = f"expected a table of numbers but got {self.x.dtype}: encode it first"
        elif self.y.shape != (len(self.x),):
            wrong = f"expected {len(self.x)} labels but got shape {list(self.y.shape)}"
        elif self.y.dtype.kind not in "iu":
            wrong = f"expected labels as whole numbers from 0 but got {self.y.dtype}: number them"
        elif len(self.labels) < 2:
            wrong = "it has a single label, and a classifier needs at least two"
        elif self.y.min() < 0 or self.y.max() >= len(self.labels):
            span = f"{self.y.min()}..{self.y.max()}"
            wrong = f"labels must lie in 0..{len(self.labels) - 1}, but they span {span}"
        if wrong is not None:
            raise DataError(f"Dataset '{self.name}': {wrong}.")

    def row_names(self) -> Array:
        """Return what the rows are called: their ids, or their numbers from 0, as text."""
        return self.ids if len(self.ids) else np.arange(len(self.y)).astype(str)


@dataclass(frozen=True)
class Source:
    """Where a named dataset comes from.

    about   one line for `unlabel data list`
    load    read it: from the folder the user names, or from the cache when that is None
    fetch   bring it into the cache; None where that cannot be done
    ready   whether `load(None)` would work now; without it `load(None)` is tried
    draw    read it from such a folder into pictures of the size that settings name
    """

    about: str
    load: Callable[[Path | None], Dataset]
    fetch: Callable[[], Path] | None = None
    ready: Callable[[], bool] | None = None
    draw: Draw | None = None

    def is_ready(self) -> bool:
        """Return whether it can be loaded now, without a folder of the user's."""
        if self.ready is not None:
            return self.ready()
        try:
            self.load(None)
        except (UnlabelError, OSError):
            return False
        return True


#: Reads the files of a folder as pictures, and reports how many of them are read.
Draw = Callable[[Path | None, Pictures, Watch], Dataset]


def folder_source(about: str, draw: Draw) -> Source:
    """Return the source of a dataset whose files only the user can bring."""
    return Source(
        about=f"{about} (own copy)",
        load=lambda folder: draw(folder, Pictures(), watch_nothing),
        draw=draw,
    )


SOURCES: Registry[Source] = Registry(
    "dataset", package="unlabel.data.sources", plugins="unlabel.sources"
)
ARRAY_FILES, TABLE_FILES = (".npz",), (".csv", ".csv.gz", ".parquet", ".feather", ".arrow")


def load_dataset(
    name: str,
    folder: Path | None = None,
    views: bool = False,
    columns: Columns | None = None,
    pictures: Pictures | None = None,
    watch: Watch = watch_nothing,
    blank_labels: bool = False,
) -> Dataset:
    """Load a built-in dataset by name, or a file of a user's own by path, taken from `folder`.

    views    an `.npz` file holds views of objects
    columns  what the columns of a CSV, Parquet or Arrow file are
    pictures how pictures are made, of a dataset whose files can be made into any
    watch    called with how many of those files are read
    blank_labels  rows of a CSV, Parquet or Arrow file may lack a label

    >>> load_dataset("digits").x.shape
    (1797, 1, 8, 8)
    """
    if not is_file_name(name):
        source = SOURCES.get(name)
        if source.draw is not None:
            return source.draw(folder, pictures or Pictures(), watch)
        dataset = source.load(folder)
        if not isinstance(dataset, Dataset):
            kind = type(dataset).__name__
            raise DataError(
                f"Dataset '{name}': expected `load` to return a Dataset but got {kind}."
            )
        return dataset
    path = Path(name) if folder is None else folder / name
    if name.endswith(ARRAY_FILES):
        from unlabel.data.npz import load_npz

        return load_npz(path, views=views)
    from unlabel.data.tables import load_table_dataset

    return load_table_dataset(path, columns or Columns(), blank_labels=blank_labels)
