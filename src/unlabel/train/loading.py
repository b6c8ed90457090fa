"""From a run's configuration to what each party holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unlabel.align import match_ids, match_privately
from unlabel.align.psi import MissingLibrary, Watch, watch_nothing
from unlabel.data import (
    ACTIVE,
    Features,
    Rows,
    Table,
    draw_rows,
    encode_labels,
    load_dataset,
    read_table,
    table_of,
)
from unlabel.data.cells import one_form, texts_of
from unlabel.data.dataset import Array, Augment, Dataset, Layout
from unlabel.data.encoding import Encoding, kept_encoding
from unlabel.data.frames import ids_of, read_frame
from unlabel.data.given_frames import GivenTable
from unlabel.data.splits import check_split, split_array, split_texts
from unlabel.errors import DataError, SettingsError, unknown
from unlabel.files import sha256
from unlabel.models import read_texts
from unlabel.train.config import ActiveTable, PassiveTable, RunConfig
from unlabel.train.epochs import resolve
from unlabel.train.facts import Forgotten
from unlabel.train.left_out import note_left_out

#: Where a party's table comes from: a file, or Python.
Source = Path | GivenTable

NO_PIXELS = "Expected `augment` to be 'none' for tables and texts, which have no pixels."


@dataclass(frozen=True)
class Holdings:
    """What each party of a run holds; rows stand in one order for all.

    config     the run's configuration, with the table columns that were found, and with as many
               epochs as suit the rows where it leaves that open
    features   by party; the active party is among them if it has any
    labels     0 .. C-1 a row, the active party's alone
    names      of the labels
    ids        of the rows
    rows       which rows train, validate and test
    encodings  by party, how the columns of its table became numbers; each its owner's alone
    notes      what a person should know of the data
    """

    config: RunConfig
    features: dict[str, Features]
    labels: Tensor
    names: tuple[str, ...]
    ids: Array
    rows: Rows
    encodings: dict[str, Encoding] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def digest(self) -> str:
        """Return a fingerprint of the people and their labels."""
        text = "\n".join(self.ids.tolist()).encode()
        return sha256(text + self.labels.numpy().tobytes())

    def rows_without(self, forgotten: Forgotten) -> Rows:
        """Return the rows without those that were forgotten: what is gone is not learned again."""
        past = torch.isin(self.labels, torch.tensor(forgotten.labels))
        past[torch.tensor(forgotten.rows, dtype=torch.int64)] = True
        rows = self.rows
        return replace(
            rows,
            train=rows.train[~past[rows.train]],
            validation=rows.validation[~past[rows.validation]],
        )

    def keep_encodings(self, folder: Path) -> None:
        """Keep every party's encoding in its own subfolder of a run."""
        for name, encoding in self.encodings.items():
            encoding.keep(folder / name)


def load_holdings(
    config: RunConfig,
    *,
    folder: Path | None = None,
    given: Mapping[str, GivenTable] | None = None,
    watch: Watch = watch_nothing,
) -> Holdings:
    """Read what the configuration names and give every party its part.

    folder  of a run: rows of tables are matched, and categories found, once and for all
    given   tables by party that are at hand already, and read from no file
    watch   is told how far the matching is, or the reading of a folder of files
    """
    if config.data is not None:
        return _from_dataset(config, watch)
    return _from_tables(config, folder, given or {}, watch)


def label_names(config: RunConfig, folder: Path | None = None) -> tuple[str, ...]:
    """Return the names of a run's labels; those of rows that all parties share.

    Where the others keep their tables elsewhere, all labels of the active party's own.
    """
    if not config.is_remote():
        return load_holdings(config, folder=folder).names
    assert config.active is not None
    labels = read_active(config.active).labels
    assert labels is not None
    return encode_labels(labels)[1]


def _from_dataset(config: RunConfig, watch: Watch) -> Holdings:
    return dataset_holdings(config, read_dataset(config, watch=watch))


def dataset_holdings(config: RunConfig, dataset: Dataset) -> Holdings:
    """Give every party its part of a dataset."""
    settings = config.train
    augment = dataset.augment if settings.augment == "auto" else settings.augment
    if augment != "none" and dataset.layout in ("table", "text"):
        raise SettingsError(NO_PIXELS)
    rows = draw_rows(
        dataset.y,
        test=dataset.test if len(dataset.test) else settings.test,
        validation=settings.validation,
        seed=settings.seed,
        public=settings.public,
    )
    return Holdings(
        config=replace(config, train=resolve(settings, rows)),
        features=part_features(
            config,
            dataset.x,
            dataset.layout,
            blocks=dataset.blocks,
            marks=dataset.marks,
            augment=augment,
        ),
        labels=torch.from_numpy(dataset.y),
        names=dataset.labels,
        ids=dataset.row_names(),
        rows=rows,
        notes=dataset.notes,
    )


def _from_tables(
    config: RunConfig, folder: Path | None, given: Mapping[str, GivenTable], watch: Watch
) -> Holdings:
    kept = {} if folder is None else _kept_encodings(config, folder)
    tables = read_tables(config, encodings=kept, given=given)
    matched = _in_one_order(config, tables, training=True, folder=folder, watch=watch)
    holdings = table_holdings(config, matched)
    return replace(holdings, notes=_unmatched(tables[ACTIVE], holdings))


def _unmatched(own: Table, holdings: Holdings) -> tuple[str, ...]:
    """Say how many of the active party's rows not every party has, and which labels go then."""
    left = len(holdings.ids)
    if left == len(own.ids):
        return ()
    assert own.labels is not None
    lost = sorted({str(label) for label in own.labels} - set(holdings.names))
    named = ", ".join(f"'{name}'" for name in lost)
    gone = f" No row of label {named} is among them." if lost else ""
    return (
        f"{left} of the {len(own.ids)} rows of party '{ACTIVE}' are used: not every party has the "
        f"others.{gone}",
    )


def _kept_encodings(config: RunConfig, folder: Path) -> dict[str, Encoding]:
    found = {name: kept_encoding(folder / name) for name in config.party_names()}
    return {name: encoding for name, encoding in found.items() if encoding is not None}


def table_holdings(config: RunConfig, tables: Mapping[str, Table]) -> Holdings:
    """Return what the parties hold whose tables lie in this process, with rows in one order.

    The active party must be among them. Others may keep their tables in houses of their own.
    """
    labels = tables[ACTIVE].labels
    if labels is None:
        raise DataError("The active party's table has no labels.")
    codes, names = encode_labels(labels, where=" among the rows that all parties have")
    settings = config.train
    if settings.augment not in ("auto", "none"):
        raise SettingsError(NO_PIXELS)
    rows = draw_rows(
        codes,
        test=settings.test,
        validation=settings.validation,
        seed=settings.seed,
        public=settings.public,
    )
    return Holdings(
        config=replace(_with_columns(config, tables), train=resolve(settings, rows)),
        features=table_features(tables),
        labels=torch.from_numpy(codes),
        names=names,
        ids=tables[ACTIVE].ids,
        rows=rows,
        encodings={name: table.encoding for name, table in tables.items()},
    )


def part_features(
    config: RunConfig,
    x: Array,
    layout: Layout,
    *,
    blocks: Sequence[int] = (),
    marks: Array | None = None,
    augment: Augment = "none",
) -> dict[str, Features]:
    """Give every party its part of features; texts become numbers on their owner's side.

    blocks, marks  of a table whose columns were encoded, and whose numbers may be missing then
    """
    parties, own = config.parties, config.active_part
    if layout != "text":
        parts = split_array(x, layout, parties, active_part=own, blocks=blocks)
        marked: dict[str, Tensor] = {}
        if marks is not None and len(marks):
            marked = split_array(marks[None], layout, parties, active_part=own, blocks=blocks)
        return {
            name: Features(
                part,
                augment=augment,
                marks=marked[name][0] if marked else None,
                may_miss=layout == "table" and bool(blocks),
            )
            for name, part in parts.items()
        }
    texts = split_texts(x.tolist(), parties, active_part=own)
    return {
        name: Features(read_texts(config.bottom_of(name), part, config.model.text))
        for name, part in texts.items()
    }


def read_dataset(
    config: RunConfig, data: str | None = None, watch: Watch = watch_nothing
) -> Dataset:
    """Read the dataset of a run, or another of its kind, and check that it splits as asked."""
    dataset = load_dataset(
        data or str(config.data),
        config.folder if data is None else None,
        views=config.split == "views",
        columns=config.columns,
        pictures=replace(config.pictures, views=config.pictures.views or config.views()),
        watch=watch,
    )
    check_split(dataset, config.split)
    return dataset


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
    matched = _in_one_order(config, tables, training=False)
    return note_left_out(tables, matched, config.align)


def read_tables(
    config: RunConfig,
    instead: Mapping[str, Source] | None = None,
    encodings: Mapping[str, Encoding] | None = None,
    given: Mapping[str, GivenTable] | None = None,
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
        table = read_active(active, new, known.get(ACTIVE), at_hand.get(ACTIVE))
        tables[ACTIVE] = read_words(config, ACTIVE, table)
    for party in config.passive:
        own = at_hand.get(party.name) or _own_table(party)
        source = own if instead is None else _instead(party.name, instead)
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
    given: GivenTable | None = None,
) -> Table:
    """Read the active party's table, or one of new people, whose labels nobody knows yet.

    given  the table, where it is at hand already
    """
    return _read(
        new or given or active.table,
        id_column=active.id,
        label_column=None if new else active.label,
        features=active.features,
        categories=active.categories,
        missing=active.missing,
        encoding=encoding,
        text_column=active.text,
    )


def labels_in(source: Source, active: ActiveTable, names: Sequence[str]) -> dict[str, str] | None:
    """Return the labels of a table of new people by their ids, None where it brings none.

    names  of the run's labels: a 1 that a gap in its column has made 1.0 is the label '1' still
    """
    if isinstance(source, GivenTable):
        frame, where = source.frame, source.where
    else:
        frame, where = read_frame(source, active.id), f"Table '{source}'"
    if active.label not in frame.columns:
        return None
    known = {one_form(name): name for name in names}
    forms = [one_form(text) for text in texts_of(frame[active.label], where)]
    labels = [known.get(form, form) for form in forms]
    return dict(zip(ids_of(frame, active.id, where).tolist(), labels, strict=True))


def read_passive(party: PassiveTable, source: Source, encoding: Encoding | None = None) -> Table:
    """Read a passive party's table."""
    table = _read(
        source,
        id_column=party.id,
        features=party.features,
        categories=party.categories,
        missing=party.missing,
        encoding=encoding,
        text_column=party.text,
    )
    if not table.columns:
        where = source.where if isinstance(source, GivenTable) else f"Table '{source}'"
        raise DataError(f"{where} of party '{party.name}' has no features.")
    return table


def _read(source: Source, **options: Any) -> Table:
    """Read a table from its file, or take it as it was given."""
    if isinstance(source, GivenTable):
        return table_of(source.frame, source.where, **options)
    return read_table(source, **options)


def _in_one_order(
    config: RunConfig,
    tables: Mapping[str, Table],
    *,
    training: bool,
    folder: Path | None = None,
    watch: Watch = watch_nothing,
) -> dict[str, Table]:
    """Bring the rows that all tables share into one order.

    training  hold them against the smallest numbers that the parties train on
    """
    ids = {name: table.ids for name, table in tables.items()}
    if config.align.method == "clear":
        positions = match_ids(ids, config.align)
    else:
        settings = config.align if training else replace(config.align, smallest=1)
        policies = {name: config.policy_of(name) for name in ids} if training else None
        try:
            positions = match_privately(
                ids, settings, policies=policies, folder=folder, watch=watch
            )
        except MissingLibrary as error:
            raise MissingLibrary(
                f"{error} Or write `align: {{method: clear}}`, or leave `align` out, where one "
                f"person holds all tables anyway."
            ) from error
    return {name: table.take(positions[name]) for name, table in tables.items()}


def _own_table(party: PassiveTable) -> Path:
    if party.table is None:
        raise SettingsError(
            f"Expected a table of party '{party.name}' but its owner keeps it; give `--federation`."
        )
    return party.table


def table_features(tables: Mapping[str, Table]) -> dict[str, Features]:
    """Return the features of each table that has any."""
    return {name: table.features() for name, table in tables.items() if table.columns}


def _instead(party: str, sources: Mapping[str, Source]) -> Source:
    if party not in sources:
        raise SettingsError(f"Expected a table of new rows for party '{party}' but got none.")
    return sources[party]


def _with_columns(config: RunConfig, tables: Mapping[str, Table]) -> RunConfig:
    """Return the configuration with the columns that `rest` stands for, so that it cannot drift."""
    assert config.active is not None
    active = config.active
    if active.features != "none" and active.text is None:
        columns = list(tables[ACTIVE].columns)
        active = replace(active, features=columns or "none")
    passive = [
        replace(p, features=list(tables[p.name].columns))
        if p.name in tables and p.text is None
        else p
        for p in config.passive
    ]
    return replace(config, active=active, passive=passive)
