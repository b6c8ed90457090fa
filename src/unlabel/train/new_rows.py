"""Rows that a run was not trained on, whose labels nobody knows yet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from unlabel.data import Features
from unlabel.data.dataset import ARRAYS, SHEETS, Array
from unlabel.data.encoding import Encoding
from unlabel.data.npz import load_rows
from unlabel.data.sheets import load_sheet_rows, load_sheet_texts, sheet_encoding
from unlabel.errors import DataError
from unlabel.train.config import RunConfig
from unlabel.train.loading import part_features, read_dataset


@dataclass(frozen=True)
class NewRows:
    """What each party holds of new rows.

    features  by party
    ids       of the rows: what their file calls them, or their numbers in it, from 0
    notes     what their owner should know of how they were read
    """

    features: dict[str, Features]
    ids: Array
    notes: tuple[str, ...] = ()


def new_rows(config: RunConfig, data: str) -> NewRows:
    """Give every party its part of new rows: the `x` of an .npz file, or another whole dataset.

    For a run that was made from a CSV or Parquet file they lie in a file of the same columns.
    """
    encoding = sheet_encoding_of(config)
    if encoding is not None:
        table = load_sheet_rows(_new_sheet(Path(data)), config.columns, encoding)
        features = part_features(config, table.values, "table", blocks=encoding.blocks)
        return NewRows(features, table.ids, tuple(table.notes()))
    if config.columns.text and data.endswith(SHEETS):
        table = load_sheet_texts(Path(data), config.columns)
        assert table.texts is not None
        return NewRows(part_features(config, table.texts, "text"), table.ids)
    found = load_rows(Path(data), views=config.split == "views") if data.endswith(ARRAYS) else None
    if found is not None:
        return NewRows(part_features(config, *found), np.arange(len(found[0])).astype(str))
    dataset = read_dataset(config, data)
    features = part_features(config, dataset.x, dataset.layout, blocks=dataset.blocks)
    return NewRows(features, dataset.row_names())


def sheet_encoding_of(config: RunConfig) -> Encoding | None:
    """Return how the columns of a run's own file become numbers; None for other runs."""
    if config.data is None or not config.data.endswith(SHEETS) or config.columns.text:
        return None
    return sheet_encoding((config.folder or Path()) / config.data, config.columns)


def _new_sheet(path: Path) -> Path:
    if not path.name.endswith(SHEETS):
        raise DataError(
            f"This run was made from a table in one file; expected new rows in a file of the same "
            f"columns, ending in {', '.join(SHEETS)}, but got '{path}'."
        )
    return path
