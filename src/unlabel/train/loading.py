"""From a run's configuration to what each party holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
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
)
from unlabel.data.dataset import ARRAYS, Array, Augment, Dataset, Layout
from unlabel.data.npz import load_rows
from unlabel.data.splits import check_split, split_array, split_texts
from unlabel.errors import DataError, SettingsError, unknown
from unlabel.files import sha256
from unlabel.models import read_texts
from unlabel.train.config import PassiveTable, RunConfig

NO_PIXELS = "Expected `augment` to be 'none' for tables and texts, which have no pixels."


@dataclass(frozen=True)
class Holdings:
    """What each party of a run holds; rows stand in one order for all.

    config    the run's configuration, with the table columns that were found
    features  by party; the active party is among them if it has any
    labels    0 .. C-1 a row, the active party's alone
    names     of the labels
    ids       of the rows
    rows      which rows train, validate and test
    """

    config: RunConfig
    features: dict[str, Features]
    labels: Tensor
    names: tuple[str, ...]
    ids: Array
    rows: Rows

    def digest(self) -> str:
        """Return a fingerprint of the people and their labels."""
        text = "\n".join(self.ids.tolist()).encode()
        return sha256(text + self.labels.numpy().tobytes())


def load_holdings(
    config: RunConfig, *, folder: Path | None = None, watch: Watch = watch_nothing
) -> Holdings:
    """Read what the configuration names and give every party its part.

    folder  of a run: rows of tables are matched once and found there the next time
    watch   is told how far the matching is
    """
    if config.data is not None:
        return _from_dataset(config)
    return _from_tables(config, folder, watch)


def _from_dataset(config: RunConfig) -> Holdings:
    dataset = read_dataset(config)
    settings = config.train
    augment = dataset.augment if settings.augment == "auto" else settings.augment
    if augment != "none" and dataset.layout in ("table", "text"):
        raise SettingsError(NO_PIXELS)
    return Holdings(
        config=config,
        features=part_features(
            config, dataset.x, dataset.layout, blocks=dataset.blocks, augment=augment
        ),
        labels=torch.from_numpy(dataset.y),
        names=dataset.labels,
        ids=np.arange(len(dataset.y)).astype(str),
        rows=draw_rows(
            dataset.y,
            test=dataset.test if len(dataset.test) else settings.test,
            validation=settings.validation,
            seed=settings.seed,
            public=settings.public,
        ),
    )


def _from_tables(config: RunConfig, folder: Path | None, watch: Watch) -> Holdings:
    tables = _in_one_order(config, read_tables(config), training=True, folder=folder, watch=watch)
    return table_holdings(config, tables)


def table_holdings(config: RunConfig, tables: Mapping[str, Table]) -> Holdings:
    """Return what the parties hold whose tables lie in this process, with rows in one order.

    The active party must be among them. Others may keep their tables in houses of their own.
    """
    labels = tables[ACTIVE].labels
    if labels is None:
        raise DataError("The active party's table has no labels.")
    codes, names = encode_labels(labels)
    settings = config.train
    if settings.augment not in ("auto", "none"):
        raise SettingsError(NO_PIXELS)
    return Holdings(
        config=_with_columns(config, tables),
        features=table_features(tables),
        labels=torch.from_numpy(codes),
        names=names,
        ids=tables[ACTIVE].ids,
        rows=draw_rows(
            codes,
            test=settings.test,
            validation=settings.validation,
            seed=settings.seed,
            public=settings.public,
        ),
    )


def part_features(
    config: RunConfig,
    x: Array,
    layout: Layout,
    *,
    blocks: Sequence[int] = (),
    augment: Augment = "none",
) -> dict[str, Features]:
    """Give every party its part of features; texts become numbers on their owner's side."""
    parties, own = config.parties, config.active_part
    if layout != "text":
        parts = split_array(x, layout, parties, active_part=own, blocks=blocks)
        return {name: Features(part, augment=augment) for name, part in parts.items()}
    texts = split_texts(x.tolist(), parties, active_part=own)
    return {
        name: Features(read_texts(config.bottom_of(name), part, config.model.text))
        for name, part in texts.items()
    }


def read_dataset(config: RunConfig, data: str | None = None) -> Dataset:
    """Read the dataset of a run, or another of its kind, and check that it splits as asked."""
    dataset = load_dataset(
        data or str(config.data),
        config.folder if data is None else None,
        views=config.split == "views",
        columns=config.columns,
    )
    check_split(dataset, config.split)
    return dataset


def new_features(config: RunConfig, data: str) -> dict[str, Features]:
    """Give every party its part of new rows: the `x` of an .npz file, or another whole dataset."""
    found = load_rows(Path(data), views=config.split == "views") if data.endswith(ARRAYS) else None
    if found is not None:
        return part_features(config, *found)
    dataset = read_dataset(config, data)
    return part_features(config, dataset.x, dataset.layout, blocks=dataset.blocks)


def match_tables(config: RunConfig, instead: Mapping[str, Path] | None = None) -> dict[str, Table]:
    """Read every party's table and bring the common rows into one order, however few they are.

    With `instead` these files are read in place of the configured ones: new people, whose labels
    nobody knows yet. An active party without features then needs no file.
    """
    return _in_one_order(config, read_tables(config, instead), training=False)


def read_tables(config: RunConfig, instead: Mapping[str, Path] | None = None) -> dict[str, Table]:
    """Read every party's table as it lies on disk; see `match_tables`."""
    if config.active is None:
        raise SettingsError("This run was not made from tables; give `--data` instead.")
    active = config.active
    names = [ACTIVE, *(party.name for party in config.passive)]
    for name in instead or ():
        if name not in names:
            raise SettingsError(unknown("party", name, names))
    tables = {}
    if instead is None or active.features != "none":
        tables[ACTIVE] = read_table(
            active.table if instead is None else _instead(ACTIVE, instead),
            id_column=active.id,
            label_column=active.label if instead is None else None,
            features=active.features,
        )
    for party in config.passive:
        tables[party.name] = read_table(
            _own_table(party) if instead is None else _instead(party.name, instead),
            id_column=party.id,
            features=party.features,
        )
        if not tables[party.name].columns:
            raise DataError(f"Table '{party.table}' of party '{party.name}' has no features.")
    return tables


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
        positions = match_ids(ids)
    else:
        settings = config.align if training else replace(config.align, smallest=1)
        policies = {name: config.policy_of(name) for name in ids} if training else None
        try:
            positions = match_privately(
                ids, settings, policies=policies, folder=folder, watch=watch
            )
        except MissingLibrary as error:
            raise MissingLibrary(
                f"{error} Or write `align: {{method: clear}}`, where one person holds all tables "
                f"anyway."
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
    return {
        name: Features(torch.from_numpy(np.ascontiguousarray(table.values)))
        for name, table in tables.items()
        if table.columns
    }


def _instead(party: str, paths: Mapping[str, Path]) -> Path:
    if party not in paths:
        raise SettingsError(f"Expected a table of new rows for party '{party}' but got none.")
    return paths[party]


def _with_columns(config: RunConfig, tables: Mapping[str, Table]) -> RunConfig:
    """Return the configuration with the columns that `rest` stands for, so that it cannot drift."""
    assert config.active is not None
    active = config.active
    if active.features != "none":
        columns = list(tables[ACTIVE].columns)
        active = replace(active, features=columns or "none")
    passive = [
        replace(p, features=list(tables[p.name].columns)) if p.name in tables else p
        for p in config.passive
    ]
    return replace(config, active=active, passive=passive)
