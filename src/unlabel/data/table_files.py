"""CSV, Parquet and Arrow files as they are: columns by name, ids and texts as text.

No file is held twice: CSV files are read in pieces of rows, the others column by column.
"""

from __future__ import annotations

import contextlib
import csv
import io
import lzma
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unlabel.data.column_files import COLUMNAR, FileColumns, columns_of, read_columnar
from unlabel.data.dataset import Array
from unlabel.data.table_store import COLUMN_LINES, read_stored
from unlabel.errors import DataError, unknown
from unlabel.text_encoding import encoding_of, expect_readable, open_bytes

if TYPE_CHECKING:
    import pandas as pd

#: Files that pandas unpacks and we do not, so that their bytes are no text yet.
_PACKED = (".zip", ".zst", ".tar")
#: Rows of a CSV file that are read at a time.
PIECE = 2**17
_SEPARATORS = ";\t|"
#: A packed file that is cut off or damaged fails as its decoder does.
_UNREADABLE = (ValueError, OSError, EOFError, NotImplementedError, zlib.error, lzma.LZMAError)


def read_frame(
    path: Path,
    id_column: str | None = None,
    texts: Sequence[str] = (),
    text_column: str | None = None,
) -> pd.DataFrame:
    """Read a table's file as it is; ids, texts and the columns of `texts` stay text."""
    with _expecting(path):
        if path.suffix in COLUMNAR:
            frame = read_columnar(path)
        elif path.name.endswith(COLUMN_LINES):
            frame = read_stored(path)
        else:
            plain = [name for name in (id_column, text_column) if name is not None]
            frame = _read_csv(path, plain, texts)
    _expect_table(path, list(frame.columns), len(frame))
    return frame


def open_table(
    path: Path,
    id_column: str | None = None,
    texts: Sequence[str] = (),
    text_column: str | None = None,
) -> pd.DataFrame | FileColumns:
    """Return what `read_frame` does; where columns lie apart, each is read when it is asked for."""
    columns = None
    if path.suffix in COLUMNAR:
        with _expecting(path):
            columns = columns_of(path, lambda: _expecting(path))
    if columns is None:
        return read_frame(path, id_column, texts, text_column)
    _expect_table(path, columns.columns, len(columns))
    return columns


@contextlib.contextmanager
def _expecting(path: Path) -> Iterator[None]:
    """Say what is wrong with a file where it cannot be read."""
    if not path.is_file():
        raise DataError(f"There is no table at '{path}'; check the path.")
    try:
        yield
    except ImportError as error:
        raise DataError(
            f"Reading '{path}' needs pyarrow; run: pip install 'unlabel[parquet]'."
        ) from error
    except _UNREADABLE as error:
        if isinstance(error, ValueError) and path.suffix not in COLUMNAR:
            _explain(path)
        first = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise DataError(f"Table '{path}' cannot be read: {first}.") from error


def _expect_table(path: Path, names: Sequence[object], rows: int) -> None:
    if len(names) == 1:
        _expect_commas(path, str(names[0]))
    if not len(names) or not rows:
        raise DataError(f"Table '{path}' has no rows.")


def _read_csv(path: Path, plain: Sequence[str], texts: Sequence[str]) -> pd.DataFrame:
    """Read a CSV file; the columns of `plain` are text to the letter, those of `texts` text."""
    import pandas as pd

    with open_bytes(path) as file:
        encoding = encoding_of(file.read(4), f"Table '{path}'")
    _expect_different(path, encoding)
    # An id is text: as a number 007 would become 7, and "NA" would be missing. The sign in front
    # keeps pandas from looking for either.
    options: dict[str, Any] = {
        "encoding": encoding,
        "index_col": False,
        "converters": dict.fromkeys(plain, lambda text: f"={text.strip()}") or None,
        "dtype": {name: str for name in texts if name not in plain},
        "low_memory": False,  # a column has one type, however long the file
    }
    # Where every row has a field too many, pandas would take the first ones for names of the rows,
    # and every value would be read under the name of the next column.
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            with pd.read_csv(path, chunksize=PIECE, **options) as pieces:
                frame = _joined(list(pieces), lambda places: _csv_columns(path, places, encoding))
        except pd.errors.ParserWarning as error:
            _explain(path)
            raise DataError(
                f"Table '{path}': its rows have more fields than its first line has names; name "
                f"every column there."
            ) from error
    for name in frame.columns.intersection(list(plain)):
        frame[name] = frame[name].str[1:]
    return frame


def _expect_different(path: Path, encoding: str) -> None:
    """Raise where a name stands twice in the first line: pandas would give the second another.

    A second column of labels would then be read as a feature.
    """
    import pandas as pd

    first = pd.read_csv(
        path, encoding=encoding, header=None, nrows=1, dtype=str, keep_default_na=False
    )
    names = [name for name in first.iloc[0] if name]
    double = [name for name in names if names.count(name) > 1]
    if double:
        raise DataError(
            f"Table '{path}' has more than one column '{double[0]}'; rename or drop one."
        )


def _joined(pieces: list[pd.DataFrame], whole: Callable[[list[int]], pd.DataFrame]) -> pd.DataFrame:
    """Return pieces of a file as the frame that it is as a whole.

    whole  reads the columns at some places anew, of which pieces look like different things: 1 and
           2.5 are numbers with a fraction together, and 1 and "x" are texts
    """
    import pandas as pd

    if len(pieces) == 1:
        return pieces[0]
    names = list(pieces[0].columns)
    unlike = [n for n, name in enumerate(names) if len({_kind(p[name]) for p in pieces}) > 1]
    anew = whole(unlike) if unlike else pd.DataFrame()
    columns = {}
    for name in names:
        parts = [piece.pop(name) for piece in pieces]
        columns[name] = anew[name] if name in anew else pd.concat(parts, ignore_index=True)
    return pd.DataFrame(columns, copy=False)


def _kind(part: pd.Series[Any]) -> tuple[str, frozenset[type]]:
    """Return what a piece of a column looks like."""
    import pandas as pd

    is_object = pd.api.types.is_object_dtype(part)
    return str(part.dtype), frozenset(map(type, part.dropna())) if is_object else frozenset()


def _csv_columns(path: Path, places: list[int], encoding: str) -> pd.DataFrame:
    """Read some columns of a CSV file as a whole."""
    import pandas as pd

    return pd.read_csv(path, encoding=encoding, index_col=False, usecols=places, low_memory=False)


def _explain(path: Path) -> None:
    """Raise where a file that cannot be read is in another encoding, or not separated by commas."""
    if path.suffix in _PACKED:
        return
    where = f"Table '{path}'"
    with open_bytes(path) as file:
        encoding = expect_readable(file, where)
    with io.TextIOWrapper(open_bytes(path), encoding=encoding, newline="") as text:
        head = next(csv.reader([text.readline().removeprefix("\ufeff")]), [])
    if len(head) == 1:
        _expect_commas(path, head[0])


def _expect_commas(path: Path, name: str) -> None:
    """Raise where the name of the only column is a line of names with other separators."""
    if not any(mark in name for mark in _SEPARATORS):
        return
    decimals = ", and write decimals with points (3.14)" if ";" in name else ""
    raise DataError(
        f"Table '{path}' has a single column '{name[:40]}'; separate columns with commas{decimals}."
    )


def expect_columns(
    frame: pd.DataFrame | FileColumns,
    where: str,
    *,
    blank_labels: bool = False,
    **columns: str | None,
) -> None:
    """Raise where a named column is not there, or a row has no label unless it may.

    columns  by what they are for: id, label, text or split; one that is not named is not needed
    """
    for what, column in columns.items():
        if column and column not in frame.columns:
            names = map(str, frame.columns)
            raise DataError(
                f"{where} has no {what} column '{column}'. {unknown('column', column, names)}"
            )
    label = None if blank_labels else columns.get("label")
    missing: Array = np.flatnonzero(frame[label].isna()) if label else np.empty(0)
    if len(missing):
        raise DataError(
            f"{where}: row {int(missing[0]) + 1} has no label in '{label}'. Fill such cells, drop "
            f"their rows, or take `bottoms: blind` or `tuned`, where they may be empty."
        )


def ids_of(frame: pd.DataFrame | FileColumns, column: str, where: str) -> Array:
    """Return the ids of a column as text without surrounding blanks, each of them different.

    Fractions and bytes, which have more than one way to be written, are no ids.
    """
    import pandas as pd

    cells = frame[column]
    loose = pd.api.types.is_float_dtype(cells) or pd.api.types.is_object_dtype(cells)
    values = cells.tolist() if loose else []
    inexact = [v for v in values if isinstance(v, float | np.floating | bytes) and v == v]
    if inexact:
        kind = "bytes" if isinstance(inexact[0], bytes) else "numbers with a fraction"
        raise DataError(
            f"{where}: the ids in '{column}' are {kind}, such as {inexact[0]!r}, and an id is "
            f"compared as text; write them as text or as whole numbers."
        )
    if set(map(type, values)) == {str}:  # as of new rows, where pandas takes longest
        ids = np.array([value.strip() for value in values], dtype=str)
    else:
        ids = cells.astype(str).str.strip().to_numpy(dtype=str)
    missing = np.flatnonzero(cells.isna().to_numpy() | (ids == ""))
    if len(missing):
        raise DataError(f"{where}: row {int(missing[0]) + 1} has no id in '{column}'.")
    if len(set(ids.tolist())) < len(ids):
        repeated = ids[pd.Series(ids).duplicated().to_numpy()]
        raise DataError(
            f"{where}: id '{repeated[0]}' stands in more than one row "
            f"({len(repeated)} repeats in all); an id must be unique."
        )
    return ids


def texts_in(frame: pd.DataFrame | FileColumns, column: str, where: str) -> Array:
    """Return the texts of a column; a row without any is refused."""
    cells = frame[column]
    texts = cells.astype(object).where(cells.notna(), "").astype(str).str.strip()
    empty = np.flatnonzero(texts == "")
    if len(empty):
        raise DataError(
            f"{where}: row {int(empty[0]) + 1} has no text in '{column}' ({len(empty)} rows in "
            f"all); fill or drop such rows."
        )
    return texts.to_numpy(dtype=object)
