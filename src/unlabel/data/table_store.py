"""Tables from Python, stored in a file so that their run can be opened again later.

The file is Parquet where pyarrow is installed. Without it, it is lines of JSON, one a column:

    {"name": "income", "kind": "float64", "values": [1.5, null, 0.1]}

CSV would not do: there the text "1" and the number 1, or "NA" and a gap, are the same. JSON writes
a float so that reading gives the same bits.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unlabel.errors import DataError
from unlabel.files import OWNER_ONLY, write_atomically

if TYPE_CHECKING:
    import pandas as pd

#: Ending of a stored table where pyarrow is not installed.
COLUMN_LINES = ".columns.jsonl"
_NUMBERS = re.compile(
    r"u?int(8|16|32|64)|float(16|32|64)|bool|U?Int(8|16|32|64)|Float(32|64)|boolean"
)


def store_frame(frame: pd.DataFrame, path: Path, columns: Sequence[str] | None = None) -> Path:
    """Write a table that `frame_of` returned, for its owner alone; return the file's path.

    path     without an ending: that says in which form the table is stored
    columns  to store, all by default; what a run does not use has no place in its folder

    `read_frame` reads it back with the same ids, numbers, texts and gaps.
    """
    chosen = frame if columns is None else frame[list(dict.fromkeys(columns))]
    # A column of texts and numbers is compared as text wherever it is used.
    plain = chosen.copy()
    for name in [name for name in chosen.columns if _kind(chosen[name]) == "text"]:
        plain[name] = chosen[name].astype(object).map(str, na_action="ignore").astype(object)
    data, ending = _as_parquet(plain), ".parquet"
    if data is None:
        data, ending = _as_lines(plain), COLUMN_LINES
    target = path.with_name(path.name + ending)
    write_atomically(target, data, mode=OWNER_ONLY)
    return target


def read_stored(path: Path) -> pd.DataFrame:
    """Read a table that was stored as lines of JSON."""
    import pandas as pd

    columns: dict[str, Any] = {}
    try:
        for line in path.read_bytes().splitlines():
            raw = json.loads(line)
            columns[str(raw["name"])] = _column(raw["kind"], raw["values"])
        if len(set(map(len, columns.values()))) > 1:
            raise ValueError
        return pd.DataFrame(columns)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise DataError(
            f"Table '{path}' is damaged: the run that uses it has stored it; restore it from a "
            f"backup."
        ) from error


def _as_parquet(frame: pd.DataFrame) -> bytes | None:
    """Return the table as a Parquet file; None where pyarrow is missing or cannot hold it."""
    data = io.BytesIO()
    try:
        frame.to_parquet(data, engine="pyarrow", index=False)
    except (ImportError, ValueError, TypeError, NotImplementedError):
        return None
    return data.getvalue()


def _as_lines(frame: pd.DataFrame) -> bytes:
    lines = []
    for name in frame.columns:
        series = frame[name]
        kind = _kind(series)
        if kind == "other":
            raise DataError(
                f"Column '{name}' is of type {series.dtype}, which needs pyarrow to be stored; "
                f"leave it out, or run: pip install 'unlabel[parquet]'."
            )
        values = series.astype(object).where(series.notna(), None).tolist()
        if kind.startswith(("float", "Float")):  # float16 and float32 are numbers of NumPy here
            values = [None if value is None else float(value) for value in values]
        lines.append(json.dumps({"name": name, "kind": kind, "values": values}))
    return "".join(f"{line}\n" for line in lines).encode()


def _kind(series: pd.Series[Any]) -> str:
    """Return what a column holds: a type of numbers, truth values with gaps, text, or other."""
    import pandas as pd

    if _NUMBERS.fullmatch(str(series.dtype)):
        return str(series.dtype)
    if not (pd.api.types.is_object_dtype(series) or pd.api.types.is_string_dtype(series)):
        return "other"
    held = set(map(type, series.dropna().tolist()))
    return "truth" if held == {bool} else "text"


def _column(kind: str, values: list[Any]) -> Any:
    import pandas as pd

    if kind in ("text", "truth"):
        expected = str if kind == "text" else bool
        if not all(value is None or isinstance(value, expected) for value in values):
            raise ValueError
        return pd.Series(values, dtype=object)
    if not _NUMBERS.fullmatch(kind):
        raise ValueError
    series: Any = pd.Series
    return series(values, dtype=kind)
