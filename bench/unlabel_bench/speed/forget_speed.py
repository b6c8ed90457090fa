"""How long forgetting takes beside the training it undoes, in one run."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from unlabel.forget import ForgetSettings
from unlabel.forget import Result as Outcome
from unlabel_bench.measures import key_of, read_method, samples_of
from unlabel_bench.recipe import Recipe
from unlabel_bench.registry import BENCHES, Bench, Result, Say


@dataclass(frozen=True)
class ForgetSpeedSettings(Recipe):
    """Settings of the bench: a run, a label, and how often to forget it.

    method   as in the bench `forgetting`
    beside   another method, whose requests take turns with those of the first; none if empty
    repeats  warm requests of each; each is rolled back before the next
    """

    seed: int = 0
    label: int = 0
    method: str = "renormalise"
    beside: str = ""
    repeats: int = 10


def measure(settings: ForgetSpeedSettings, say: Say) -> Result:
    """Train once, forget once cold and `repeats` times warm; return seconds, bytes and ratios.

    With another method beside it, `times_as_long` is its warm median over the first method's.
    """
    say("training")
    federation = settings.federation(settings.seed)
    history = federation.train().history
    trained = sum(epoch.seconds for epoch in history)
    methods = [name for name in (settings.method, settings.beside) if name]
    outcomes: dict[str, list[Outcome]] = {name: [] for name in methods}
    for number in range(1 + settings.repeats):
        for name in methods:
            say(f"{name}, {'cold' if number == 0 else f'warm {number}'}")
            asked = ForgetSettings(
                method=read_method(name),
                key=key_of(settings.seed, settings.label),
                allow_collapse=True,
                allow_disclosure=True,
                **samples_of(name),
            )
            outcome = federation.forget([settings.label], settings=asked)
            outcome.rollback()
            outcomes[name].append(outcome.result)
    results = outcomes[settings.method]
    cold, warm = results[0], results[1:] or results
    seconds = median(result.seconds for result in warm)
    other = [result.seconds for result in outcomes.get(settings.beside, [])[1:]]
    return {
        **({"beside": settings.beside, "beside_seconds_all": other} if other else {}),
        **({"times_as_long": median(other) / seconds} if other else {}),
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
        *(
            [[f"{result['beside']}, times as long", f"{result['times_as_long']:.1f}"]]
            if "beside" in result
            else []
        ),
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
