"""CSV and Parquet files as they are: columns by name, ids and texts as text."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unlabel.data.dataset import Array
from unlabel.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


def read_frame(
    path: Path,
    id_column: str | None = None,
    texts: Sequence[str] = (),
    text_column: str | None = None,
) -> pd.DataFrame:
    """Read a CSV or Parquet file as it is; ids, texts and the columns of `texts` stay text."""
    if not path.is_file():
        raise DataError(f"There is no table at '{path}'; check the path.")
    try:
        if path.suffix == ".parquet":
            frame = _read_parquet(path)
        else:
            plain = [name for name in (id_column, text_column) if name is not None]
            frame = _read_csv(path, plain, texts)
    except ImportError as error:
        raise DataError(
            f"Reading '{path}' needs pyarrow; run: pip install 'unlabel[parquet]'."
        ) from error
    # A packed file that is cut off or damaged fails as its decoder does.
    except (ValueError, OSError, EOFError, NotImplementedError, zlib.error) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise DataError(f"Table '{path}' cannot be read: {first}.") from error
    if len(frame.columns) == 1 and any(mark in str(frame.columns[0]) for mark in ";\t|"):
        raise DataError(
            f"Table '{path}' has a single column '{str(frame.columns[0])[:40]}'; separate columns "
            f"with commas."
        )
    if frame.empty:
        raise DataError(f"Table '{path}' has no rows.")
    return frame


def _read_csv(path: Path, plain: Sequence[str], texts: Sequence[str]) -> pd.DataFrame:
    """Read a CSV file; the columns of `plain` are text to the letter, those of `texts` text."""
    import pandas as pd

    # Where every row has a field too many, pandas would take the first ones for names of the rows,
    # and every value would stand under the name of its neighbour.
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            # An id is text: as a number 007 would become 7, and "NA" would be missing. The sign in
            # front keeps pandas from looking for either.
            frame = pd.read_csv(
                path,
                index_col=False,
                converters=dict.fromkeys(plain, lambda text: f"={text.strip()}") or None,
                dtype={name: str for name in texts if name not in plain},
                low_memory=False,  # a column has one type, however long the file
            )
        except pd.errors.ParserWarning as error:
            raise DataError(
                f"Table '{path}': its rows have more fields than its first line has names; name "
                f"every column there."
            ) from error
    for name in frame.columns.intersection(list(plain)):
        frame[name] = frame[name].str[1:]
    return frame


def _read_parquet(path: Path) -> pd.DataFrame:
    """Read a Parquet file; columns that pandas wrote as names of rows are columns like others."""
    import pandas as pd

    frame = pd.read_parquet(path)
    named = [name for name in frame.index.names if name is not None]
    return frame.reset_index(named) if named else frame


def ids_of(path: Path, frame: pd.DataFrame, column: str) -> Array:
    """Return the ids of a column as text without surrounding blanks, each of them different."""
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


def texts_in(frame: pd.DataFrame, column: str, where: str) -> Array:
    """Return the texts of a column; a row without any is refused."""
    texts = frame[column].astype(object).where(frame[column].notna(), "").astype(str).str.strip()
    empty = np.flatnonzero(texts == "")
    if len(empty):
        raise DataError(
            f"{where}: row {int(empty[0]) + 1} has no text in '{column}' ({len(empty)} rows in "
            f"all); fill or drop such rows."
        )
    return texts.to_numpy(dtype=object)
