"""The users' own tables: CSV or Parquet files with an id column."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from unlabel.data.dataset import Array
from unlabel.errors import DataError, unknown

if TYPE_CHECKING:
    import pandas as pd

FeatureChoice = Literal["rest", "none"] | list[str]


@dataclass(frozen=True)
class Table:
    """One party's table: ids, numeric features, and for the active party a label a row."""

    path: Path
    ids: Array
    values: Array
    columns: tuple[str, ...]
    labels: Array | None = None

    def take(self, rows: Array) -> Table:
        """Return the named rows in the given order."""
        labels = None if self.labels is None else self.labels[rows]
        return Table(self.path, self.ids[rows], self.values[rows], self.columns, labels)


def read_table(
    path: Path,
    *,
    id_column: str,
    label_column: str | None = None,
    features: FeatureChoice = "rest",
) -> Table:
    """Read a party's table and check all that can be checked before training.

    Ids are compared as text, without surrounding blanks.
    """
    frame = read_frame(path, id_column)
    for what, column in (("id", id_column), ("label", label_column)):
        if column is not None and column not in frame.columns:
            raise DataError(
                f"Table '{path}' has no {what} column '{column}'. "
                f"{unknown('column', column, map(str, frame.columns))}"
            )
    ids = _read_ids(path, frame, id_column)
    columns = _feature_columns(path, frame, features, {id_column, label_column})
    labels = None
    if label_column is not None:
        if frame[label_column].isna().any():
            row = int(np.flatnonzero(frame[label_column].isna())[0])
            raise DataError(f"Table '{path}': row {row + 1} has no label in '{label_column}'.")
        labels = frame[label_column].to_numpy()
    return Table(path, ids, _read_values(path, frame, columns), tuple(columns), labels)


def encode_labels(labels: Array) -> tuple[Array, tuple[str, ...]]:
    """Return labels as 0 .. C-1 and their names, in sorted order.

    >>> encode_labels(np.array(["no", "yes", "no"]))
    (array([0, 1, 0]), ('no', 'yes'))
    """
    names, codes = np.unique(labels, return_inverse=True)
    if len(names) < 2:
        raise DataError(
            f"The label column holds a single label ({names[0]}); a classifier needs at least two."
        )
    if len(names) > max(20, len(labels) // 2):
        raise DataError(
            f"The label column holds {len(names)} different values in {len(labels)} rows; "
            f"expected a few labels that many rows share."
        )
    return codes.astype(np.int64), tuple(str(name) for name in names)


def read_frame(path: Path, id_column: str | None = None) -> pd.DataFrame:
    """Read a CSV or Parquet file as it is; ids stay text."""
    import pandas as pd

    if not path.is_file():
        raise DataError(f"There is no table at '{path}'; check the path.")
    try:
        if path.suffix == ".parquet":
            frame = pd.read_parquet(path)
        else:
            # An id is text: as a number 007 would become 7, and "NA" would be missing.
            frame = pd.read_csv(path, converters={id_column: str.strip} if id_column else None)
    except ImportError as error:
        raise DataError(
            f"Reading '{path}' needs pyarrow; run: pip install 'unlabel[parquet]'."
        ) from error
    except (ValueError, OSError, UnicodeDecodeError) as error:
        first = str(error).splitlines()[0].rstrip(".")
        raise DataError(f"Table '{path}' cannot be read: {first}.") from error
    if len(frame.columns) == 1 and any(mark in str(frame.columns[0]) for mark in ";\t|"):
        raise DataError(
            f"Table '{path}' has a single column '{str(frame.columns[0])[:40]}'; separate columns "
            f"with commas."
        )
    if frame.empty:
        raise DataError(f"Table '{path}' has no rows.")
    return frame


def _read_ids(path: Path, frame: pd.DataFrame, column: str) -> Array:
    ids = frame[column].astype(str).str.strip()
    missing = np.flatnonzero(frame[column].isna() | (ids == ""))
    if len(missing):
        raise DataError(f"Table '{path}': row {int(missing[0]) + 1} has no id in '{column}'.")
    repeated = ids[ids.duplicated()]
    if len(repeated):
        raise DataError(
            f"Table '{path}': id '{repeated.iloc[0]}' stands in more than one row "
            f"({len(repeated)} repeats in all); an id must be unique."
        )
    return ids.to_numpy(dtype=str)


def _feature_columns(
    path: Path, frame: pd.DataFrame, features: FeatureChoice, taken: set[str | None]
) -> list[str]:
    names = [str(column) for column in frame.columns]
    if features == "none":
        return []
    if features == "rest":
        return [name for name in names if name not in taken]
    for name in features:
        if name not in names:
            raise DataError(f"Table '{path}': {unknown('column', name, names)}")
        if name in taken:
            raise DataError(f"Table '{path}': column '{name}' is the id or label, not a feature.")
    return list(features)


def _read_values(path: Path, frame: pd.DataFrame, columns: list[str]) -> Array:
    import pandas as pd

    for column in columns:
        if not pd.api.types.is_numeric_dtype(frame[column]):
            raise DataError(
                f"Table '{path}': feature '{column}' is not numeric; encode it as numbers "
                f"or leave it out with `features`."
            )
        with np.errstate(over="ignore"):  # too large for the models' float32 is reported below
            values = frame[column].to_numpy(dtype=np.float64, na_value=np.nan).astype(np.float32)
        bad = ~np.isfinite(values)
        if bad.any():
            raise DataError(
                f"Table '{path}': feature '{column}' is missing or not finite in row "
                f"{int(np.flatnonzero(bad)[0]) + 1} ({int(bad.sum())} rows in all); fill or drop "
                f"such rows."
            )
    # Full precision until the owner's scaling: a date in seconds has too many digits for float32.
    return frame[columns].to_numpy(dtype=np.float64)


def read_ids(path: Path) -> list[str]:
    """Read the ids of a request: a CSV file with a column `id`."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            head, *lines = [line for line in csv.reader(file) if line]
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
