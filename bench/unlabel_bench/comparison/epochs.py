"""How many epochs small tables want: 20, what `auto` takes, and scikit-learn on all features."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from unlabel.config import Columns, ModelSettings, RunConfig, TrainSettings, expect
from unlabel.data import load_dataset
from unlabel.data.dataset import Dataset
from unlabel.errors import SettingsError
from unlabel.federation import Federation
from unlabel.train import Holdings, assemble
from unlabel.train.loading import dataset_holdings
from unlabel.words import parse_settings
from unlabel_bench import markdown
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.summary import spread_of

#: Epochs that `auto` is held against.
BEFORE = 20


@dataclass(frozen=True)
class EpochsSettings:
    """Settings of the bench.

    files    tables beside those of scikit-learn, as FILE:label=NAME:id=NAME and so on
    folder   where the files lie
    rows     rows drawn from each file
    seeds    of rows, order and weights
    parties  passive parties
    """

    files: tuple[str, ...] = ()
    folder: str = ""
    rows: tuple[int, ...] = (500, 1000, 5000)
    seeds: int = 3
    parties: int = 2

    def __post_init__(self) -> None:
        expect("seeds", self.seeds, self.seeds >= 1, "at least 1")
        if min(self.rows, default=0) < 50:
            raise SettingsError("Expected `rows` of 50 or more.")


def measure(settings: EpochsSettings, say: Say) -> Result:
    """Return test accuracies, epochs and seconds of every table, as mean and deviation."""
    tables = {}
    for dataset in _tables(settings):
        lines = []
        for seed in range(settings.seeds):
            say(f"{dataset.name}, seed {seed}")
            lines.append(_measure(dataset, settings.parties, seed))
        tables[dataset.name] = {
            "rows": len(dataset.y),
            **{name: spread_of(lines, name) for name in lines[0]},
        }
    return {"tables": tables}


def _known() -> Iterator[Dataset]:
    """Return the tables that come with scikit-learn, and one that it makes."""
    from sklearn import datasets

    for load in (datasets.load_wine, datasets.load_breast_cancer, datasets.load_digits):
        held = load()
        yield _table(load.__name__.removeprefix("load_"), held.data, held.target)
    # As many rows, labels and columns as the table that 20 epochs were found too few for.
    x, y = datasets.make_classification(
        846, 18, n_informative=10, n_redundant=6, n_classes=4, random_state=0
    )
    yield _table("made-846", x, y)


def _tables(settings: EpochsSettings) -> Iterator[Dataset]:
    yield from _known()
    folder = Path(settings.folder) if settings.folder else None
    for words in settings.files:
        file, *columns = words.split(":")
        whole = load_dataset(file, folder, columns=parse_settings(Columns, columns))
        order = np.random.default_rng(0).permutation(len(whole.y))
        for count in settings.rows:
            some = np.sort(order[:count])
            yield replace(
                whole,
                name=f"{whole.name}-{count}",
                x=whole.x[some],
                y=whole.y[some],
                ids=whole.ids[some] if len(whole.ids) else whole.ids,
                test=np.empty(0, dtype=np.int64),
            )


def _table(name: str, x: Any, y: Any) -> Dataset:
    labels = tuple(str(label) for label in np.unique(y))
    return Dataset(name, x.astype(np.float32), y.astype(np.int64), labels, layout="table")


def _measure(dataset: Dataset, parties: int, seed: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, train in (
        ("old", TrainSettings(epochs=BEFORE, seed=seed)),
        ("auto", TrainSettings(seed=seed)),
    ):
        config = RunConfig(
            data=dataset.name, parties=parties, model=ModelSettings(bottom="mlp"), train=train
        )
        holdings = dataset_holdings(config, dataset)
        with tempfile.TemporaryDirectory() as folder:
            active, passives = assemble(holdings, folder=Path(folder))
            federation = Federation(holdings, active, passives, Path(folder))
            history = federation.train().history
            figures[name] = federation.evaluate().accuracy
        figures[f"{name}_epochs"] = len(history)
        figures[f"{name}_seconds"] = sum(epoch.seconds for epoch in history)
    return figures | _beside(dataset, holdings, seed)


def _beside(dataset: Dataset, holdings: Holdings, seed: int) -> dict[str, float]:
    """Return what scikit-learn makes of all features together and of all rows but the test rows."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    test = np.zeros(len(dataset.y), dtype=bool)
    test[holdings.rows.test.numpy()] = True
    known = dataset.x[~test].astype(np.float64)
    middle, width = np.nanmean(known, 0), np.nanstd(known, 0)
    x = np.nan_to_num((dataset.x - middle) / np.where(width > 0, width, 1))
    accuracies = {}
    for name, model in (
        ("mlp", MLPClassifier(max_iter=500, random_state=seed)),
        ("logistic", LogisticRegression(max_iter=1000)),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(x[~test], dataset.y[~test])
        accuracies[name] = float(model.score(x[test], dataset.y[test]))
    return accuracies


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return accuracies and times as rows for people."""
    names = (f"{BEFORE} epochs", "auto", "its epochs", "time", "sklearn MLP", "logistic regression")
    lines = [["table", "rows", *names]]
    for name, figures in result["tables"].items():
        old, auto, mlp, logistic = (
            markdown.figure(figures[model], 1, scale=100)
            for model in ("old", "auto", "mlp", "logistic")
        )
        epochs = f"{figures['auto_epochs']['mean']:.0f}"
        ratio = f"{figures['auto_seconds']['mean'] / figures['old_seconds']['mean']:.1f}"
        lines.append([name, str(figures["rows"]), old, auto, epochs, ratio, mlp, logistic])
    return lines


BENCHES.add(
    "epochs",
    Bench(
        "small tables: 20 epochs, as many as suit the data, and scikit-learn",
        EpochsSettings,
        measure,
        table,
    ),
)
