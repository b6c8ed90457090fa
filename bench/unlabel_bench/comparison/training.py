"""What a plain training reaches and how long an epoch takes, over several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from torch import Tensor

from unlabel.train import Epoch, Watcher
from unlabel_bench.recipe import Recipe
from unlabel_bench.registry import BENCHES, Bench, Result, Say


@dataclass(frozen=True)
class TrainingSettings(Recipe):
    """Settings of the bench: a run's settings, and the seeds to repeat it with."""

    validation: float = 0.0
    seeds: tuple[int, ...] = (0,)


class _Say(Watcher):
    def __init__(self, say: Say, seed: int) -> None:
        self._say, self._seed = say, seed

    def stepped(self, rows: int, loss: Tensor, correct: Tensor) -> None:
        """Leave the device alone."""

    def epoch_ended(self, epoch: Epoch, history: Sequence[Epoch]) -> None:  # noqa: ARG002
        self._say(
            f"seed {self._seed} epoch {epoch.epoch}: loss {epoch.loss:.4f}, {epoch.seconds:.2f} s"
        )


def measure(settings: TrainingSettings, say: Say) -> Result:
    """Train once a seed; return test accuracy and seconds an epoch."""
    runs = [_train(settings, seed, say) for seed in settings.seeds]
    accuracies = [each["accuracy"] for each in runs]
    return {
        "accuracy_mean": mean(accuracies),
        "accuracy_deviation": stdev(accuracies) if len(accuracies) > 1 else None,
        "runs": runs,
    }


def _train(settings: TrainingSettings, seed: int, say: Say) -> dict[str, Any]:
    federation = settings.federation(seed)
    history = federation.train(watchers=[_Say(say, seed)]).history
    evaluation = federation.evaluate()
    return {
        "seed": seed,
        "accuracy": evaluation.accuracy,
        "per_label_accuracy": list(evaluation.per_label_accuracy),
        "validation_accuracy": history[-1].validation_accuracy,
        "train_loss": history[-1].loss,
        "rows": len(federation.holdings.rows.train),
        "last_epoch_seconds": history[-1].seconds,
        "epoch_seconds": [round(epoch.seconds, 3) for epoch in history],
    }


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the runs as rows for people."""
    lines = [["seed", "test accuracy", "last epoch"]]
    for each in result["runs"]:
        seconds = f"{each['last_epoch_seconds']:.2f} s"
        lines.append([str(each["seed"]), f"{100 * each['accuracy']:.2f} %", seconds])
    return lines


BENCHES.add(
    "training",
    Bench(
        "test accuracy and seconds an epoch of a plain training", TrainingSettings, measure, table
    ),
)
