"""Files that have their columns apart, Parquet and Arrow: a column is read when it is asked for.

So a table that is larger than its numbers, with columns that nobody uses, is never held as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

#: How the names of such files end: Parquet, and files of Arrow (not its streams).
ARROW = (".feather", ".arrow")
COLUMNAR = (".parquet", *ARROW)


class FileColumns:
    """A file's columns by name, as a DataFrame would have them.

    columns  their names
    reading  says what is wrong where a column cannot be read
    """

    def __init__(
        self,
        path: Path,
        names: list[str],
        rows: int,
        reading: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.columns = names
        self._path = path
        self._rows = rows
        self._reading = reading

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, name: str) -> pd.Series[Any]:
        with self._reading():
            return _read(self._path, [name])[name]


def read_columnar(path: Path) -> pd.DataFrame:
    """Read such a file as a whole; what pandas wrote as names of rows are columns like others."""
    frame = _read(path, None)
    named = [name for name in frame.index.names if name is not None]
    return frame.reset_index(named) if named else frame


def columns_of(
    path: Path, reading: Callable[[], AbstractContextManager[None]]
) -> FileColumns | None:
    """Return the columns of such a file; None where they do not stand for themselves.

    They do not where pandas has put some of them in front of the rows, or one consists of others.
    """
    import pyarrow as pa
    import pyarrow.parquet

    if path.suffix == ".parquet":
        with pyarrow.parquet.ParquetFile(path) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
    else:
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as file:
            schema = file.schema
            rows = sum(file.get_batch(number).num_rows for number in range(file.num_record_batches))
    noted = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    indexed = [each for each in noted.get("index_columns", ()) if not _is_numbering(each)]
    nested = any("." in field.name or pa.types.is_nested(field.type) for field in schema)
    if indexed or nested or len(set(schema.names)) < len(schema.names):
        return None
    return FileColumns(path, list(schema.names), rows, reading)


def _is_numbering(index: object) -> bool:
    """Return whether an index of pandas is the numbers of the rows, without a name."""
    return isinstance(index, dict) and index.get("kind") == "range" and index.get("name") is None


def _read(path: Path, columns: list[str] | None) -> pd.DataFrame:
    import pandas as pd

    if path.suffix == ".parquet":
        return pd.read_parquet(path, columns=columns)
    return pd.read_feather(path, columns=columns)
