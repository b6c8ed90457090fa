"""Public sets that lie in files the user names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from unlabel.data import ACTIVE, Features
from unlabel.errors import DataError, unknown
from unlabel.train import RunConfig


def read_public(
    config: RunConfig, path: Path, names: Sequence[str]
) -> tuple[dict[str, Features], Tensor, tuple[str, ...]]:
    """Return each party's part of a public set, its labels and its ids.

    For a run of a dataset it is an .npz file with `x` and `y`; for a run of tables a folder with a
    table a party, named after the party, the active one's with the label column.
    """
    if config.data is not None:
        return _from_npz(config, path, names)
    return _from_tables(config, path, names)


def _from_npz(
    config: RunConfig, path: Path, names: Sequence[str]
) -> tuple[dict[str, Features], Tensor, tuple[str, ...]]:
    from unlabel.data.npz import load_npz
    from unlabel.train.loading import part_features

    if not path.is_file():
        raise DataError(f"Public set '{path}' does not exist; give an .npz file with x and y.")
    dataset = load_npz(path, config.split == "views")
    labels = _numbers([dataset.labels[n] for n in dataset.y.tolist()], names, path)
    ids = tuple(str(number) for number in range(len(labels)))
    return part_features(config, dataset.x, dataset.layout), labels, ids


def _from_tables(
    config: RunConfig, folder: Path, names: Sequence[str]
) -> tuple[dict[str, Features], Tensor, tuple[str, ...]]:
    from dataclasses import replace

    from unlabel.train.loading import match_tables, table_features

    assert config.active is not None
    if not folder.is_dir():
        raise DataError(
            f"Public set '{folder}' is not a folder; a run of tables needs one with a table a "
            f"party, named after it."
        )
    moved = replace(
        config,
        active=replace(config.active, table=_find(folder, ACTIVE)),
        passive=[replace(p, table=_find(folder, p.name)) for p in config.passive],
    )
    tables = match_tables(moved)
    given = tables[ACTIVE].labels
    if given is None:
        raise DataError(f"The active party's table in '{folder}' has no labels.")
    ids = tuple(str(text) for text in tables[ACTIVE].ids.tolist())
    return table_features(tables), _numbers(given.tolist(), names, folder), ids


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
