"""A table between a label holder and one partner, and the runs that are compared on it."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unlabel.config import (
    FitSettings,
    LabelFreeSettings,
    Missing,
    ModelSettings,
    TrainSettings,
)
from unlabel.data import ACTIVE, Rows
from unlabel.data.dataset import Array
from unlabel.errors import DataError, SettingsError
from unlabel.federation import Federation
from unlabel.train import load_holdings
from unlabel.train.given import frames_config
from unlabel.train.loading import Holdings
from unlabel.words import parse_settings

#: What the partner is called, and the column of ids of both.
PARTNER, ID = "partner", "id"
#: Trees as the paper of the table would grow them: scikit-learn's, as they are by default.
TREES = "sklearn:HistGradientBoostingClassifier"

#: Real tables, and which columns the label holder has; the partner has the others. The label
#: holder's are what it would know by itself, and the partner has the most telling ones.
TABLES = (
    "credit_default.csv.gz:label=default.payment.next.month:id=ID:"
    "categories=SEX+EDUCATION+MARRIAGE:"
    "holder=LIMIT_BAL+SEX+EDUCATION+MARRIAGE+AGE+"
    "PAY_AMT1+PAY_AMT2+PAY_AMT3+PAY_AMT4+PAY_AMT5+PAY_AMT6",
    "adult.csv.gz:label=income:leave=split:missing=flag:"
    "holder=workclass+fnlwgt+education+education_num+occupation+hours_per_week+native_country",
    "bank_marketing.csv.gz:label=y:missing=flag:"
    "holder=age+job+marital+education+default+balance+housing+loan",
)


@dataclass(frozen=True)
class SplitWords:
    """What the words after a file's name say; lists have + between their values.

    label       column of labels
    id          column of ids; row numbers without it
    holder      columns of the label holder; the partner has the others
    categories  columns whose numbers are codes of categories
    leave       columns that nobody gets
    missing     what is done about missing values
    """

    label: str = "label"
    id: str = ""
    holder: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    leave: tuple[str, ...] = ()
    missing: str = "refuse"


@dataclass(frozen=True)
class SplitTable:
    """A table between two parties.

    frames  columns by name, of the label holder and of the partner
    """

    name: str
    words: SplitWords
    frames: dict[str, dict[str, Array]] = field(repr=False)

    def with_labels(self, labels: Array) -> SplitTable:
        """Return the same people with other labels; an empty one is not known."""
        holder = {**self.frames["holder"], self.words.label: labels}
        return replace(self, frames={**self.frames, "holder": holder})

    @property
    def labels(self) -> Array:
        """The cells of the labels, in the order of the file."""
        return self.frames["holder"][self.words.label]

    def some(self, rows: Array) -> SplitTable:
        """Return some of the people."""
        parts = self.frames.items()
        return replace(self, frames={n: {c: v[rows] for c, v in part.items()} for n, part in parts})

    def holdings(self, **settings: Any) -> tuple[Holdings, Any]:
        """Return what both parties of a run hold, and their tables; settings of `RunConfig`."""
        missing: Missing = self.words.missing  # type: ignore[assignment]
        config, tables = frames_config(
            self.frames,
            label=self.words.label,
            id_column=ID,
            categories=self.words.categories,
            missing=missing,
            **settings,
        )
        return load_holdings(config.under(Path.cwd()), given=tables), tables

    def blind(
        self,
        seed: int,
        top: str,
        label_free: LabelFreeSettings,
        fit: FitSettings | None = None,
    ) -> Federation:
        """Return an untrained run whose bottoms never see a label."""
        holdings, tables = self.holdings(
            bottoms="blind",
            model=ModelSettings(top=top),
            label_free=label_free,
            fit=fit or FitSettings(),
            train=TrainSettings(seed=seed),
        )
        return Federation.of(holdings, tables=tables)

    def supervised(self, seed: int, rows: Rows | None = None, **train: Any) -> Federation:
        """Return an untrained run of the default model, on the parts of another run."""
        holdings, tables = self.holdings(
            model=ModelSettings(bottom="mlp"), train=TrainSettings(seed=seed, **train)
        )
        if rows is not None:
            holdings = replace(holdings, rows=rows)
        return Federation.of(holdings, tables=tables)


def read_split(words: str, folder: str) -> SplitTable:
    """Read a table; words are FILE:NAME=VALUE:...

    >>> read_split("nothing.csv:label=y", ".")
    Traceback (most recent call last):
    ...
    unlabel.errors.DataError: There is no table 'nothing.csv'; name its folder with `folder`.
    """
    file, *rest = words.split(":")
    about: SplitWords = parse_settings(SplitWords, [word.replace("+", ",") for word in rest])
    path = Path(folder) / file
    if not path.is_file():
        raise DataError(f"There is no table '{path}'; name its folder with `folder`.")
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    head, *lines = csv.reader(text.splitlines())
    columns = dict(zip(head, map(_column, zip(*lines, strict=True)), strict=True))
    ids = columns.pop(about.id).astype(str) if about.id else np.arange(len(lines)).astype(str)
    ids = np.array([text.removesuffix(".0") for text in ids])
    for name in about.leave:
        columns.pop(name)
    strange = {about.label, *about.holder} - set(columns)
    if strange:
        raise SettingsError(f"Table '{path}' has no column '{sorted(strange)[0]}'.")
    columns.pop(about.label)
    place = head.index(about.label)
    labels = np.array([line[place] for line in lines])  # as they stand: 3 is no 3.0
    holder = {name: columns.pop(name) for name in about.holder}
    frames = {
        "holder": {ID: ids, about.label: labels, **holder},
        PARTNER: {ID: ids, **columns},
    }
    return SplitTable(file.partition(".")[0], about, frames)


def _column(cells: tuple[str, ...]) -> Array:
    """Return numbers where all cells are numbers or empty, else texts."""
    try:
        return np.array([float(cell) if cell else np.nan for cell in cells])
    except ValueError:
        return np.array(cells, dtype=object)


def columns_of(holdings: Holdings, *parties: str) -> Array:
    """Return the numbers that parties hold, side by side, before any scaling."""
    return np.concatenate([holdings.features[p].values.numpy() for p in parties], 1)


def sent_by(federation: Federation, party: str = PARTNER) -> Tensor:
    """Return what a party sends of every row, once all are trained."""
    active = federation.active
    place = active.embedded.index(party)
    if federation.is_blind:
        return active.local_embeddings["main"][place]
    return active.embeddings(torch.arange(len(active.labels)))[place]


def joined_cells(table: SplitTable, holdings: Holdings) -> tuple[Array, list[bool]]:
    """Return all columns of both as they stand in the file, and which of them are categories.

    Rows stand as in the run. Categories are numbered, and a missing value is not a number.
    """
    place = {text: row for row, text in enumerate(table.frames["holder"][ID].tolist())}
    order = np.array([place[text] for text in holdings.ids.tolist()])
    parts, kinds = [], []
    for frame in table.frames.values():
        for name, cells in frame.items():
            if name in (ID, table.words.label):
                continue
            is_text = cells.dtype == object
            kinds.append(is_text or name in table.words.categories)
            if kinds[-1]:
                cells = np.unique(cells.astype(str), return_inverse=True)[1].astype(float)
            parts.append(cells[order])
    return np.stack(parts, 1), kinds


def own_columns(holdings: Holdings) -> Array:
    """Return the label holder's numbers."""
    return columns_of(holdings, ACTIVE)
