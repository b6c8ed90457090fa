"""How long a training lasts where nobody says so, and that a run keeps to it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from unlabel.config import TrainSettings
from unlabel.config.loader import read_run_folder
from unlabel.data import Rows
from unlabel.federation import Federation
from unlabel.train.epochs import change, epochs_of, keep, patience_of, resolve


def rows(train: int, validation: int = 10) -> Rows:
    every = torch.arange(train + validation)
    return Rows(every[:train], every[train:], every[:0])


def table(folder: Path, count: int = 150) -> str:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 6)).astype(np.float32)
    y = (x[:, 0] * x[:, 3] + x[:, 1] > 0).astype(np.int64)
    np.savez(folder / "table.npz", x=x, y=y)
    return str(folder / "table.npz")


@pytest.mark.parametrize(
    ("train", "batch", "epochs"),
    # 2, 6, 10, 57 and 1 steps an epoch: 600 steps in all, but 20 to 100 epochs.
    [(128, 64, 100), (384, 64, 100), (609, 64, 60), (3600, 64, 20), (50, 64, 100), (609, 20, 20)],
)
def test_small_tables_get_more_epochs(train: int, batch: int, epochs: int) -> None:
    found = resolve(TrainSettings(batch=batch), rows(train))
    assert (found.epochs, found.patience) == (epochs, epochs // 2)


def test_given_epochs_are_trained_to_their_end_unless_patience_is_given_too() -> None:
    assert TrainSettings(epochs=20) == TrainSettings(epochs=20, patience=0)
    given = TrainSettings(epochs=20, patience=5)
    assert resolve(given, rows(100)) == given
    assert resolve(TrainSettings(patience=0), rows(609)) == TrainSettings(epochs=60, patience=0)


def test_without_validation_rows_nothing_stops_early() -> None:
    assert TrainSettings(validation=0).patience == 0
    few = rows(100, validation=0)
    assert resolve(TrainSettings(), few).patience == 0
    assert patience_of(TrainSettings(epochs=9, patience=3), few) == 0


def test_what_is_resolved_stays_whatever_the_rows_are_later() -> None:
    found = resolve(TrainSettings(), rows(609))
    assert resolve(found, rows(50)) == found
    assert epochs_of(found, 50) == 60


def test_epochs_that_are_changed_before_training_are_all_trained() -> None:
    held = rows(609)
    own = resolve(TrainSettings(), held)
    assert (own.epochs, own.patience) == (60, 30)
    assert change(own, {"epochs": 5}, held) == TrainSettings(epochs=5)
    assert change(own, {"epochs": 5, "patience": 2}, held) == TrainSettings(epochs=5, patience=2)
    assert change(own, {"batch": 128}, held).epochs == 100
    given = TrainSettings(epochs=40, patience=3)
    assert change(given, {"epochs": 5}, held) == TrainSettings(epochs=5, patience=3)


def test_an_earlier_sitting_decides_what_auto_stands_for() -> None:
    earlier = TrainSettings(epochs=33, patience=7)
    assert keep(TrainSettings(), earlier) == earlier
    assert keep(TrainSettings(patience=0), earlier) == TrainSettings(epochs=33)
    assert keep(TrainSettings(epochs=5), earlier) == TrainSettings(epochs=5)


def test_a_run_keeps_the_numbers_and_stops_at_the_best_version(tmp_path: Path) -> None:
    data = table(tmp_path)
    fed = Federation.local(data, model="mlp", folder=tmp_path / "run")
    kept = read_run_folder(tmp_path / "run").train
    assert (kept.epochs, kept.patience) == (100, 50)
    progress = fed.train()
    assert progress.finished
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    history = [json.loads(line) for line in lines]
    ranked = [(-e["validation_accuracy"], e["validation_loss"], e["epoch"]) for e in history]
    best = min(ranked)
    assert progress.best_epoch == best[2]
    assert len(history) == min(100, best[2] + 50)
    found = Federation.open(tmp_path / "run").evaluate("validation")
    assert (found.accuracy, found.loss) == pytest.approx((-best[0], best[1]))


def test_a_run_in_no_folder_stops_early_like_any_other(tmp_path: Path) -> None:
    fed = Federation.local(table(tmp_path), model="mlp", batch=2)
    assert (fed.config.train.epochs, fed.config.train.patience) == (20, 10)


def test_a_killed_run_ends_in_the_weights_of_an_undisturbed_one(tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    data = table(tmp_path, 80)
    whole = Federation.local(data, model="mlp", folder=tmp_path / "whole", batch=4)
    whole.train()
    half = Federation.local(data, model="mlp", folder=tmp_path / "half", batch=4)
    saved = half.active.versions.save

    def dying(version: int, *words: object, **named: object) -> object:
        if version == 8:
            raise Killed
        return saved(version, *words, **named)  # type: ignore[arg-type]

    half.active.versions.save = dying  # type: ignore[method-assign, assignment]
    with pytest.raises(Killed):
        half.train()
    reopened = Federation.open(tmp_path / "half", resume=True)
    progress = reopened.train()
    assert len(progress.history) == len(
        (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()
    )
    one, other = whole.active.top.fingerprint(), reopened.active.top.fingerprint()
    assert one == other
    assert replace(reopened.config.train) == whole.config.train
