"""From a run's configuration to what each party holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unlabel.align.store import StoredAlignment
from unlabel.config import Augment, RunConfig
from unlabel.data import ACTIVE, Features, Rows, Table, encode_labels, load_dataset
from unlabel.data.cells import expect_apart, label_form
from unlabel.data.column_encoding import Encoding, stored_encoding
from unlabel.data.dataset import Array, Dataset, Layout
from unlabel.data.in_memory import InMemoryTable
from unlabel.data.splits import check_split, split_features, split_texts
from unlabel.data.tables import label_texts
from unlabel.errors import DataError, SettingsError
from unlabel.files import sha256
from unlabel.models import read_texts
from unlabel.progress import Watch, watch_nothing
from unlabel.train.beginning import (
    bound_labels,
    drawn_rows,
    in_one_form,
    with_numbers,
    with_objective,
    without_blanks,
)
from unlabel.train.checks import checked_run
from unlabel.train.facts import Forgotten
from unlabel.train.label_record import LABELS, UNKNOWN, Bound, LabelRecord, Update
from unlabel.train.tables import in_one_order, read_active, read_tables, table_features

NO_PIXELS = "Expected `augment` to be 'none' for tables and texts, which have no pixels."


@dataclass(frozen=True)
class Holdings:
    """What each party of a run holds; rows stand in one order for all.

    config     the run's configuration, with its tables' columns and its number of epochs
    features   by party; the active party is among them if it has any
    labels     0 .. C-1 a row, or `UNKNOWN` where it was forgotten; the active party's alone
    names      of the labels
    ids        of the rows
    rows       which rows train, validate and test
    encodings  by party, how the columns of its table became numbers; each its owner's alone
    notes      what a person should know of the data
    alignments by party, which rows it shares with the others, where they were matched privately
    """

    config: RunConfig
    features: dict[str, Features]
    labels: Tensor
    names: tuple[str, ...]
    ids: Array
    rows: Rows
    encodings: dict[str, Encoding] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    alignments: Mapping[str, StoredAlignment] = field(default_factory=dict)

    def digest(self) -> str:
        """Return a fingerprint of the people and the labels' names; `LabelRecord` has the rest."""
        return sha256("\n".join((*self.ids.tolist(), "", *self.names)).encode())

    def bind(self, home: Path, before: Update | None = None) -> None:
        """Commit to the rows and labels in the active party's folder, unless that was done.

        before  what was forgotten in the run that this one replaces
        """
        if not (home / LABELS).exists():
            held = (self.ids, self.labels, self.names, self.rows, self.config.align)
            record = LabelRecord.of(*held, before, may_lack=self.config.is_label_free)
            record.write(home)

    def keep_own(self, folder: Path) -> None:
        """Have every party keep in its folder what its columns became and which rows are shared."""
        for name, encoding in self.encodings.items():
            encoding.store(folder / name)
        for name, alignment in self.alignments.items():
            alignment.write(folder / name)

    def rows_without(self, forgotten: Forgotten) -> Rows:
        """Return the rows without those that were forgotten: what is gone is not learned again."""
        past = torch.isin(self.labels, torch.tensor([UNKNOWN, *forgotten.labels]))
        past[torch.tensor(forgotten.rows, dtype=torch.int64)] = True
        train, validation = self.rows.train, self.rows.validation
        return replace(
            self.rows, train=train[~past[train]], validation=validation[~past[validation]]
        )


def load_holdings(
    config: RunConfig,
    *,
    folder: Path | None = None,
    given: Mapping[str, InMemoryTable] | None = None,
    watch: Watch = watch_nothing,
    update: Update | None = None,
) -> Holdings:
    """Read what the configuration names and give every party its part.

    folder  of a run: rows of tables are matched, and categories found, once and for all
    given   tables by party that are at hand already, and read from no file
    watch   called with how far the matching is, or the reading of a folder of files
    update  what was forgotten in a run that begins anew with other rows
    """
    config = checked_run(config)
    bound = update if folder is None else LabelRecord.read(folder / ACTIVE)
    watch(0, 1, "reading the data")
    if config.data is not None:
        blank = bound is not None or config.is_label_free
        dataset = read_dataset(config, watch=watch, blank_labels=blank)
        return dataset_holdings(config, dataset, bound)
    return _from_tables(config, folder, given or {}, watch, bound)


def label_names(config: RunConfig, folder: Path | None = None) -> tuple[str, ...]:
    """Return the names of a run's labels; those of rows that all parties share.

    Where the others keep their tables elsewhere, all labels of the active party's own.
    """
    record = None if folder is None else LabelRecord.read(folder / ACTIVE)
    if record is not None:
        return record.names
    if not config.is_remote():
        return load_holdings(config, folder=folder).names
    assert config.active is not None
    labels = read_active(config.active).labels
    assert labels is not None
    return encode_labels(labels)[1]


def dataset_holdings(config: RunConfig, dataset: Dataset, bound: Bound | None = None) -> Holdings:
    """Give every party its part of a dataset.

    bound  what the run is bound to, where it has begun
    """
    settings = config.train
    augment = dataset.augment if settings.augment == "auto" else settings.augment
    if augment != "none" and dataset.layout in ("table", "text"):
        raise SettingsError(NO_PIXELS)
    test = dataset.test if len(dataset.test) else settings.test
    ids, labels, names = dataset.row_names(), torch.from_numpy(dataset.y), dataset.labels
    if bound is None:
        if config.is_label_free:
            labels, names = in_one_form(labels, names)
        labels, names = without_blanks(labels, names)
        expect_apart(names)
        rows = drawn_rows(config, ids, labels.numpy(), test)
    else:
        cells = [names[number] for number in dataset.y.tolist()]
        labels, names, rows = bound_labels(config, ids, cells, test, bound)
    config = with_objective(config, dataset.layout)
    return Holdings(
        config=replace(config, train=with_numbers(config, rows)),
        features=part_features(
            config,
            dataset.x,
            dataset.layout,
            blocks=dataset.blocks,
            indicators=dataset.indicators,
            augment=augment,
        ),
        labels=labels,
        names=names,
        ids=ids,
        rows=rows,
        notes=dataset.notes,
    )


def _from_tables(
    config: RunConfig,
    folder: Path | None,
    given: Mapping[str, InMemoryTable],
    watch: Watch,
    bound: Bound | None,
) -> Holdings:
    stored = {p: stored_encoding(folder / p) for p in config.party_names()} if folder else {}
    blank = bound is not None or config.is_label_free
    tables = read_tables(config, encodings=stored, given=given, blank_labels=blank)
    watch(0, 1, "matching rows")
    keep: dict[str, StoredAlignment] = {}
    matched = in_one_order(config, tables, training=True, folder=folder, keep=keep, watch=watch)
    watch(0, 1, "checking rows and labels")
    holdings = table_holdings(config, matched, bound)
    return replace(holdings, notes=_unmatched(tables[ACTIVE], holdings), alignments=keep)


def _unmatched(table: Table, holdings: Holdings) -> tuple[str, ...]:
    """Say how many of the active party's rows not every party has, and which labels go then."""
    shared = len(holdings.ids)
    if shared == len(table.ids):
        return ()
    assert table.labels is not None
    lost = sorted(set(label_texts(table.labels)) - {"", *holdings.names})
    names = ", ".join(f"'{name}'" for name in lost)
    note = f" No row of label {names} is among them." if lost else ""
    return (
        f"{shared} of the {len(table.ids)} rows of party '{ACTIVE}' are used: not every party has "
        f"the others.{note}",
    )


def table_holdings(
    config: RunConfig, tables: Mapping[str, Table], bound: Bound | None = None
) -> Holdings:
    """Return what the parties hold whose tables lie in this process, with rows in one order.

    The active party must be among them. Others may keep their tables elsewhere.

    bound  what the run is bound to, where it has begun
    """
    labels = tables[ACTIVE].labels
    if labels is None:
        raise DataError("The active party's table has no labels.")
    settings, ids = config.train, tables[ACTIVE].ids
    if settings.augment not in ("auto", "none"):
        raise SettingsError(NO_PIXELS)
    if bound is None:
        where = " among the rows that all parties have"
        if config.is_label_free:  # an empty cell is no label, and no other reading depends on it
            labels = np.array([label_form(text) for text in label_texts(labels)], dtype=object)
        codes, names = encode_labels(labels, where=where)
        known, names = without_blanks(torch.from_numpy(codes), names)
        expect_apart(names)
        rows = drawn_rows(config, ids, known.numpy(), settings.test)
    else:
        cells = label_texts(labels)
        known, names, rows = bound_labels(config, ids, cells, settings.test, bound)
    config = with_objective(config)
    return Holdings(
        config=replace(_with_columns(config, tables), train=with_numbers(config, rows)),
        features=table_features(tables),
        labels=known,
        names=names,
        ids=ids,
        rows=rows,
        encodings={name: table.encoding for name, table in tables.items()},
    )


def part_features(
    config: RunConfig,
    x: Array,
    layout: Layout,
    *,
    blocks: Sequence[int] = (),
    indicators: Array | None = None,
    augment: Augment = "none",
) -> dict[str, Features]:
    """Give every party its part of features; texts become numbers on their owner's side.

    blocks, indicators  of a table whose columns were encoded, and whose numbers may be missing then
    """
    parties, active_part = config.parties, config.active_part
    if layout != "text":
        parts = split_features(x, layout, parties, active_part=active_part, blocks=blocks)
        indicated: dict[str, Tensor] = {}
        if indicators is not None and len(indicators):
            indicated = split_features(
                indicators[None], layout, parties, active_part=active_part, blocks=blocks
            )
        return {
            name: Features(
                part,
                augment=augment,
                indicators=indicated[name][0] if indicated else None,
                may_miss=layout == "table" and bool(blocks),
            )
            for name, part in parts.items()
        }
    texts = split_texts(x.tolist(), parties, active_part=active_part)
    return {
        name: Features(read_texts(config.bottom_of(name), part, config.model.text))
        for name, part in texts.items()
    }


def read_dataset(
    config: RunConfig,
    data: str | None = None,
    watch: Watch = watch_nothing,
    *,
    blank_labels: bool = False,
) -> Dataset:
    """Read the dataset of a run, or another of its kind, and check that it splits as asked."""
    dataset = load_dataset(
        data or str(config.data),
        config.folder if data is None else None,
        views=config.split == "views",
        columns=config.columns,
        pictures=replace(config.pictures, views=config.pictures.views or config.views()),
        watch=watch,
        blank_labels=blank_labels,
    )
    check_split(dataset, config.split)
    return dataset


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
