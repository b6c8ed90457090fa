"""A user's own dataset in one CSV or Parquet file: texts or a table, and a label a row.

One person holds all of it and plays the parties, so the categories of a table's columns are those
of all its rows, test rows too. What a column became stays with one party.

A row goes by what the `id` column says, or by its number in the file, from 0: that of a row that is
dropped is nobody else's.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unlabel.data.dataset import Array, Columns, Dataset
from unlabel.data.encoding import Encoding
from unlabel.data.frames import ids_of, read_frame, texts_in
from unlabel.data.tables import Table, encode_labels
from unlabel.errors import DataError, unknown

if TYPE_CHECKING:
    import pandas as pd


def load_sheet(
    path: Path, columns: Columns, encoding: Encoding | None = None, *, sample: bool = False
) -> Dataset:
    """Load the file, and the file of test rows beside it if there is one.

    encoding  how the columns of a table become numbers, where that is settled
    sample    rows beside those trained on, of perhaps as many labels as there are rows
    """
    frame, first = _read_all(path, columns)
    y, labels = encode_labels(frame[columns.label].to_numpy(), sample=sample)
    test = np.arange(first, len(frame)) if columns.test else np.empty(0, dtype=np.int64)
    if columns.split:
        test = np.flatnonzero((frame[columns.split].astype(str) == "test").to_numpy())
        if len(test) == 0:
            raise DataError(
                f"File '{path}': no row says 'test' in '{columns.split}'; mark the rows to test on "
                f"or leave `split` out."
            )
    name = path.name.partition(".")[0]
    ids = _ids(path, frame, columns)
    if columns.text:
        texts = texts_in(frame, columns.text, f"File '{path}'")
        return Dataset(name, texts, y, labels, "text", test, ids=ids)
    encoding = encoding or _fit(path, frame, columns)
    found = encoding.apply(frame, f"File '{path}'")
    kept = encoding.kept(found, f"File '{path}'")
    return Dataset(
        name,
        found.values[kept],
        y[kept],
        labels,
        "table",
        np.flatnonzero(np.isin(kept, test)),
        blocks=encoding.blocks,
        marks=encoding.marks,
        ids=ids[kept],
    )


def sheet_encoding(path: Path, columns: Columns) -> Encoding:
    """Return how the columns of a file with a table become numbers."""
    return _fit(path, _read_all(path, columns)[0], columns)


def load_sheet_rows(path: Path, columns: Columns, encoding: Encoding) -> Table:
    """Read new rows of a table, whose labels nobody knows yet; an id column may be missing."""
    frame = read_frame(path, columns.id or None, encoding.categories())
    found = encoding.apply(frame, f"File '{path}'")
    names = tuple(column.name for column in encoding.columns)
    ids = _ids(path, frame, columns)
    table = Table(path, ids, found.values, names, encoding=encoding, unseen=found.unseen)
    return table.take(encoding.kept(found, f"File '{path}'"))


def load_sheet_texts(path: Path, columns: Columns) -> Table:
    """Read new texts, whose labels nobody knows yet; an id column may be missing."""
    frame = read_frame(path, columns.id or None, text_column=columns.text)
    if columns.text not in frame.columns:
        raise DataError(
            f"File '{path}' has no text column '{columns.text}'. "
            f"{unknown('column', columns.text, map(str, frame.columns))}"
        )
    texts = texts_in(frame, columns.text, f"File '{path}'")
    nothing = np.empty((len(texts), 0))
    return Table(path, _ids(path, frame, columns), nothing, (columns.text,), texts=texts)


def _ids(path: Path, frame: pd.DataFrame, columns: Columns) -> Array:
    if columns.id and columns.id in frame.columns:
        return ids_of(frame, columns.id, f"Table '{path}'")
    return np.arange(len(frame)).astype(str)


def _fit(path: Path, frame: pd.DataFrame, columns: Columns) -> Encoding:
    taken = (columns.label, columns.split, columns.id)
    return Encoding.fit(
        frame,
        [str(name) for name in frame.columns if name not in taken],
        categories=columns.categories,
        missing=columns.missing,
        where=f"File '{path}'",
    )


def _read_all(path: Path, columns: Columns) -> tuple[pd.DataFrame, int]:
    """Return all rows, and how many of them come before those to test on."""
    import pandas as pd

    frames = [_read(path, columns)]
    if columns.test:
        frames.append(_read(path.parent / columns.test, columns))
        if len({frame[columns.label].dtype for frame in frames}) > 1:
            # One file's labels look like numbers and the other's do not: 1 and "1" are one label.
            for frame in frames:
                frame[columns.label] = frame[columns.label].astype(str)
    return pd.concat(frames, ignore_index=True), len(frames[0])


def _read(path: Path, columns: Columns) -> pd.DataFrame:
    frame = read_frame(path, columns.id or None, columns.categories, columns.text or None)
    for what in ("label", "text", "split", "id"):
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
