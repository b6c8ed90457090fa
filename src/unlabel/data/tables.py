"""The users' own tables, in CSV, Parquet or Arrow files: a party's, and whole datasets.

A party's table names its rows in an id column. One person holds the whole of a dataset and
simulates the parties: a table's categories are those of all its rows, test rows too, and what a
column became stays with one party. Its rows are named by the `id` column, or by their numbers in
the file from 0; numbers of dropped rows are not used again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from unlabel.config import Columns, FeatureChoice, Missing
from unlabel.data.column_encoding import Encoding
from unlabel.data.column_files import FileColumns
from unlabel.data.dataset import Array, Dataset
from unlabel.data.features import Features
from unlabel.data.in_memory import InMemoryTable
from unlabel.data.table_files import expect_columns, ids_of, open_table, read_frame, texts_in
from unlabel.errors import DataError, unknown

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Table:
    """One party's table: ids, features as numbers, and for the active party a label a row.

    columns   that are features, by the names they have in the file
    encoding  how they became numbers
    unseen    values of categories that were not there when the encoding was made, by column
    texts     of a table whose one feature is text, and whose `values` are still to be made
    remarks   what its owner should know of the rows that were to be predicted and are not there
    left_out  how many of those there are, which not every party has
    """

    ids: Array
    values: Array
    columns: tuple[str, ...]
    labels: Array | None = None
    encoding: Encoding = field(default_factory=Encoding)
    unseen: Mapping[str, int] = field(default_factory=dict)
    texts: Array | None = None
    remarks: tuple[str, ...] = ()
    left_out: int = 0

    def take(self, rows: Array) -> Table:
        """Return the named rows in the given order."""
        if np.array_equal(rows, np.arange(len(self.ids))):
            return self
        labels = None if self.labels is None else self.labels[rows]
        texts = None if self.texts is None else self.texts[rows]
        return replace(
            self, ids=self.ids[rows], values=self.values[rows], labels=labels, texts=texts
        )

    def features(self) -> Features:
        """Return the rows as a model's owner holds them."""
        return Features(
            torch.from_numpy(np.ascontiguousarray(self.values)),
            indicators=torch.from_numpy(self.encoding.indicators),
            may_miss=self.encoding.may_miss(),
        )

    def notes(self) -> list[str]:
        """Return what its owner should know of how the rows were read."""
        return list(self.remarks) + [
            f"{count} values of '{column}' are of categories that training had not; they are read "
            f"as none of those it knows."
            for column, count in self.unseen.items()
        ]


def read_table(
    source: Path | InMemoryTable,
    *,
    id_column: str,
    label_column: str | None = None,
    features: FeatureChoice = "rest",
    categories: Sequence[str] = (),
    missing: Missing = "refuse",
    encoding: Encoding | None = None,
    text_column: str | None = None,
    blank_labels: bool = False,
) -> Table:
    """Read a party's table and check all that can be checked before training.

    Ids are compared as text, without surrounding blanks.

    source       its file, or a table from Python
    categories   columns of numbers that are codes of categories; columns of text are so anyway
    missing      what to do where a value is missing
    encoding     how columns become numbers, where that is settled; from the table itself if not
    text_column  the one feature, where that is text
    blank_labels a label may be missing: its owner has cleared it
    """
    if isinstance(source, Path):
        texts = list(encoding.categories() if encoding else categories)
        if blank_labels and label_column is not None:
            texts.append(label_column)  # as it is written, whatever a gap makes of its column
        frame: pd.DataFrame | FileColumns = open_table(source, id_column, texts, text_column)
        where = f"Table '{source}'"
    else:
        frame, where = source.frame, source.where
    expect_columns(
        frame, where, blank_labels=blank_labels, id=id_column, label=label_column, text=text_column
    )
    ids = ids_of(frame, id_column, where)
    if text_column is not None:
        features, encoding = "none", None
    if encoding is None:
        columns = _feature_columns(where, frame, features, {id_column, label_column})
        encoding = Encoding.fit(frame, columns, categories=categories, missing=missing, where=where)
    else:
        named = features if isinstance(features, list) else None
        encoding.expect_same(named, categories, missing, where)
        columns = [column.name for column in encoding.columns]
    labels = None if label_column is None else labels_of(frame, label_column)
    rows = encoding.apply(frame, where)
    if text_column is not None:
        words = texts_in(frame, text_column, where)
        return Table(ids, rows.values, (text_column,), labels, encoding, texts=words)
    table = Table(ids, rows.values, tuple(columns), labels, encoding, rows.unseen)
    return table.take(encoding.used_rows(rows, where))


def labels_of(frame: pd.DataFrame | FileColumns, column: str) -> Array:
    """Return the labels of a party's table, None or NaN where there is none."""
    labels: Array = frame[column].to_numpy()
    if labels.dtype.kind == "M":
        # A file keeps days in another unit than a DataFrame has them in.
        days = np.datetime_as_string(labels, unit="s").astype(object)
        days[np.isnat(labels)] = None
        return days
    if labels.dtype == object and len(set(map(type, labels.tolist()))) > 1:
        # 1 and "1" are one label; a gap is none.
        return np.array(
            [None if each is None or each != each else str(each) for each in labels], dtype=object
        )
    return labels


def label_texts(labels: Array) -> list[str]:
    """Return labels as texts, empty where there is none.

    >>> label_texts(np.array(["yes", None, 1.0], dtype=object))
    ['yes', '', '1.0']
    """
    # Each as NumPy has it: that is how names are written, also those of dates and short floats.
    return ["" if label is None or label != label else str(label) for label in labels]


def encode_labels(
    labels: Array, *, sample: bool = False, where: str = ""
) -> tuple[Array, tuple[str, ...]]:
    """Return labels as 0 .. C-1 and their names, in sorted order.

    sample  rows beside those trained on, of perhaps as many labels as there are rows
    where   which rows these are, in errors

    >>> encode_labels(np.array(["no", "yes", "no"]))
    (array([0, 1, 0]), ('no', 'yes'))
    """
    names, codes = np.unique(labels, return_inverse=True)
    if len(names) == 1 and names[0] == "":
        raise DataError(
            f"The label column is empty{where}; a classifier needs at least two labels."
        )
    if len(names) < 2:
        raise DataError(
            f"The label column holds a single label ({names[0]}){where}; a classifier needs at "
            f"least two."
        )
    if len(names) > max(20, len(labels) // 2) and not sample:
        raise DataError(
            f"The label column holds {len(names)} different values in {len(labels)} rows; "
            f"expected a few labels that many rows share."
        )
    return codes.astype(np.int64), tuple(str(name) for name in names)


def _feature_columns(
    where: str, frame: pd.DataFrame | FileColumns, features: FeatureChoice, taken: set[str | None]
) -> list[str]:
    names = [str(column) for column in frame.columns]
    if features == "none":
        return []
    if features == "rest":
        return [name for name in names if name not in taken]
    for name in features:
        if name not in names:
            raise DataError(f"{where}: {unknown('column', name, names)}")
        if name in taken:
            raise DataError(f"{where}: column '{name}' is the id or label, not a feature.")
    return list(features)


def load_table_dataset(
    path: Path,
    columns: Columns,
    encoding: Encoding | None = None,
    *,
    sample: bool = False,
    blank_labels: bool = False,
) -> Dataset:
    """Load the file, and the file of test rows beside it if there is one.

    encoding      how the columns of a table become numbers, where that is settled
    sample        rows beside those trained on, of perhaps as many labels as there are rows
    blank_labels  a label may be missing, and is called '' then
    """
    frame, first = _read_all(path, columns, blank_labels=blank_labels)
    cells = frame[columns.label].to_numpy()
    if blank_labels:
        cells = np.array(label_texts(cells), dtype=object)
    y, labels = encode_labels(cells, sample=sample)
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
    rows = encoding.apply(frame, f"File '{path}'")
    used = encoding.used_rows(rows, f"File '{path}'")
    return Dataset(
        name,
        rows.values[used],
        y[used],
        labels,
        "table",
        np.flatnonzero(np.isin(used, test)),
        blocks=encoding.blocks,
        indicators=encoding.indicators,
        ids=ids[used],
    )


def dataset_encoding(path: Path, columns: Columns) -> Encoding:
    """Return how the columns of a file with a table become numbers."""
    return _fit(path, _read_all(path, columns, blank_labels=True)[0], columns)


def load_new_rows(path: Path, columns: Columns, encoding: Encoding) -> Table:
    """Read new rows of a table, whose labels nobody knows yet; an id column may be missing."""
    frame = read_frame(path, columns.id or None, encoding.categories())
    rows = encoding.apply(frame, f"File '{path}'")
    names = tuple(column.name for column in encoding.columns)
    ids = _ids(path, frame, columns)
    table = Table(ids, rows.values, names, encoding=encoding, unseen=rows.unseen)
    return table.take(encoding.used_rows(rows, f"File '{path}'"))


def load_new_texts(path: Path, columns: Columns) -> tuple[Array, Array]:
    """Return new texts, whose labels nobody knows yet, and their ids or numbers."""
    frame = read_frame(path, columns.id or None, text_column=columns.text)
    expect_columns(frame, f"File '{path}'", text=columns.text)
    return texts_in(frame, columns.text, f"File '{path}'"), _ids(path, frame, columns)


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


def _read_all(path: Path, columns: Columns, *, blank_labels: bool) -> tuple[pd.DataFrame, int]:
    """Return all rows, and how many of them come before those to test on."""
    import pandas as pd

    frames = []
    for file in (path, path.parent / columns.test) if columns.test else (path,):
        texts = [*columns.categories, *([columns.label] if blank_labels else [])]
        frame = read_frame(file, columns.id or None, texts, columns.text or None)
        needed = {what: getattr(columns, what) for what in ("label", "text", "split", "id")}
        expect_columns(frame, f"File '{file}'", blank_labels=blank_labels, **needed)
        frames.append(frame)
    if not blank_labels and len({frame[columns.label].dtype for frame in frames}) > 1:
        # One file's labels look like numbers and the other's do not: 1 and "1" are one label.
        for frame in frames:
            frame[columns.label] = frame[columns.label].astype(str)
    return pd.concat(frames, ignore_index=True), len(frames[0])


def read_ids(path: Path) -> list[str]:
    """Read the ids of a request from the column `id` of a table, each of them once."""
    frame, where = read_frame(path, "id"), f"Table '{path}'"
    expect_columns(frame, where, id="id")
    return [str(each) for each in ids_of(frame, "id", where)]
