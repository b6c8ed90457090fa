"""New rows as they come in a question, as tables of the parties."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unlabel.config import RunConfig, TableColumns
from unlabel.data import ACTIVE
from unlabel.data.in_memory import InMemoryTable
from unlabel.errors import DataError, SettingsError

if TYPE_CHECKING:
    import pandas as pd

Row = Mapping[str, Any]


def tables_of(config: RunConfig, rows: Mapping[str, Sequence[Row]]) -> dict[str, InMemoryTable]:
    """Return the rows of each party as its table; every row must have the columns of the run."""
    if config.active is None:
        raise SettingsError(
            "This run was made from a dataset, whose rows have no names of columns; ask by ids."
        )
    columns: dict[str, TableColumns] = {ACTIVE: config.active, config.active.name: config.active}
    columns |= {party.name: party for party in config.passive}
    for party, some in rows.items():
        if party in columns:  # of others the run itself says which it knows
            _check(party, some, columns[party])
    return {party: table_of(party, some) for party, some in rows.items()}


def table_of(party: str, rows: Sequence[Row]) -> InMemoryTable:
    """Return rows as a table of columns.

    >>> table_of("shop", [{"id": "a", "x": 1}, {"id": "b", "x": None}]).frame.x.tolist()
    [1.0, nan]
    """
    import pandas as pd

    if not rows:
        raise DataError(f"Expected rows of party '{party}' but got none.")
    columns = {name: _column([row[name] for row in rows]) for name in rows[0]}
    return InMemoryTable(pd.DataFrame(columns), f"The rows of party '{party}'")


def _column(values: list[Any]) -> pd.Series[Any] | np.ndarray[Any, Any]:
    """Return values as a file would give them: a gap in texts is None, one in numbers NaN."""
    import pandas as pd

    kinds = {type(value) for value in values}
    if kinds <= {int} or kinds <= {bool}:
        return np.array(values)
    if kinds <= {int, float, type(None)}:
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return pd.Series([None if value == "" else value for value in values], dtype=object)


def _check(party: str, rows: Sequence[Row], columns: TableColumns) -> None:
    """Raise where a row has a column that the run does not know, or lacks one."""
    features = columns.features if isinstance(columns.features, list) else []
    names = {columns.id, *features, *([columns.text] if columns.text else [])}
    for row in rows:
        if row.keys() != names:
            (name, *_) = sorted(row.keys() ^ names)
            raise DataError(
                f"A row of party '{party}' {'lacks' if name in names else 'has'} the column "
                f"'{name[:40]}'; expected exactly {', '.join(sorted(names))}."
            )
