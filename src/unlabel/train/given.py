"""A run from tables that were handed over in Python: who holds which, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unlabel.config import ActiveTable, Missing, PassiveTable, RunConfig, TableColumns
from unlabel.data import ACTIVE, frame_of, store_frame
from unlabel.data.in_memory import InMemoryTable, categories_in
from unlabel.errors import DataError, SettingsError

#: The file in a party's own folder that keeps its table; an ending says in which form.
TABLE = "table"
#: Stands where a table has no file yet.
NO_FILE = Path(TABLE)


def _given_table(name: str, source: object) -> InMemoryTable:
    where = f"Table '{name}'"
    return InMemoryTable(frame_of(source, where), where, categories_in(source))


def frames_config(
    frames: Mapping[str, object],
    *,
    label: str,
    id_column: str = "id",
    categories: Sequence[str] = (),
    missing: Missing = "refuse",
    **settings: Any,
) -> tuple[RunConfig, dict[str, InMemoryTable]]:
    """Return the configuration of a run of tables, and the tables by the parties' names.

    frames    by party, DataFrames or mappings from names of columns to arrays
    label     column of labels; whose table has it is the active party
    settings  any of `RunConfig`

    In a run the active party goes by the name `active`, whatever its table is called here.
    """
    tables = {name: _given_table(name, source) for name, source in frames.items()}
    holders = [name for name, table in tables.items() if label in table.frame.columns]
    if len(holders) != 1 or len(tables) < 2:
        having = ", ".join(f"'{name}'" for name in holders) or "none"
        raise DataError(
            f"Expected one of at least two tables to have the label column '{label}', since one "
            f"party holds the labels; {having} of {len(tables)} has it."
        )
    holder = holders[0]
    named: dict[str, tuple[str, ...]] = {}
    for name, table in tables.items():
        coded = dict.fromkeys([*categories, *table.categories])
        features = set(table.frame.columns) - {label, id_column}
        named[name] = tuple(column for column in coded if column in features)
    for column in categories:
        if not any(column in columns for columns in named.values()):
            raise DataError(f"No table has the column '{column}' that `categories` names.")
    rest = set(tables[holder].frame.columns) - {label, id_column}
    config = RunConfig(
        active=ActiveTable(
            table=NO_FILE,
            label=label,
            id=id_column,
            name=holder,
            features="rest" if rest else "none",
            categories=named[holder],
            missing=missing,
        ),
        passive=[
            PassiveTable(
                name=name, table=NO_FILE, id=id_column, categories=named[name], missing=missing
            )
            for name in tables
            if name != holder
        ],
        **settings,
    )
    return config, {ACTIVE if name == holder else name: t for name, t in tables.items()}


def keep_tables(config: RunConfig, tables: Mapping[str, InMemoryTable], folder: Path) -> RunConfig:
    """Keep every party's table in its own subfolder of a run, and return where they lie.

    Only columns that the run uses are kept.
    """
    assert config.active is not None

    def stored(party: str, columns: TableColumns, *more: str) -> Path:
        features = columns.features if isinstance(columns.features, list) else []
        path = (folder / party / TABLE).resolve()
        return store_frame(tables[party].frame, path, [columns.id, *more, *features])

    active = config.active
    return replace(
        config,
        active=replace(active, table=stored(ACTIVE, active, active.label)),
        passive=[replace(party, table=stored(party.name, party)) for party in config.passive],
    )


def by_party(config: RunConfig, given: Mapping[str, object]) -> dict[str, Path | InMemoryTable]:
    """Return new rows by the parties' names in the run: files as they are, others as tables.

    The active party's may be given under the name that its table had when the run was made.
    """
    called = config.active.name if config.active is not None else ACTIVE
    sources: dict[str, Path | InMemoryTable] = {}
    for name, source in given.items():
        party = ACTIVE if name == called else name
        if party in sources:
            raise SettingsError(f"Expected one table of party '{party}' but got two.")
        if isinstance(source, InMemoryTable):
            sources[party] = source
        else:
            is_file = isinstance(source, str | Path)
            sources[party] = Path(str(source)) if is_file else _given_table(name, source)
    return sources
