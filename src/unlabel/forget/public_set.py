"""The public set: samples that every party holds its part of, and files that hold some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from unlabel.config import RunConfig
from unlabel.data import ACTIVE, Dataset, Features
from unlabel.data.column_encoding import Encoding
from unlabel.data.dataset import TABLE_FILES, Array
from unlabel.errors import DataError, ForgetError, unknown
from unlabel.party import Stream

#: Samples of all labels that a request may look at where it looks at the same ones every time.
MOST = 2000
PURGED = (
    "Other public samples than those of earlier requests cannot be drawn: labels were forgotten "
    "and purged, and partners would see by the samples which; leave --few-shot and --retained as "
    "they were, or give samples with --public."
)


@dataclass(frozen=True)
class PublicSet:
    """Samples that every party holds its part of.

    table      where the parties find them: a table of their own, or rows of the training table
    rows       their rows in that table
    labels     their labels
    ids        what their owners call them
    disclosed  whether some were trained on, so that using them names members
    source     in words, for the outcome
    forgotten  which of them are of people whose labels were forgotten, None if none are; they are
               asked for like all others, and their labels are not used
    name       of the selection, where it is of the run's own rows
    kept       rows that requests ask for, by selection: the same after labels were purged
    """

    table: str
    rows: Tensor
    labels: Tensor
    ids: tuple[str, ...]
    disclosed: bool
    source: str
    forgotten: Tensor | None = None
    name: str = ""
    kept: Mapping[str, Array] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, kept: Tensor) -> PublicSet:
        """Return a part of the set, by position or by a mask."""
        places = kept.nonzero()[:, 0] if kept.dtype == torch.bool else kept
        ids = tuple(self.ids[place] for place in places.tolist())
        forgotten = None if self.forgotten is None else self.forgotten[places]
        rows, labels = self.rows[places], self.labels[places]
        return replace(self, rows=rows, labels=labels, ids=ids, forgotten=forgotten)

    def left_out(self) -> Tensor:
        """Return which samples are asked for but not used: their labels were forgotten."""
        unknown = self.labels < 0
        return unknown if self.forgotten is None else self.forgotten | unknown

    def balanced(self, most: int = MOST) -> PublicSet:
        """Return the same samples for every request: the first few of each label, `most` in all.

        None may be left out: those of people whose labels were forgotten come with labels in turn,
        which know nothing of them. Those whose label is not known any more keep none.
        """
        known = [label for label in self.labels.unique().tolist() if label >= 0]
        if not known:
            return self
        if len(self) <= most:  # all of them, whatever is known of them
            some = self
        elif most == MOST and self.name in self.kept:
            some = self.take(torch.isin(self.rows, torch.from_numpy(self.kept[self.name].copy())))
        elif (self.labels < 0).any():
            raise ForgetError(PURGED)
        else:
            a_label = max(1, most // len(known))
            places = [(self.labels == label).nonzero()[:a_label, 0] for label in known]
            some = self.take(torch.cat(places).sort().values)
        in_turn = torch.tensor(known)[torch.arange(len(some)) % len(known)]
        replaced = some.left_out() & (some.labels >= 0)
        return replace(some, labels=torch.where(replaced, in_turn, some.labels))


def public_from_training(
    labels: Tensor,
    ids: Sequence[str],
    train: Tensor,
    per_label: int,
    *,
    seed: int,
    kept: Mapping[str, Array] | None = None,
) -> PublicSet:
    """Take the public set from the training rows, as the paper does; its members are disclosed.

    kept  the rows of earlier requests, which are asked for again
    """
    name, kept = f"training-{per_label}", kept or {}
    if name in kept:
        rows = torch.from_numpy(kept[name].copy())
    elif (labels[train] < 0).any():
        raise ForgetError(PURGED)
    else:
        generator = Stream(seed, "public").generator("training")
        order = train[torch.randperm(len(train), generator=generator)]
        chosen = [order[labels[order] == label][:per_label] for label in labels.unique().tolist()]
        rows = torch.cat(chosen).sort().values
    source, known = "training rows, disclosed as members", tuple(ids[r] for r in rows.tolist())
    return PublicSet("main", rows, labels[rows], known, True, source, name=name, kept=kept)


def read_public(
    config: RunConfig,
    path: Path,
    names: Sequence[str],
    encodings: Mapping[str, Encoding] | None = None,
) -> tuple[dict[str, Features], Tensor, tuple[str, ...]]:
    """Return each party's part of a public set, its labels and its ids.

    For a run of a dataset it is an .npz file with `x` and `y`, or a file of the same columns where
    the run was made from one; for a run of tables a folder with a table a party, named after the
    party, the active one's with the label column.

    encodings  by party, how the columns of its table became numbers when the run began
    """
    from unlabel.train.loading import part_features

    if config.data is None:
        return _from_tables(config, path, names, encodings)
    dataset = _read_file(config, path)
    labels = _numbers([dataset.labels[n] for n in dataset.y.tolist()], names, path)
    features = part_features(config, dataset.x, dataset.layout, blocks=dataset.blocks)
    return features, labels, tuple(dataset.row_names().tolist())


def read_unlabelled(
    config: RunConfig, path: Path, encodings: Mapping[str, Encoding] | None = None
) -> tuple[dict[str, Features], tuple[str, ...]]:
    """Return each party's part of public rows and their ids, and no labels.

    For a run of a dataset an .npz file with `x` is enough; for a run of tables the files are those
    of `read_public`, without labels, and the active party needs none where it has no features.
    """
    from unlabel.train.predictions import new_rows
    from unlabel.train.tables import match_tables, table_features

    if config.data is None:
        _expect_folder(path)
        assert config.active is not None
        parties = [] if config.active.features == "none" else [ACTIVE]
        parties += [party.name for party in config.passive]
        tables = match_tables(config, {name: _find(path, name) for name in parties}, encodings)
        first = next(iter(tables.values()))
        return table_features(tables), tuple(str(text) for text in first.ids.tolist())
    if not path.is_file():
        raise DataError(f"Public set '{path}' does not exist; give an .npz file with x.")
    rows = new_rows(config, str(path))
    return rows.features, tuple(rows.ids.tolist())


def _read_file(config: RunConfig, path: Path) -> Dataset:
    from unlabel.data.npz import load_npz
    from unlabel.data.tables import load_table_dataset
    from unlabel.train.predictions import dataset_encoding_of

    if str(config.data).endswith(TABLE_FILES):
        if not path.name.endswith(TABLE_FILES):
            raise DataError(
                f"Public set '{path}' is no {', '.join(TABLE_FILES)} file; give one with the "
                f"columns of the run's own file."
            )
        columns = replace(config.columns, split="", test="")
        return load_table_dataset(path, columns, dataset_encoding_of(config), sample=True)
    if not path.is_file():
        raise DataError(f"Public set '{path}' does not exist; give an .npz file with x and y.")
    return load_npz(path, config.split == "views")


def _from_tables(
    config: RunConfig, folder: Path, names: Sequence[str], encodings: Mapping[str, Encoding] | None
) -> tuple[dict[str, Features], Tensor, tuple[str, ...]]:
    from unlabel.train.tables import match_tables, table_features

    assert config.active is not None
    _expect_folder(folder)
    moved = replace(
        config,
        active=replace(config.active, table=_find(folder, ACTIVE)),
        passive=[replace(p, table=_find(folder, p.name)) for p in config.passive],
    )
    tables = match_tables(moved, encodings=encodings)
    labels = tables[ACTIVE].labels
    if labels is None:
        raise DataError(f"The active party's table in '{folder}' has no labels.")
    ids = tuple(str(text) for text in tables[ACTIVE].ids.tolist())
    return table_features(tables), _numbers(labels.tolist(), names, folder), ids


def _expect_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise DataError(
            f"Public set '{folder}' is not a folder; a run of tables needs one with a table a "
            f"party, named after it."
        )


def _find(folder: Path, party: str) -> Path:
    for suffix in TABLE_FILES:
        if (folder / f"{party}{suffix}").is_file():
            return folder / f"{party}{suffix}"
    raise DataError(
        f"Public set '{folder}' has no table '{party}.csv', nor one that ends in "
        f"{', '.join(TABLE_FILES[1:])}."
    )


def _numbers(labels: Sequence[object], names: Sequence[str], path: Path) -> Tensor:
    known = {name: number for number, name in enumerate(names)}
    for label in labels:
        if str(label) not in known:
            raise DataError(f"Public set '{path}': {unknown('label', label, names)}")
    return torch.tensor([known[str(label)] for label in labels])
