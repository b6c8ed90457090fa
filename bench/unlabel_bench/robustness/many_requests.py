"""The bench `many-requests`: request after request, each committed, on one model.

Labels are forgotten one by one; after each request the forgotten accuracy, the attack and the
probes are those of all labels forgotten so far, and the retained accuracy is that of the labels
left. People are not among them: their labels are forgotten by training again, which does not wear
a model out.

`retrain` and `mask` stand beside as one request for all that is gone by then: a model that never
met it, and one that has only been silenced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from unlabel.errors import ForgetError, TrainingError, why
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings
from unlabel_bench.measures import accuracies, key_of, probe, read_method
from unlabel_bench.originals import open_original
from unlabel_bench.registry import Result, Say
from unlabel_bench.robustness.levels import Ladder, RobustnessSettings
from unlabel_bench.robustness.summary import add_bench, results
from unlabel_bench.trials import SENSELESS

NAME = "many-requests"
#: Measured as one request for everything, since they are what the others are held against.
BESIDE = ("mask", "retrain")
LABELS = "labels one by one"

Figures = dict[str, Any]


@dataclass(frozen=True)
class ManyRequestsSettings(RobustnessSettings):
    """Settings of the bench.

    labels   forgotten one after another
    methods  none stands for hidden, renormalise, deep, mask and retrain
    beside   numbers of requests after which mask and retrain stand beside; none stands for the
             first, the middle and the last
    """

    labels: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7)
    methods: tuple[str, ...] = ("hidden", "renormalise", "deep", *BESIDE)
    beside: tuple[int, ...] = ()

    def stops(self, most: int) -> tuple[int, ...]:
        """Return after how many requests the references are measured."""
        chosen = self.beside or (1, (most + 1) // 2, most)
        return tuple(sorted({n for n in chosen if 1 <= n <= most}))


def measure(settings: ManyRequestsSettings, say: Say) -> Result:
    """Measure every series on every seed."""
    ladder = Ladder(NAME, settings, say)
    lines: list[dict[str, Any]] = []
    for seed in range(settings.seeds):
        for method in settings.tried():
            if method in BESIDE:
                lines += _references(ladder, settings, method, seed)
            else:
                lines += _series(ladder, settings, method, seed)
    levels = [str(n + 1) for n in range(len(settings.labels))]
    return results(settings, NAME, "requests", levels, lines)


def _series(
    ladder: Ladder, settings: ManyRequestsSettings, method: str, seed: int
) -> list[dict[str, Any]]:
    """Return a line a request; a series of which a line is missing is made again from its start."""
    records, count = ladder.records(settings), len(settings.labels)
    what = "+".join(map(str, settings.labels))
    keys = [ladder.key(str(n + 1), method, seed, what) | {"group": LABELS} for n in range(count)]
    known = [line for key in keys if (line := records.find(**key)) is not None]
    if len(known) == count or (known and "failed" in known[-1]):
        return known
    # Requests are kept, so no other measurement may begin from this model.
    federation = open_original(settings, seed, ladder.say).federation
    lines = []
    try:
        for key, figures in zip(keys, _steps(settings, federation, method, seed), strict=False):
            ladder.say(f"seed {seed}, {method}, request {key['level']}")
            lines.append(records.add(**key, **figures, where=ladder.where()))
    except (ForgetError, TrainingError, *SENSELESS) as error:
        lines.append(records.add(**keys[len(lines)], failed=why(error), where=ladder.where()))
    return lines


def _steps(
    settings: ManyRequestsSettings, federation: Federation, method: str, seed: int
) -> Iterator[Figures]:
    """Forget one label after another, and measure after each."""
    for number, label in enumerate(settings.labels):
        labels = settings.labels[: number + 1]
        outcome = federation.forget(
            [label],
            settings=ForgetSettings(
                method=read_method(method),
                key=key_of(seed, *labels),
                allow_collapse=True,
                allow_disclosure=True,
                measure_drift=False,
            ),
        )
        seconds = outcome.result.seconds
        outcome.commit(force=True)
        yield {**label_figures(federation, labels), "seconds": seconds}


def label_figures(federation: Federation, labels: Sequence[int]) -> Figures:
    """Return the accuracy on the labels left, and accuracy, attack and probes of the others."""
    retained, forgotten = accuracies(federation, labels)
    return {"retained": retained, "forgotten": forgotten, **probe(federation, labels)}


def _references(
    ladder: Ladder, settings: ManyRequestsSettings, method: str, seed: int
) -> list[dict[str, Any]]:
    """Return what one request for all labels forgotten so far makes of the original."""
    records, lines = ladder.records(settings), []
    for number in settings.stops(len(settings.labels)):
        labels = settings.labels[:number]
        what = "+".join(map(str, labels))
        key = ladder.key(str(number), method, seed, what) | {"group": LABELS}
        line = records.find(**key)
        if line is None:
            federation = ladder.original(settings, seed)
            ladder.say(f"seed {seed}, {method} beside {number} requests")
            outcome = federation.forget(
                labels,
                settings=ForgetSettings(
                    method=read_method(method),
                    key=key_of(seed, *labels),
                    allow_collapse=True,
                    allow_disclosure=True,
                    measure_drift=False,
                ),
            )
            figures = label_figures(federation, labels) | {"seconds": outcome.result.seconds}
            outcome.rollback()
            line = records.add(**key, **figures, where=ladder.where())
        lines.append(line)
    return lines


add_bench(NAME, "request after request on one model, each committed", ManyRequestsSettings, measure)
