"""New rows as parties hold them, and predicted labels by the names of labels and people."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from torch import Tensor

from unlabel.config import RunConfig
from unlabel.data import ACTIVE, Features
from unlabel.data.column_encoding import Encoding
from unlabel.data.dataset import ARRAY_FILES, TABLE_FILES, Array
from unlabel.data.npz import load_rows
from unlabel.data.tables import dataset_encoding, load_new_rows, load_new_texts
from unlabel.errors import DataError
from unlabel.train.loading import part_features, read_dataset
from unlabel.train.tables import Source, labels_in, match_tables, table_features


@dataclass(frozen=True)
class Predictions:
    """Predicted labels of rows.

    ids            of the rows
    labels         the predicted label's name a row
    probabilities  [n, C], one column a label
    names          the labels' names
    logits         [n, C], from which the probabilities are
    truth          the true label's name a row where it is known, empty for a row whose label was
                   forgotten; None where nobody knows any
    without        parties that were down, so that others answered for them
    unknown        how many of the people asked for not every party knows
    notes          what their owner should know of how the new rows were read
    """

    ids: Array
    labels: tuple[str, ...]
    probabilities: Array
    names: tuple[str, ...]
    logits: Tensor
    truth: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    unknown: int = 0
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, ids: Array, logits: Tensor, names: Sequence[str]) -> Predictions:
        """Return what logits [n, C] say of rows.

        >>> import numpy as np, torch
        >>> Predictions.of(np.array(["a"]), torch.tensor([[2.0, 0.0]]), ("no", "yes")).labels
        ('no',)
        """
        return cls(
            ids=ids,
            labels=tuple(names[label] for label in logits.argmax(1).tolist()),
            probabilities=logits.softmax(1).cpu().numpy(),
            names=tuple(names),
            logits=logits,
        )

    def without_labels(self, forgotten: Collection[str]) -> Predictions:
        """Return the predictions among the other labels: p(label | it is one of these).

        >>> import numpy as np, torch
        >>> logits = torch.tensor([[9.0, 2.0, 2.0]])
        >>> every = Predictions.of(np.array(["a"]), logits, ("car", "boat", "home"))
        >>> every.without_labels({"car"}).probabilities.tolist()
        [[0.5, 0.5]]
        """
        if not forgotten:
            return self
        kept = [place for place, name in enumerate(self.names) if name not in forgotten]
        logits = self.logits[:, kept]
        among = Predictions.of(self.ids, logits, [self.names[place] for place in kept])
        return replace(
            self,
            labels=among.labels,
            probabilities=among.probabilities,
            names=among.names,
            logits=logits,
        )

    def __repr__(self) -> str:
        return f"<Predictions of {len(self.labels)} rows among {len(self.names)} labels>"


@dataclass(frozen=True)
class NewRows:
    """What each party holds of new rows.

    features  by party
    ids       of the rows: what their file calls them, or their numbers in it, from 0
    notes     what their owner should know of how they were read
    unknown   how many of the people asked for not every party knows
    labels    by id, where the active party's table brings them
    """

    features: dict[str, Features]
    ids: Array
    notes: tuple[str, ...] = ()
    unknown: int = 0
    labels: Mapping[str, str] | None = None


def new_tables(
    config: RunConfig,
    sources: Mapping[str, Source],
    encodings: Mapping[str, Encoding],
    names: Sequence[str],
) -> NewRows:
    """Return the rows that new tables of the parties share.

    encodings  by party, how its columns became numbers when the run began
    names      of the run's labels
    """
    assert config.active is not None
    tables = match_tables(config, sources, encodings)
    first = next(iter(tables.values()))
    active = sources.get(ACTIVE)
    return NewRows(
        table_features(tables),
        first.ids,
        notes=tuple(note for table in tables.values() for note in table.notes()),
        unknown=max(table.left_out for table in tables.values()),
        labels=None if active is None else labels_in(active, config.active, names),
    )


def new_rows(config: RunConfig, data: str) -> NewRows:
    """Give every party its part of new rows: the `x` of an .npz file, or another whole dataset.

    For a run that was made from a table in one file they lie in a file of the same columns.
    """
    encoding = dataset_encoding_of(config)
    if encoding is not None:
        if not data.endswith(TABLE_FILES):
            raise DataError(
                f"This run was made from a table in one file; expected new rows in a file of the "
                f"same columns, ending in {', '.join(TABLE_FILES)}, but got '{data}'."
            )
        table = load_new_rows(Path(data), config.columns, encoding)
        features = part_features(config, table.values, "table", blocks=encoding.blocks)
        return NewRows(features, table.ids, tuple(table.notes()))
    if config.columns.text and data.endswith(TABLE_FILES):
        texts, ids = load_new_texts(Path(data), config.columns)
        return NewRows(part_features(config, texts, "text"), ids)
    if data.endswith(ARRAY_FILES):
        rows = load_rows(Path(data), views=config.split == "views")
        if rows is not None:
            return NewRows(part_features(config, *rows), np.arange(len(rows[0])).astype(str))
    dataset = read_dataset(config, data)
    features = part_features(config, dataset.x, dataset.layout, blocks=dataset.blocks)
    return NewRows(features, dataset.row_names())


def dataset_encoding_of(config: RunConfig) -> Encoding | None:
    """Return how the columns of a run's own file become numbers; None for other runs."""
    if config.data is None or not config.data.endswith(TABLE_FILES) or config.columns.text:
        return None
    return dataset_encoding((config.folder or Path()) / config.data, config.columns)
