"""Public sets that lie in files the user names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from unlabel.data import ACTIVE, Dataset, Features
from unlabel.data.dataset import SHEETS
from unlabel.data.encoding import Encoding
from unlabel.errors import DataError, unknown
from unlabel.train import RunConfig


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
    if config.data is not None:
        return _from_file(config, path, names)
    return _from_tables(config, path, names, encodings)


def read_unlabelled(
    config: RunConfig, path: Path, encodings: Mapping[str, Encoding] | None = None
) -> tuple[dict[str, Features], tuple[str, ...]]:
    """Return each party's part of public rows and their ids, and no labels.

    For a run of a dataset an .npz file with `x` is enough; for a run of tables the files are those
    of `read_public`, without labels, and the active party needs none where it has no features.
    """
    from unlabel.train.loading import match_tables, table_features
    from unlabel.train.new_rows import new_rows

    if config.data is None:
        _expect_folder(path)
        assert config.active is not None
        own = [] if config.active.features == "none" else [ACTIVE]
        given = {name: _find(path, name) for name in [*own, *(p.name for p in config.passive)]}
        tables = match_tables(config, given, encodings)
        first = next(iter(tables.values()))
        return table_features(tables), tuple(str(text) for text in first.ids.tolist())
    if not path.is_file():
        raise DataError(f"Public set '{path}' does not exist; give an .npz file with x.")
    rows = new_rows(config, str(path))
    return rows.features, tuple(rows.ids.tolist())


def _from_file(
    config: RunConfig, path: Path, names: Sequence[str]
) -> tuple[dict[str, Features], Tensor, tuple[str, ...]]:
    from unlabel.train.loading import part_features

    dataset = _read_file(config, path)
    labels = _numbers([dataset.labels[n] for n in dataset.y.tolist()], names, path)
    ids = tuple(dataset.row_names().tolist())
    return part_features(config, dataset.x, dataset.layout, blocks=dataset.blocks), labels, ids


def _read_file(config: RunConfig, path: Path) -> Dataset:
    from unlabel.data.npz import load_npz
    from unlabel.data.sheets import load_sheet
    from unlabel.train.new_rows import sheet_encoding_of

    if str(config.data).endswith(SHEETS):
        if not path.name.endswith(SHEETS):
            raise DataError(
                f"Public set '{path}' is no {', '.join(SHEETS)} file; give one with the columns of "
                f"the run's own file."
            )
        columns = replace(config.columns, split="", test="")
        return load_sheet(path, columns, sheet_encoding_of(config), sample=True)
    if not path.is_file():
        raise DataError(f"Public set '{path}' does not exist; give an .npz file with x and y.")
    return load_npz(path, config.split == "views")


def _from_tables(
    config: RunConfig,
    folder: Path,
    names: Sequence[str],
    encodings: Mapping[str, Encoding] | None,
) -> tuple[dict[str, Features], Tensor, tuple[str, ...]]:
    from unlabel.train.loading import match_tables, table_features

    assert config.active is not None
    _expect_folder(folder)
    moved = replace(
        config,
        active=replace(config.active, table=_find(folder, ACTIVE)),
        passive=[replace(p, table=_find(folder, p.name)) for p in config.passive],
    )
    tables = match_tables(moved, encodings=encodings)
    given = tables[ACTIVE].labels
    if given is None:
        raise DataError(f"The active party's table in '{folder}' has no labels.")
    ids = tuple(str(text) for text in tables[ACTIVE].ids.tolist())
    return table_features(tables), _numbers(given.tolist(), names, folder), ids


def _expect_folder(folder: Path) -> None:
    if not folder.is_dir():
        raise DataError(
            f"Public set '{folder}' is not a folder; a run of tables needs one with a table a "
            f"party, named after it."
        )


def _find(folder: Path, party: str) -> Path:
    for suffix in (".csv", ".parquet"):
        if (folder / f"{party}{suffix}").is_file():
            return folder / f"{party}{suffix}"
    raise DataError(f"Public set '{folder}' has no table '{party}.csv' or '{party}.parquet'.")


def _numbers(given: Sequence[object], names: Sequence[str], path: Path) -> Tensor:
    known = {name: number for number, name in enumerate(names)}
    for label in given:
        if str(label) not in known:
            raise DataError(f"Public set '{path}': {unknown('label', label, names)}")
    return torch.tensor([known[str(label)] for label in given])
