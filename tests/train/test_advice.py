"""What a training's owner is advised: from made histories, and from real trainings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_wine

from unlabel.config import TrainSettings
from unlabel.data import Features, Rows
from unlabel.federation import Federation
from unlabel.train import Epoch, Progress
from unlabel.train.advice import advise, below_own_features, overfitted, undertrained

SETTINGS = TrainSettings(epochs=20)


def epochs(
    losses: list[float],
    validated: list[float] | None = None,
    accuracy: float = 0.8,
    held: float | None = 0.78,
) -> list[Epoch]:
    """Return a history of such losses."""
    others = validated or losses
    return [
        Epoch(n + 1, loss, accuracy, other if validated else None, held, 0.05, 0.1, 1.0)
        for n, (loss, other) in enumerate(zip(losses, others, strict=True))
    ]


def rows(train: int, validation: int) -> Rows:
    every = torch.arange(train + validation)
    return Rows(every[:train], every[train:], every[:0])


FALLING = [1.0 * 0.95**n for n in range(20)]
FLAT = [0.5 + 0.5 * 0.5**n for n in range(20)]
TURNING = [0.6 + 0.002 * (n - 8) ** 2 for n in range(20)]


def test_losses_that_still_fall_mean_too_few_epochs() -> None:
    sentence = undertrained(epochs(FALLING, FALLING), SETTINGS, 500)
    assert "losses still fell near the end of its 20 epochs" in sentence
    assert "with `epochs` at 40" in sentence
    assert undertrained(epochs(FALLING), SETTINGS, 500) == sentence
    # Three epochs have no quarters, but still a last one and one two before it.
    assert undertrained(epochs([1.0, 0.7, 0.5], [1.0, 0.8, 0.7]), SETTINGS, 500)


def test_a_few_steps_are_too_few_whatever_the_losses_do() -> None:
    sentence = undertrained(epochs(FLAT, FLAT), SETTINGS, 40)
    assert "it was trained for 40 steps only" in sentence
    assert undertrained(epochs([1.0], [1.0]), SETTINGS, 40)
    assert undertrained(epochs(FLAT, FLAT, accuracy=1.0), SETTINGS, 40) == ""


@pytest.mark.parametrize(
    "history",
    [
        epochs(FLAT, FLAT),
        epochs(FALLING, FLAT[::-1]),
        epochs(FALLING, TURNING),
        epochs(FALLING, FALLING, accuracy=0.995),
        epochs([1.0], [1.0]),
    ],
    ids=["flat", "validation rises", "validation was lower", "all is known", "one epoch"],
)
def test_nothing_more_is_to_be_learned_from_more_epochs(history: list[Epoch]) -> None:
    assert undertrained(history, SETTINGS, 500) == ""


@pytest.mark.parametrize(
    ("train", "held", "validation", "said"),
    [
        (0.997, 0.745, 500, True),
        (0.95, 0.90, 5000, False),  # surely apart, but by less than the margin
        (0.95, 0.80, 20, False),  # 15 points, which three of 20 rows make by chance
        (0.95, 0.80, 2000, True),
        (0.80, 0.85, 500, False),
    ],
)
def test_a_gap_counts_beyond_margin_and_sampling_error(
    train: float, held: float, validation: int, said: bool
) -> None:
    progress = Progress(history=epochs(FLAT, FLAT, train, held))
    sentence = overfitted(progress, SETTINGS, rows(4000, validation))
    assert bool(sentence) == said
    assert not said or "`patience: 10`" in sentence


def test_the_epoch_whose_weights_were_kept_is_judged() -> None:
    history = [*epochs([0.5], [0.5], 0.80, 0.79), *epochs([0.1], [0.9], 0.99, 0.70)]
    stopped = Progress(history=history, best_epoch=1)
    early = TrainSettings(epochs=20, patience=1)
    assert overfitted(stopped, early, rows(900, 900)) == ""
    to_the_end = overfitted(stopped, SETTINGS, rows(900, 900))
    assert "99.0 % on training rows and 70.0 %" in to_the_end


def test_a_federation_that_its_label_holder_can_beat_alone_is_named() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1200, 3)).astype(np.float32)
    x[:40, 2] = np.nan
    labels = torch.from_numpy((x[:, 0] + 0.3 * x[:, 1] > 0).astype(np.int64))
    own = Features(torch.from_numpy(x), may_miss=True)
    held = rows(1000, 200)
    worse, better = (Progress(history=epochs(FLAT, FLAT, 0.8, q)) for q in (0.80, 0.98))
    sentence = below_own_features(worse, SETTINGS, held, labels, own)
    assert sentence.startswith("The federation is below a logistic regression on the label holder")
    assert "80.0 % against" in sentence
    assert below_own_features(better, SETTINGS, held, labels, own) == ""
    # Ten rows tell little: all of them right against 8 happens by chance.
    few = Rows(held.train, held.validation[:10], held.test)
    assert below_own_features(worse, SETTINGS, few, labels, own) == ""
    # Numbers of words are no quantities.
    words = Features(torch.arange(3600).view(1200, 3))
    assert below_own_features(worse, SETTINGS, held, labels, words) == ""
    assert advise(worse, SETTINGS, held, labels, own) == (sentence,)


def table(folder: Path, count: int, noise: float, columns: int = 12) -> str:
    """Keep a table whose label depends on columns of both parties, and on chance."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(count, columns)).astype(np.float32)
    score = np.abs(x[:, 0]) - 1 + x[:, 1] - x[:, 11] + noise * rng.normal(size=count)
    np.savez(folder / "table.npz", x=x, y=(score > 0).astype(np.int64))
    return str(folder / "table.npz")


def test_a_training_that_was_too_short_is_told_so(tmp_path: Path) -> None:
    wine = load_wine()
    np.savez(tmp_path / "wine.npz", x=wine.data.astype(np.float32), y=wine.target)
    fed = Federation.local(str(tmp_path / "wine.npz"), model="mlp", epochs=10)
    (sentence,) = fed.train().advice
    assert "probably undertrained: its losses still fell near the end of its 10 epochs" in sentence
    assert "with `epochs` at 50" in sentence


def test_a_training_that_learned_chance_by_heart_is_told_so(tmp_path: Path) -> None:
    data = table(tmp_path, 500, 4.0, columns=30)
    fed = Federation.local(data, model="mlp", epochs=80, validation=0.3)
    (sentence,) = fed.train().advice
    assert "probably overfitted" in sentence


def test_a_training_that_went_well_is_left_alone(tmp_path: Path) -> None:
    data = table(tmp_path, 3000, 0.2)
    fed = Federation.local(data, model="mlp", active_part=True, folder=tmp_path / "run")
    progress = fed.train()
    assert progress.advice == ()
    assert fed.evaluate().accuracy > 0.9
    # Advice is no part of what a version keeps.
    assert "advice" not in progress.to_facts()
    assert Progress.from_facts(progress.to_facts()) == progress
