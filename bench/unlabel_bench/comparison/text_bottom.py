"""A bottom for texts without a pretrained encoder, beside TF-IDF with a logistic regression."""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from unlabel.config import Columns, ModelSettings, RunConfig, TrainSettings, expect
from unlabel.data import load_dataset
from unlabel.data.dataset import Dataset
from unlabel.data.splits import split_texts
from unlabel.errors import SettingsError
from unlabel.federation import Federation
from unlabel.words import parse_settings
from unlabel_bench.registry import BENCHES, Bench, Result, Say

#: Columns of the files that runs are made from.
COLUMNS = Columns(label="label", text="text", split="part")


@dataclass(frozen=True)
class TextBottomSettings:
    """Settings of the bench; runs are trained as by default.

    sources  CSV or Parquet files of texts, each FILE NAME=VALUE .. with the settings of its columns
    folder   where they lie; no part of what is recorded
    model    bottom model
    sizes    rows beside the test part, drawn at random; 0 stands for all
    parties  numbers of parties among which each text is split
    seeds    of the runs; a seed also draws the rows, and the test part where the file has none
    """

    sources: tuple[str, ...] = (
        "banking77_train.csv.gz label=category text=text test=banking77_test.csv.gz",
        "dbpedia14k.csv.gz label=label text=text",
    )
    folder: str = "."
    model: str = "words"
    sizes: tuple[int, ...] = (2000, 0)
    parties: tuple[int, ...] = (1, 2)
    seeds: tuple[int, ...] = (0, 1, 2)

    def __post_init__(self) -> None:
        for name in ("sources", "sizes", "parties", "seeds"):
            values = getattr(self, name)
            expect(name, values, len(values) > 0, "at least one")
        expect("sizes", self.sizes, min(self.sizes) >= 0, "0 or more")


def measure(settings: TextBottomSettings, say: Say) -> Result:
    """Return test accuracies of runs, and of the two baselines on the same training rows.

    whole      TF-IDF of the whole text, as one organisation that held all of it would have
    stretches  TF-IDF of every party's stretch, side by side
    """
    runs, groups = [], []
    for source in settings.sources:
        dataset = _read(source, settings.folder)
        for size in settings.sizes:
            for parties in settings.parties:
                measured = [
                    _measure(dataset, settings.model, size, parties, seed)
                    for seed in settings.seeds
                ]
                runs += measured
                groups.append(_group(measured))
                say(
                    f"{dataset.name}, {size or 'all'} rows, {parties} parties: "
                    f"{groups[-1]['model']:.2f}, TF-IDF {groups[-1]['whole']:.2f}"
                )
    return {"groups": groups, "runs": runs}


def _read(source: str, folder: str) -> Dataset:
    name, *words = source.split()
    columns = parse_settings(Columns, words)
    dataset = load_dataset(name, Path(folder), columns=columns)
    if dataset.layout != "text":
        raise SettingsError(f"Expected '{name}' to have a column of texts; name it with text=NAME.")
    return dataset


def _measure(dataset: Dataset, model: str, size: int, parties: int, seed: int) -> dict[str, Any]:
    """Train one run on a file of the drawn rows, and both baselines on what the run trained on."""
    part = _parts(dataset, size, seed)
    kept = np.flatnonzero(part != "")
    texts, labels = dataset.x[kept].tolist(), dataset.y[kept]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "texts.csv"
        with path.open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file)
            lines.writerow([COLUMNS.label, COLUMNS.text, COLUMNS.split])
            names = (dataset.labels[label] for label in labels)
            lines.writerows(zip(names, texts, part[kept], strict=True))
        federation = Federation.create(
            RunConfig(
                data=str(path),
                columns=COLUMNS,
                parties=parties,
                model=ModelSettings(bottom=model),
                train=TrainSettings(seed=seed),
            )
        )
        started = time.perf_counter()
        federation.train()
        seconds = time.perf_counter() - started
        accuracy = federation.evaluate().accuracy
    rows = federation.holdings.rows
    train, test = rows.train.numpy(), rows.test.numpy()
    whole = baseline([texts], labels, train, test)
    stretches = list(split_texts(texts, parties).values())
    return {
        "data": dataset.name,
        "rows": size,
        "parties": parties,
        "seed": seed,
        "trained": len(train),
        "tested": len(test),
        "model": 100 * accuracy,
        "whole": whole,
        "stretches": baseline(stretches, labels, train, test) if parties > 1 else whole,
        "seconds": round(seconds, 2),
    }


def _parts(dataset: Dataset, size: int, seed: int) -> np.ndarray[Any, Any]:
    """Return of every row whether it is to train, to test, or left out."""
    rng = np.random.default_rng(seed)
    part = np.full(len(dataset.y), "train", dtype="<U5")
    test = dataset.test
    if not len(test):
        test = rng.permutation(len(part))[: round(TrainSettings().test * len(part))]
    part[test] = "test"
    if size:
        part[rng.permutation(np.flatnonzero(part == "train"))[size:]] = ""
    return part


def baseline(
    parts: Sequence[Sequence[str]],
    labels: np.ndarray[Any, Any],
    train: np.ndarray[Any, Any],
    test: np.ndarray[Any, Any],
) -> float:
    """Return the test accuracy of logistic regression on the TF-IDF vectors of parts, in percent.

    Everything is as scikit-learn has it by default, but for more iterations.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    texts = np.array(parts, dtype=object).T
    vectors = [(str(number), TfidfVectorizer(), number) for number in range(len(parts))]
    model = make_pipeline(
        ColumnTransformer(vectors, sparse_threshold=1), LogisticRegression(max_iter=1000)
    )
    model.fit(texts[train], labels[train])
    return 100 * float(model.score(texts[test], labels[test]))


def _group(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    names = ("model", "whole", "stretches", "seconds")
    accuracies = [run["model"] for run in runs]
    return {
        **{name: runs[0][name] for name in ("data", "rows", "parties")},
        **{name: mean(run[name] for run in runs) for name in names},
        "deviation": stdev(accuracies) if len(accuracies) > 1 else None,
    }


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the means as rows for people."""
    lines = [["data", "rows", "parties", "model", "TF-IDF, whole", "TF-IDF, stretches", "seconds"]]
    for group in result["groups"]:
        figures = [f"{group[name]:.2f}" for name in ("model", "whole", "stretches")]
        rows = str(group["rows"] or "all")
        lines.append(
            [group["data"], rows, str(group["parties"]), *figures, f"{group['seconds']:.1f}"]
        )
    return lines


BENCHES.add(
    "text-bottom",
    Bench(
        "a bottom for texts beside TF-IDF with a logistic regression",
        TextBottomSettings,
        measure,
        table,
    ),
)
