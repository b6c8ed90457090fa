"""How long forgetting takes beside the training it undoes, in one run."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from unlabel.forget import ForgetSettings
from unlabel_bench.measures import key_of, read_method
from unlabel_bench.recipe import Recipe
from unlabel_bench.registry import BENCHES, Bench, Result, Say


@dataclass(frozen=True)
class ForgetSpeedSettings(Recipe):
    """Settings of the bench: a run, a label, and how often to forget it.

    method   as in the bench `forgetting`
    repeats  warm requests; each is rolled back before the next
    """

    seed: int = 0
    label: int = 0
    method: str = "renormalise"
    repeats: int = 10


def measure(settings: ForgetSpeedSettings, say: Say) -> Result:
    """Train once, forget once cold and `repeats` times warm; return seconds, bytes and ratios."""
    say("training")
    federation = settings.federation(settings.seed)
    history = federation.train().history
    trained = sum(epoch.seconds for epoch in history)
    results = []
    for number in range(1 + settings.repeats):
        say(f"forgetting, {'cold' if number == 0 else f'warm {number}'}")
        key = key_of(settings.seed, settings.label)
        outcome = federation.forget(
            [settings.label], settings=ForgetSettings(method=read_method(settings.method), key=key)
        )
        outcome.rollback()
        results.append(outcome.result)
    cold, warm = results[0], results[1:] or results
    seconds = median(result.seconds for result in warm)
    return {
        "cold_seconds": cold.seconds,
        "warm_seconds": seconds,
        "warm_seconds_all": [result.seconds for result in warm],
        "steps": cold.steps,
        "transcript_bytes": cold.transcript_bytes,
        "train_seconds": trained,
        "epoch_seconds": median(epoch.seconds for epoch in history),
        "ratio_to_training": seconds / trained,
        "ratio_to_epoch": seconds / median(epoch.seconds for epoch in history),
        "retained": [cold.retained_accuracy.before, cold.retained_accuracy.after],
        "forgotten": [cold.forgotten_accuracy.before, cold.forgotten_accuracy.after],
    }


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return the figures as rows for people."""
    return [
        ["what", "figure"],
        ["training", f"{result['train_seconds']:.2f} s"],
        ["forgetting, cold", f"{result['cold_seconds']:.3f} s"],
        ["forgetting, warm", f"{result['warm_seconds']:.3f} s"],
        ["share of the training", f"{100 * result['ratio_to_training']:.2f} %"],
        ["share of one epoch", f"{100 * result['ratio_to_epoch']:.1f} %"],
        ["steps", str(result["steps"])],
        ["bytes on the wire", f"{result['transcript_bytes']:,}"],
    ]


BENCHES.add(
    "forget-speed",
    Bench(
        "seconds, steps and bytes of one request, as a share of training",
        ForgetSpeedSettings,
        measure,
        table,
    ),
)
