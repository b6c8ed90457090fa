"""Tables from Python: a pandas DataFrame, or arrays by the names of their columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unlabel.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class InMemoryTable:
    """A table from Python.

    frame       its columns, as `frame_of` returns them
    where       its name in errors
    categories  columns that are categories by their type in pandas, whatever they hold
    """

    frame: pd.DataFrame
    where: str
    categories: tuple[str, ...] = ()


def categories_in(source: object) -> tuple[str, ...]:
    """Return the columns of a DataFrame that are categories by their type."""
    import pandas as pd

    if not isinstance(source, pd.DataFrame):
        return ()
    kinds = zip(source.columns, source.dtypes, strict=True)
    return tuple(str(name) for name, kind in kinds if isinstance(kind, pd.CategoricalDtype))


def frame_of(source: object, where: str) -> pd.DataFrame:
    """Return a table from Python as `read_frame` would return it from a file.

    source  a DataFrame, whose named index counts as columns, or a mapping from names of columns to
            arrays; an array [n, d] named x becomes the columns x_0 .. x_{d-1}
    where   the table is called in errors

    The source itself is never changed. Columns go by their names as text; an empty text is a gap,
    as it is in a file.

    >>> list(frame_of({"id": ["a", "b"], "x": np.zeros((2, 3))}, "Table 'bank'").columns)
    ['id', 'x_0', 'x_1', 'x_2']
    """
    import pandas as pd

    if isinstance(source, pd.DataFrame):
        columns = _columns_of_frame(source, where)
    elif isinstance(source, Mapping):
        columns = _columns_of_arrays(source, where)
    else:
        raise DataError(
            f"{where}: expected a pandas DataFrame or a mapping from names of columns to arrays "
            f"but got an object of type {type(source).__name__}."
        )
    names = Counter(name for name, _ in columns)
    double = [name for name, count in names.items() if count > 1]
    if double:
        raise DataError(f"{where} has more than one column '{double[0]}'; rename or drop one.")
    if not columns or len(columns[0][1]) == 0:
        raise DataError(f"{where} has no rows.")
    return pd.DataFrame({name: _plain(name, series, where) for name, series in columns})


def _columns_of_frame(frame: pd.DataFrame, where: str) -> list[tuple[str, pd.Series[Any]]]:
    if frame.columns.nlevels > 1:
        raise DataError(f"{where}: expected one name a column but its columns have several levels.")
    rows = frame.index
    levels = [
        (str(name), rows.get_level_values(place).to_series())
        for place, name in enumerate(rows.names)
        if name is not None
    ]
    # By place: two columns may have one name, which is refused later.
    return levels + [(str(name), frame.iloc[:, place]) for place, name in enumerate(frame.columns)]


def _columns_of_arrays(
    arrays: Mapping[Any, object], where: str
) -> list[tuple[str, pd.Series[Any]]]:
    import pandas as pd

    columns: list[tuple[str, pd.Series[Any]]] = []
    for name, values in arrays.items():
        if isinstance(values, list | tuple):
            values = pd.Series(list(values))
        if not isinstance(values, np.ndarray | pd.Series) or values.ndim not in (1, 2):
            shape = f" of shape {list(values.shape)}" if isinstance(values, np.ndarray) else ""
            raise DataError(
                f"{where}: expected column '{name}' to be an array [n], or [n, d] for d columns, "
                f"but got an object of type {type(values).__name__}{shape}."
            )
        if isinstance(values, np.ndarray) and not values.dtype.isnative:
            values = values.astype(values.dtype.newbyteorder("="))
        if values.ndim == 1:
            columns.append((str(name), pd.Series(values)))
            continue
        wide = pd.DataFrame(values)
        columns += [(f"{name}_{place}", wide[place]) for place in wide.columns]
    lengths = {name: len(series) for name, series in columns}
    first = next(iter(lengths), "")
    for name, length in lengths.items():
        if length != lengths[first]:
            raise DataError(
                f"{where}: expected columns of one length but '{first}' has {lengths[first]} rows "
                f"and '{name}' has {length}."
            )
    return columns


def _plain(name: str, series: pd.Series[Any], where: str) -> pd.Series[Any]:
    """Return a column of its own memory, with the types that a file gives."""
    import pandas as pd

    kinds = pd.api.types
    column = series.reset_index(drop=True).copy()
    if isinstance(column.dtype, pd.ArrowDtype):
        column = column.convert_dtypes(dtype_backend="numpy_nullable")
    if kinds.is_complex_dtype(column):
        raise DataError(f"{where}: column '{name}' holds complex numbers; write real ones.")
    if column.dtype == np.longdouble and column.dtype.itemsize > np.float64().itemsize:
        return column.astype(np.float64)
    if isinstance(column.dtype, pd.CategoricalDtype):
        return _texts(column.astype(object).map(str, na_action="ignore"))
    if kinds.is_object_dtype(column):
        column = column.infer_objects()
    text = kinds.is_object_dtype(column) or isinstance(column.dtype, pd.StringDtype)
    return _texts(column) if text else column


def _texts(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of objects, None where there is nothing."""
    values = column.astype(object)
    return values.where(values.notna() & (values != ""), None)
