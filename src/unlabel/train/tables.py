"""The tables of parties: read, and their common rows brought into one order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from unlabel.align import match_ids, match_privately
from unlabel.align.psi import MissingLibrary
from unlabel.align.store import StoredAlignment
from unlabel.config import ActiveTable, PassiveTable, RunConfig, TableColumns
from unlabel.data import ACTIVE, Features, Table, read_table
from unlabel.data.cells import label_form, label_reader
from unlabel.data.column_encoding import Encoding
from unlabel.data.in_memory import InMemoryTable
from unlabel.data.table_files import ids_of, read_frame
from unlabel.data.tables import label_texts, labels_of
from unlabel.errors import DataError, SettingsError, unknown
from unlabel.models import read_texts
from unlabel.progress import Watch, watch_nothing
from unlabel.train.notes import note_left_out

#: Where a party's table comes from: a file, or Python.
Source = Path | InMemoryTable


def match_tables(
    config: RunConfig,
    instead: Mapping[str, Source] | None = None,
    encodings: Mapping[str, Encoding] | None = None,
) -> dict[str, Table]:
    """Read every party's table and bring the common rows into one order, however few they are.

    Each table knows which rows its party lacked, and says so in its notes.

    With `instead` these files are read in place of the configured ones: new people, whose labels
    nobody knows yet. An active party without features then needs no file.

    encodings  by party, how its columns became numbers when the run began
    """
    tables = read_tables(config, instead, encodings)
    matched = in_one_order(config, tables, training=False)
    return note_left_out(tables, matched, config.align)


def read_tables(
    config: RunConfig,
    instead: Mapping[str, Source] | None = None,
    encodings: Mapping[str, Encoding | None] | None = None,
    given: Mapping[str, InMemoryTable] | None = None,
    *,
    blank_labels: bool = False,
) -> dict[str, Table]:
    """Read every party's table as it lies on disk or was given; see `match_tables`."""
    known, at_hand = encodings or {}, given or {}
    if config.active is None:
        raise SettingsError("This run was not made from tables; give `--data` instead.")
    active = config.active
    names = [ACTIVE, *(party.name for party in config.passive)]
    for name in instead or ():
        if name not in names:
            raise SettingsError(unknown("party", name, names))
    tables = {}
    if instead is None or active.features != "none":
        new = None if instead is None else _instead(ACTIVE, instead)
        table = read_active(
            active, new, known.get(ACTIVE), at_hand.get(ACTIVE), blank_labels=blank_labels
        )
        tables[ACTIVE] = read_words(config, ACTIVE, table)
    for party in config.passive:
        source = at_hand.get(party.name) or party.table
        if instead is not None:
            source = _instead(party.name, instead)
        if source is None:
            raise SettingsError(
                f"Expected a table of party '{party.name}' but its owner keeps it; give "
                f"`--federation`."
            )
        table = read_passive(party, source, known.get(party.name))
        tables[party.name] = read_words(config, party.name, table)
    return tables


def read_words(config: RunConfig, party: str, table: Table) -> Table:
    """Return a party's table with its texts as what the party's bottom model reads.

    All of them are read, and which rows the parties share is seen afterwards: so the features of
    a row are the same whoever else takes part.
    """
    if table.texts is None:
        return table
    values = read_texts(config.bottom_of(party), table.texts.tolist(), config.model.text)
    return replace(table, values=values.numpy(), texts=None)


def read_active(
    active: ActiveTable,
    new: Source | None = None,
    encoding: Encoding | None = None,
    given: InMemoryTable | None = None,
    *,
    blank_labels: bool = False,
) -> Table:
    """Read the active party's table, or one of new people, whose labels nobody knows yet.

    given         the table, where it is at hand already
    blank_labels  its owner may have cleared some
    """
    source, label = new or given or active.table, None if new else active.label
    return _read(active, source, encoding, label=label, blank_labels=blank_labels)


def labels_in(source: Source, active: ActiveTable, names: Sequence[str]) -> dict[str, str] | None:
    """Return the labels of a table of new people by their ids, None where it brings none.

    names  of the run's labels: a 1 that a gap in its column has made 1.0 is the label '1' still.
           Others, as those that a blind run has forgotten, stand in the form that is compared
    """
    if isinstance(source, InMemoryTable):
        frame, where = source.frame, source.where
    else:
        frame, where = read_frame(source, active.id, [active.label]), f"Table '{source}'"
    if active.label not in frame.columns:
        return None
    read = label_reader(names)
    texts = label_texts(labels_of(frame, active.label))
    labels = [read(text) or label_form(text) for text in texts]
    return dict(zip(ids_of(frame, active.id, where).tolist(), labels, strict=True))


def read_passive(party: PassiveTable, source: Source, encoding: Encoding | None = None) -> Table:
    """Read a passive party's table."""
    table = _read(party, source, encoding)
    if not table.columns:
        where = source.where if isinstance(source, InMemoryTable) else f"Table '{source}'"
        raise DataError(f"{where} of party '{party.name}' has no features.")
    return table


def _read(
    columns: TableColumns,
    source: Source,
    encoding: Encoding | None,
    label: str | None = None,
    *,
    blank_labels: bool = False,
) -> Table:
    return read_table(
        source,
        id_column=columns.id,
        label_column=label,
        features=columns.features,
        categories=columns.categories,
        missing=columns.missing,
        encoding=encoding,
        text_column=columns.text,
        blank_labels=blank_labels,
    )


def in_one_order(
    config: RunConfig,
    tables: Mapping[str, Table],
    *,
    training: bool,
    folder: Path | None = None,
    keep: dict[str, StoredAlignment] | None = None,
    watch: Watch = watch_nothing,
) -> dict[str, Table]:
    """Bring the rows that all tables share into one order.

    training      hold them against the smallest numbers that the parties train on
    folder, keep  where the parties keep what they found, or what takes it
    """
    ids = {name: table.ids for name, table in tables.items()}
    if config.align.method == "plaintext":
        positions = match_ids(ids, config.align)
    else:
        settings = config.align if training else replace(config.align, smallest=1)
        policies = {name: config.policy_of(name) for name in ids} if training else None
        try:
            positions = match_privately(
                ids, settings, policies=policies, folder=folder, keep=keep, watch=watch
            )
        except MissingLibrary as error:
            raise MissingLibrary(
                f"{error} Or write `align: {{method: plaintext}}`, or leave `align` out, where one "
                f"person holds all tables anyway."
            ) from error
    return {name: table.take(positions[name]) for name, table in tables.items()}


def table_features(tables: Mapping[str, Table]) -> dict[str, Features]:
    """Return the features of each table that has any."""
    return {name: table.features() for name, table in tables.items() if table.columns}


def _instead(party: str, sources: Mapping[str, Source]) -> Source:
    if party not in sources:
        raise SettingsError(f"Expected a table of new rows for party '{party}' but got none.")
    return sources[party]
