"""A user's own dataset in one CSV or Parquet file: texts or a table, and a label a row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unlabel.data.dataset import Array, Columns, Dataset
from unlabel.data.tables import encode_labels, read_frame
from unlabel.errors import DataError, unknown

if TYPE_CHECKING:
    import pandas as pd


def load_sheet(path: Path, columns: Columns) -> Dataset:
    """Load the file, and the file of test rows beside it if there is one."""
    import pandas as pd

    frames = [_read(path, columns)]
    if columns.test:
        frames.append(_read(path.parent / columns.test, columns))
    frame = pd.concat(frames, ignore_index=True)
    y, labels = encode_labels(frame[columns.label].to_numpy())
    test = np.arange(len(frames[0]), len(frame)) if columns.test else np.empty(0, dtype=np.int64)
    if columns.split:
        test = np.flatnonzero((frame[columns.split].astype(str) == "test").to_numpy())
    name = path.name.partition(".")[0]
    if columns.text:
        return Dataset(name, _texts(path, frame, columns.text), y, labels, "text", test)
    rest = [c for c in frame.columns if c not in (columns.label, columns.split)]
    values = frame[rest].to_numpy(dtype=np.float32)
    return Dataset(name, values, y, labels, "table", test)


def _read(path: Path, columns: Columns) -> pd.DataFrame:
    frame = read_frame(path)
    for what in ("label", "text", "split"):
        column = getattr(columns, what)
        if column and column not in frame.columns:
            raise DataError(
                f"File '{path}' has no {what} column '{column}'. "
                f"{unknown('column', column, map(str, frame.columns))}"
            )
    if frame[columns.label].isna().any():
        row = int(np.flatnonzero(frame[columns.label].isna())[0])
        raise DataError(f"File '{path}': row {row + 1} has no label in '{columns.label}'.")
    return frame


def _texts(path: Path, frame: pd.DataFrame, column: str) -> Array:
    texts = frame[column]
    empty = np.flatnonzero(texts.isna() | (texts.astype(str).str.strip() == ""))
    if len(empty):
        raise DataError(f"File '{path}': row {int(empty[0]) + 1} has no text in '{column}'.")
    return texts.astype(str).to_numpy(dtype=object)
