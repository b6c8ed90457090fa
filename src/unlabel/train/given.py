"""A run from tables that were handed over in Python: who holds which, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unlabel.data import ACTIVE, frame_of, keep_frame
from unlabel.data.encoding import Missing
from unlabel.data.given_frames import GivenTable, categories_in
from unlabel.errors import DataError, SettingsError
from unlabel.train.config import ActiveTable, PassiveTable, RunConfig

#: The file in a party's own folder that keeps its table; an ending says in which form.
TABLE = "table"
#: Stands where a table has no file yet.
NO_FILE = Path(TABLE)


def given_tables(frames: Mapping[str, object]) -> dict[str, GivenTable]:
    """Return tables from DataFrames, or mappings from names of columns to arrays, by party."""
    made = {}
    for name, source in frames.items():
        where = f"Table '{name}'"
        made[name] = GivenTable(frame_of(source, where), where, categories_in(source))
    return made


def frames_config(
    tables: Mapping[str, GivenTable],
    *,
    label: str,
    id_column: str = "id",
    categories: Sequence[str] = (),
    missing: Missing = "refuse",
    **settings: Any,
) -> tuple[RunConfig, dict[str, GivenTable]]:
    """Return the configuration of a run of such tables, and the tables by the parties' names.

    label     column of labels; whose table has it is the active party
    settings  any of `RunConfig`

    In a run the active party goes by the name `active`, whatever its table is called here.
    """
    holders = [name for name, table in tables.items() if label in table.frame.columns]
    if len(holders) != 1 or len(tables) < 2:
        found = ", ".join(f"'{name}'" for name in holders) or "none"
        raise DataError(
            f"Expected one of at least two tables to have the label column '{label}', since one "
            f"party holds the labels; {found} of {len(tables)} has it."
        )
    holder = holders[0]
    taken = (label, id_column)
    named = {
        name: tuple(
            each
            for each in dict.fromkeys([*categories, *table.categories])
            if each in table.frame.columns and each not in taken
        )
        for name, table in tables.items()
    }
    for column in categories:
        if not any(column in columns for columns in named.values()):
            raise DataError(f"No table has the column '{column}' that `categories` names.")
    rest = set(tables[holder].frame.columns) - {label, id_column}
    config = RunConfig(
        active=ActiveTable(
            NO_FILE,
            label=label,
            id=id_column,
            name=holder,
            features="rest" if rest else "none",
            categories=named[holder],
            missing=missing,
        ),
        passive=[
            PassiveTable(name, NO_FILE, id=id_column, categories=named[name], missing=missing)
            for name in tables
            if name != holder
        ],
        **settings,
    )
    return config, {ACTIVE if name == holder else name: t for name, t in tables.items()}


def keep_tables(config: RunConfig, tables: Mapping[str, GivenTable], folder: Path) -> RunConfig:
    """Keep every party's table in its own subfolder of a run, and return where they lie.

    Only columns that the run uses are kept.
    """
    assert config.active is not None
    own = config.active
    columns = [own.id, own.label, *(own.features if isinstance(own.features, list) else ())]
    active = replace(own, table=_keep(tables[ACTIVE], folder / ACTIVE, columns))
    passive = []
    for party in config.passive:
        columns = [party.id, *(party.features if isinstance(party.features, list) else ())]
        passive.append(
            replace(party, table=_keep(tables[party.name], folder / party.name, columns))
        )
    return replace(config, active=active, passive=passive)


def _keep(table: GivenTable, home: Path, columns: Sequence[str]) -> Path:
    return keep_frame(table.frame, (home / TABLE).resolve(), columns)


def by_party(config: RunConfig, given: Mapping[str, object]) -> dict[str, Path | GivenTable]:
    """Return new rows by the parties' names in the run: files as they are, others as tables.

    The active party's may be given under the name that its table had when the run was made.
    """
    called = config.active.name if config.active is not None else ACTIVE
    found: dict[str, Path | GivenTable] = {}
    for name, source in given.items():
        party = ACTIVE if name == called else name
        if party in found:
            raise SettingsError(f"Expected one table of party '{party}' but got two.")
        is_file = isinstance(source, str | Path)
        found[party] = Path(str(source)) if is_file else given_tables({name: source})[name]
    return found
