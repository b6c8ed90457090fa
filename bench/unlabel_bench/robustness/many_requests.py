"""The bench `many-requests`: request after request, each committed, on one model.

labels  labels are forgotten one by one; after each request the forgotten accuracy, the attack and
        the probes are those of all labels forgotten so far, and the retained accuracy is that of
        the labels left
people  the labels of people are forgotten list by list; after each request the forgotten accuracy
        is the share of all people so far whose old label is still predicted, beside the confidence

`retrain` and `mask` stand beside as one request for all that is gone by then: a model that never
met it, and one that has only been silenced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from unlabel.errors import ForgetError, SettingsError, TrainingError, why
from unlabel.federation import Federation
from unlabel.forget import ForgetSettings
from unlabel.train import Forgotten
from unlabel_bench.measures import accuracies, key_of, probe, read_method
from unlabel_bench.originals import open_original
from unlabel_bench.registry import Result, Say
from unlabel_bench.robustness.levels import ANY, Ladder, RobustnessSettings
from unlabel_bench.robustness.summary import add_bench, results
from unlabel_bench.trials import SENSELESS

NAME = "many-requests"
#: Measured as one request for everything, since they are what the others are held against.
BESIDE = ("mask", "retrain")
LABELS, PEOPLE = "labels one by one", "people list by list"

Figures = dict[str, Any]


@dataclass(frozen=True)
class ManyRequestsSettings(RobustnessSettings):
    """Settings of the bench.

    labels   forgotten one after another
    methods  none stands for hidden, renormalise, deep, mask and retrain
    beside   numbers of requests after which mask and retrain stand beside; none stands for the
             first, the middle and the last
    lists    lists of people forgotten one after another by the method `people`; 0 leaves them out
    listed   people a list
    """

    labels: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7)
    methods: tuple[str, ...] = ("hidden", "renormalise", "deep", *BESIDE)
    beside: tuple[int, ...] = ()
    lists: int = 10
    listed: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.lists < 0 or self.listed < 1:
            raise SettingsError("Expected `lists` of 0 or more and `listed` of at least 1.")

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
                lines += _series(ladder, method, seed, LABELS, len(settings.labels), _label_steps)
        if settings.lists:
            lines += _series(ladder, "people", seed, PEOPLE, settings.lists, _people_steps)
            lines += _retrained_without_people(ladder, settings, seed)
    levels = [str(n + 1) for n in range(max(len(settings.labels), settings.lists))]
    return results(settings, NAME, "requests", levels, lines)


Steps = Callable[[ManyRequestsSettings, Federation, str, int], Iterator[Figures]]


def _series(
    ladder: Ladder, method: str, seed: int, group: str, count: int, steps: Steps
) -> list[dict[str, Any]]:
    """Return a line a request; a series of which a line is missing is made again from its start."""
    settings = ladder.settings
    assert isinstance(settings, ManyRequestsSettings)
    records = ladder.records(settings)
    what = _what(settings, group)
    keys = [ladder.key(str(n + 1), method, seed, what) | {"group": group} for n in range(count)]
    known = [line for key in keys if (line := records.find(**key)) is not None]
    if len(known) == count or (known and "failed" in known[-1]):
        return known
    # Requests are kept, so no other measurement may begin from this model.
    federation = open_original(settings, seed, ladder.say).federation
    lines = []
    try:
        for key, figures in zip(keys, steps(settings, federation, method, seed), strict=False):
            ladder.say(f"seed {seed}, {method}, request {key['level']}")
            lines.append(records.add(**key, **figures, where=ladder.where()))
    except (ForgetError, TrainingError, *SENSELESS) as error:
        lines.append(records.add(**keys[len(lines)], failed=why(error), where=ladder.where()))
    return lines


def _what(settings: ManyRequestsSettings, group: str) -> str:
    """Return the requests of a group, as they stand in the key of a line."""
    if group == PEOPLE:
        return f"{settings.lists} x {settings.listed} people"
    return "+".join(map(str, settings.labels))


def _label_steps(
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


def people_of(settings: ManyRequestsSettings, federation: Federation, seed: int) -> list[list[int]]:
    """Return the training rows of every list, nobody in two of them."""
    train = federation.holdings.rows.train.numpy()
    drawn = np.random.default_rng([seed, 7]).permutation(train)
    total = settings.lists * settings.listed
    if total > len(drawn):
        raise SettingsError(f"Expected at most {len(drawn)} people in all lists but got {total}.")
    return [
        sorted(int(row) for row in drawn[n * settings.listed : (n + 1) * settings.listed])
        for n in range(settings.lists)
    ]


def _people_steps(
    settings: ManyRequestsSettings, federation: Federation, method: str, seed: int
) -> Iterator[Figures]:
    """Forget one list after another, and measure everybody so far after each."""
    so_far: list[int] = []
    for number, rows in enumerate(people_of(settings, federation, seed)):
        ids = [str(federation.holdings.ids[row]) for row in rows]
        outcome = federation.forget(
            ids=ids,
            settings=ForgetSettings(
                method=read_method(method), key=key_of(seed, "people", number), allow_collapse=True
            ),
        )
        seconds = outcome.result.seconds
        outcome.commit(force=True)
        so_far += rows
        yield {**people_figures(federation, so_far), "seconds": seconds}


def people_figures(federation: Federation, rows: Sequence[int]) -> Figures:
    """Return the accuracy on test rows, and what is left of the old labels of people."""
    people = torch.tensor(list(rows))
    old = federation.holdings.labels[people]
    p = federation.active.logits(people.to(federation.active.device)).softmax(1).cpu()
    return {
        "retained": federation.evaluate().accuracy,
        "forgotten": (p.argmax(1) == old).float().mean().item(),
        "confidence": p.gather(1, old[:, None]).mean().item(),
    }


def _retrained_without_people(
    ladder: Ladder, settings: ManyRequestsSettings, seed: int
) -> list[dict[str, Any]]:
    """Return the original and models trained without the people of the first lists."""
    records, lines = ladder.records(settings), []
    what = _what(settings, PEOPLE)
    for number in (0, *settings.stops(settings.lists)):
        method = "retrain" if number else "original"
        level = str(number) if number else ANY
        key = ladder.key(level, method, seed, what) | {"group": PEOPLE}
        line = records.find(**key)
        if line is None:
            federation = ladder.original(settings, seed)
            people = people_of(settings, federation, seed)
            rows = [row for some in people[: number or len(people)] for row in some]
            if number:
                ladder.say(f"seed {seed}, training without the people of {number} lists")
                federation = settings.federation(seed)
                federation.forgotten = Forgotten(rows=tuple(sorted(rows)))
                federation.train()
            line = records.add(**key, **people_figures(federation, rows), where=ladder.where())
        lines.append(line)
    return lines


add_bench(NAME, "request after request on one model, each committed", ManyRequestsSettings, measure)
