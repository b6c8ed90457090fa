"""Honest trainings and requests, looked at as closely as hostile ones: every alarm is false.

The same figures are judged under several limits at once, so that the margin of the default is seen.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from unlabel.config import ModelSettings, MonitorSettings, RunConfig, TrainSettings
from unlabel.errors import PartySuspected, TrainingError
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings
from unlabel.party.monitor import AnomalyMonitor
from unlabel.train import Watcher, batch_count

#: Model, rate and rows a batch; 50 leaves a small last batch of digits.
RECIPES = (
    *(("mlp", 0.01, 64), ("mlp", 0.05, 16), ("mlp", 0.05, 64), ("mlp", 0.2, 64)),
    *(("convnet", 0.01, 64), ("convnet", 0.05, 16), ("convnet", 0.05, 50), ("convnet", 0.1, 64)),
)
#: A request by the default method, by one that trains on few samples, and by one on all rows.
METHODS = ("hidden", "renormalise", "finetune")


@dataclass
class Alarms:
    """How many batches were looked at, the alarms under each limit, and the first of them."""

    limits: Sequence[float]
    batches: int = 0
    counts: Counter[float] = field(default_factory=Counter)
    first: dict[float, str] = field(default_factory=dict)


class Gauge(AnomalyMonitor):
    """A monitor that judges what it sees under several limits, and stops nothing."""

    def __init__(self, like: AnomalyMonitor, alarms: Alarms) -> None:
        self.alarms = alarms
        super().__init__(like.settings, like.parties, rows=like._rows, device=like.device)

    def reset(self) -> None:
        """Begin anew under every limit."""
        super().reset()
        self._each = {
            limit: AnomalyMonitor(
                replace(self.settings, limit=limit, mode="refuse"),
                self.parties,
                rows=0,
                device=self.device,
            )
            for limit in self.alarms.limits
        }

    def restore(self, facts: Mapping[str, Any]) -> None:
        """Take up a kept history under every limit."""
        super().restore(facts)
        for monitor in self._each.values():
            monitor.restore(facts)

    def flush_checks(self) -> None:
        """Hand the figures to a monitor of each limit, and count."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            self.alarms.batches += len(self.parties)
            for limit, monitor in self._each.items():
                monitor._waiting = [one]
                try:
                    monitor.flush_checks()
                except PartySuspected as error:
                    self.alarms.counts[limit] += 1
                    self.alarms.first.setdefault(limit, str(error).partition(";")[0])


def honest_runs(
    seeds: int, limits: Sequence[float], say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Return a line a scenario: batches looked at, and false alarms under each limit."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for name, scenario in scenarios(Path(folder)):
            say(f"honest: {name}")
            alarms = Alarms(tuple(limits))
            for seed in range(seeds):
                scenario(seed, alarms)
            lines.append(
                {
                    "scenario": name,
                    "runs": seeds,
                    "batches": alarms.batches,
                    "alarms": {f"{limit:g}": alarms.counts[limit] for limit in limits},
                    "first": {f"{limit:g}": text for limit, text in alarms.first.items()},
                }
            )
    return lines


def scenarios(folder: Path) -> Iterator[tuple[str, Callable[[int, Alarms], object]]]:
    """Yield honest runs by name."""
    for model, lr, batch in RECIPES:
        name = f"digits, {model}, lr {lr:g}, batches of {batch}"
        yield name, partial(_trained, "digits", model, lr=lr, batch=batch, epochs=8)
    for name, path in write_tables(folder).items():
        kept = partial(_trained, str(path), "mlp", lr=0.02, batch=32, epochs=8, public=0)
        yield f"{name}, mlp", kept
    noisy = partial(_trained, "digits", "mlp", defend="gaussian:clip=5:sigma=0.3")
    yield "digits, mlp, embeddings with noise", noisy
    for method in METHODS:
        yield f"forgetting by {method}", partial(_forgotten, method)
    yield "resumed from a version", partial(_resumed, folder)


def _trained(data: str, model: str, seed: int, alarms: Alarms | None, **train: Any) -> Federation:
    federation = _watched(data, model, seed, alarms, **train)
    federation.train()
    return federation


def _watched(
    data: str,
    model: str,
    seed: int,
    alarms: Alarms | None,
    folder: Path | None = None,
    defend: str = "",
    **train: Any,
) -> Federation:
    config = RunConfig(
        data=data,
        model=ModelSettings(bottom=model),
        train=TrainSettings(**{"epochs": 6, **train}, seed=seed),
        monitor=MonitorSettings(mode="warn"),
    )
    if defend:
        words = replace(config.defend, embeddings=[defend], seed=seed)
        config = replace(config, defend=words)
    federation = Federation.create(config, folder)
    if alarms is not None:
        _gauge(federation, alarms)
    return federation


def _gauge(federation: Federation, alarms: Alarms) -> None:
    federation.active.monitor = Gauge(federation.active.monitor, alarms)


def _forgotten(method: str, seed: int, alarms: Alarms) -> None:
    federation = _trained("digits", "mlp", seed, None, epochs=10)
    _gauge(federation, alarms)
    federation.forget([3], settings=ForgetSettings(method=method, allow_collapse=True))


class _Stop(Watcher):
    """Breaks a training off in its fourth epoch."""

    def stepped(self, rows: int, loss: Tensor, correct: Tensor) -> None:
        self.steps += 1
        if self.steps > 3.5 * self.an_epoch:
            raise TrainingError("The training was broken off.")

    def __init__(self, an_epoch: int) -> None:
        self.steps, self.an_epoch = 0, an_epoch


def _resumed(under: Path, seed: int, alarms: Alarms) -> None:
    folder = under / f"run-{seed}"
    first = _watched("digits", "mlp", seed, None, folder, epochs=8)
    an_epoch = batch_count(first.holdings.rows.train, first.config.train.batch)
    with contextlib.suppress(TrainingError):
        first.train(watchers=[_Stop(an_epoch)])
    repeated = Federation.open(folder, resume=True)
    _gauge(repeated, alarms)
    repeated.train()


def write_tables(folder: Path) -> dict[str, Path]:
    """Write two datasets of columns: measurements of tumours, and columns with heavy tails."""
    from sklearn.datasets import load_breast_cancer

    cancer = load_breast_cancer()
    draw = np.random.default_rng(5)
    tails = np.exp(draw.normal(0, 1.5, (1500, 20)))
    label = (np.log(tails) @ draw.normal(0, 1, 20) > 0).astype(np.int64)
    created = {
        "breast cancer": (cancer.data.astype(np.float32), cancer.target.astype(np.int64)),
        "heavy tails": (tails.astype(np.float32), label),
    }
    paths = {}
    for name, (x, y) in created.items():
        paths[name] = folder / f"{name.replace(' ', '-')}.npz"
        np.savez(paths[name], x=x, y=y)
    return paths
