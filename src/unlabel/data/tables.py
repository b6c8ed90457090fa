"""The users' own tables: CSV or Parquet files with an id column."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from unlabel.data.dataset import Array
from unlabel.data.decoding import decode
from unlabel.data.encoding import Encoding, Missing
from unlabel.data.features import Features
from unlabel.data.frames import ids_of, read_frame, texts_in
from unlabel.errors import DataError, unknown

if TYPE_CHECKING:
    import pandas as pd

FeatureChoice = Literal["rest", "none"] | list[str]
#: The path of a table that was given from Python and lies in no file.
NOWHERE = Path()


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

    path: Path
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
        labels = None if self.labels is None else self.labels[rows]
        texts = None if self.texts is None else self.texts[rows]
        return replace(
            self, ids=self.ids[rows], values=self.values[rows], labels=labels, texts=texts
        )

    def features(self) -> Features:
        """Return the rows as a model's owner holds them."""
        return Features(
            torch.from_numpy(np.ascontiguousarray(self.values)),
            marks=torch.from_numpy(self.encoding.marks),
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
    path: Path,
    *,
    id_column: str,
    label_column: str | None = None,
    features: FeatureChoice = "rest",
    categories: Sequence[str] = (),
    missing: Missing = "refuse",
    encoding: Encoding | None = None,
    text_column: str | None = None,
) -> Table:
    """Read a party's table and check all that can be checked before training.

    Ids are compared as text, without surrounding blanks.

    categories   columns of numbers that are codes of categories; columns of text are so anyway
    missing      what to do where a value is missing
    encoding     how columns become numbers, where that is settled; from the table itself if not
    text_column  the one feature, where that is text
    """
    texts = encoding.categories() if encoding else categories
    frame = read_frame(path, id_column, texts, text_column)
    return table_of(
        frame,
        f"Table '{path}'",
        path=path,
        id_column=id_column,
        label_column=label_column,
        features=features,
        categories=categories,
        missing=missing,
        encoding=encoding,
        text_column=text_column,
    )


def table_of(
    frame: pd.DataFrame,
    where: str,
    *,
    id_column: str,
    path: Path = NOWHERE,
    label_column: str | None = None,
    features: FeatureChoice = "rest",
    categories: Sequence[str] = (),
    missing: Missing = "refuse",
    encoding: Encoding | None = None,
    text_column: str | None = None,
) -> Table:
    """Make a party's table of a frame that `read_frame` or `frame_of` returned; see `read_table`.

    where  the table is called in errors
    path   of its file, if it has one
    """
    for what, column in (("id", id_column), ("label", label_column), ("text", text_column)):
        if column is not None and column not in frame.columns:
            raise DataError(
                f"{where} has no {what} column '{column}'. "
                f"{unknown('column', column, map(str, frame.columns))}"
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
    labels = None
    if label_column is not None:
        if frame[label_column].isna().any():
            row = int(np.flatnonzero(frame[label_column].isna())[0])
            raise DataError(f"{where}: row {row + 1} has no label in '{label_column}'.")
        labels = _labels_of(frame[label_column])
    found = encoding.apply(frame, where)
    if text_column is not None:
        words = texts_in(frame, text_column, where)
        return Table(path, ids, found.values, (text_column,), labels, encoding, texts=words)
    table = Table(path, ids, found.values, tuple(columns), labels, encoding, found.unseen)
    return table.take(encoding.kept(found, where))


def _labels_of(column: pd.Series[Any]) -> Array:
    """Return labels; those of several types as text, since 1 and "1" are one label."""
    labels = column.to_numpy()
    mixed = labels.dtype == object and len(set(map(type, labels.tolist()))) > 1
    return labels.astype(str).astype(object) if mixed else labels


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
    where: str, frame: pd.DataFrame, features: FeatureChoice, taken: set[str | None]
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


def read_ids(path: Path) -> list[str]:
    """Read the ids of a request: a CSV file with a column `id`."""
    try:
        text = decode(path.read_bytes(), f"'{path}'")
        head, *lines = [line for line in csv.reader(io.StringIO(text, newline="")) if line]
    except OSError as error:
        raise DataError(f"Cannot read '{path}': {error.strerror}.") from error
    except (ValueError, csv.Error) as error:
        raise DataError(f"'{path}' is not a readable CSV file.") from error
    if "id" not in head:
        raise DataError(
            f"'{path}' has no column 'id'; its first line is {', '.join(head)[:60]!r} and must "
            f"name the columns."
        )
    column = head.index("id")
    if any(len(line) <= column for line in lines):
        raise DataError(f"'{path}' is not a readable CSV file.")
    ids = [line[column].strip() for line in lines if line[column].strip()]
    twice = np.unique(ids, return_counts=True)
    if len(ids) and (twice[1] > 1).any():
        raise DataError(f"'{path}' names '{twice[0][twice[1] > 1][0]}' twice.")
    return ids
