"""Parties that turn hostile in a training: what is noticed, how soon, and the damage.

Each attack begins at a random step of a training that was honest so far, and goes on to its end.
`early` attacks begin in the first pass over the rows, before any row came twice; `late` ones after
it. The same training runs without a check, to see the damage, and with it, to see whether and when
it stops. Honest trainings and requests to forget tell how often the check is wrong.
"""

from __future__ import annotations

import contextlib
import logging
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import torch
from torch import Tensor
from unlabel_bench.registry import BENCHES, Bench

from stress.fuzz_wire import one_thread, quiet
from stress.hostile_attacks import ATTACKS, Hostile, ScaledGradients
from stress.hostile_honest import honest_runs
from stress.hostile_page import page, picture, summarise, table
from unlabel.config import ModelSettings, MonitorSettings, Policy, RunConfig, TrainSettings
from unlabel.errors import SettingsError, UnlabelError, unknown
from unlabel.federation import Federation
from unlabel.party.monitor import log as watch_log
from unlabel.party.protocols import Filters
from unlabel.train import Watcher
from unlabel.wire import LocalTransport

#: What an active party may multiply its gradients by, as attacks on a passive one.
SCALED = {f"gradients times {factor:g}": factor for factor in (10.0, 100.0, 1000.0)}
#: The factor a passive party allows there, about twice the largest jump of an honest training.
JUMP = 30.0
#: Larger than any gradient, for a party that checks nothing.
ANY_NORM = 1e30


@dataclass(frozen=True)
class HostileSettings:
    """Settings of the bench.

    data     a built-in dataset or an .npz file
    models   bottom models, one after another
    parties  passive parties, of which the first turns hostile
    epochs, batch, lr  of the trainings
    seeds    how many seeds, from 0 on
    limit    factor of the check, as in `monitor.limit`
    limits   factors under which honest trainings are looked at
    attacks  names of attacks; none stands for all
    honest   look at honest trainings too
    page     Markdown file to write the tables into
    picture  PNG file to draw into; needs matplotlib
    """

    data: str = "digits"
    models: tuple[str, ...] = ("mlp", "convnet")
    parties: int = 2
    epochs: int = 10
    batch: int = 64
    lr: float = 0.05
    seeds: int = 3
    limit: float = 4.0
    limits: tuple[float, ...] = (2.0, 2.5, 3.0, 4.0)
    attacks: tuple[str, ...] = ()
    honest: bool = True
    page: str = ""
    picture: str = ""

    def __post_init__(self) -> None:
        for name in self.attacks:
            if name not in (*ATTACKS, *SCALED):
                raise SettingsError(unknown("attack", name, (*ATTACKS, *SCALED)))
        if self.seeds < 1 or not self.models:
            raise SettingsError("Expected at least one seed and one model.")


def measure(settings: HostileSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Attack trainings with and without a check, and look at honest ones."""
    records: list[dict[str, Any]] = []
    started = time.perf_counter()
    with quiet(), silent(), one_thread():
        for model in settings.models:
            for seed in range(settings.seeds):
                say(f"{model}, seed {seed}")
                honest = build(settings, model, seed, None)
                honest.train()
                right = honest.evaluate().accuracy
                for attack in settings.attacks or (*ATTACKS, *SCALED):
                    for when in ("early", "late"):
                        record = attacked(settings, model, seed, attack, when)
                        records.append({**record, "honest": right})
        cleared = honest_runs(settings.seeds, settings.limits, say) if settings.honest else []
    return {
        "summary": summarise(records),
        "honest": cleared,
        "records": records,
        "limit": settings.limit,
        "seconds": round(time.perf_counter() - started, 1),
        "about": {
            **{name: getattr(settings, name) for name in ("data", "parties", "epochs", "batch")},
            **{name: getattr(settings, name) for name in ("lr", "seeds", "models")},
            "jump": JUMP,
            "device": platform.machine(),
            "torch": torch.__version__,
        },
    }


def build(
    settings: HostileSettings, model: str, seed: int, watch: MonitorSettings | None
) -> Federation:
    """Return an untrained federation."""
    train = TrainSettings(epochs=settings.epochs, batch=settings.batch, lr=settings.lr, seed=seed)
    return Federation.create(
        RunConfig(
            data=settings.data,
            parties=settings.parties,
            model=ModelSettings(bottom=model),
            train=train,
            policy=Policy(max_gradient_norm=ANY_NORM),
            monitor=watch,
        )
    )


def attacked(
    settings: HostileSettings, model: str, seed: int, attack: str, when: str
) -> dict[str, Any]:
    """Attack one training, first without a check and then with it."""
    plain = build(settings, model, seed, None)
    steps = -(-len(plain.holdings.rows.train) // settings.batch)
    # A history says something after eight batches; an attack before that is one from the start.
    first, last = (9, steps) if when == "early" else (2 * steps, 3 * settings.epochs // 4 * steps)
    start = Random(f"{attack}/{model}/{when}/{seed}").randrange(first, last)
    _turn(plain, attack, start, seed)
    _, broke = _train(plain)
    watched = build(settings, model, seed, MonitorSettings(limit=settings.limit))
    _turn(watched, attack, start, seed, jump=JUMP)
    steps_taken, text = _train(watched)
    age = steps_taken - start
    return {
        "attack": attack,
        "model": model,
        "seed": seed,
        "when": when,
        "start": start,
        "noticed": age if text and age >= 0 else None,
        "false": bool(text) and age < 0,
        "told": text,
        "unchecked": _accuracy(plain),
        "unchecked_error": broke,
        "stopped_at": _accuracy(watched),
    }


def _turn(federation: Federation, attack: str, start: int, seed: int, *, jump: float = 0.0) -> None:
    """Make the first passive party hostile, or the active one."""
    active, passives = federation.active, federation.passives
    first = next(iter(passives))
    if attack in SCALED:
        active.filters = Filters("active", (ScaledGradients(SCALED[attack], start),))
        for party in passives.values():
            guard = party.guard
            guard.policy = replace(guard.policy, max_gradient_jump=jump)
        return
    hostile = Hostile(passives[first], attack, start, seed)
    active.transport = LocalTransport({**passives, first: hostile})


class _Count(Watcher):
    """Counts the steps of a training."""

    steps = 0

    def stepped(self, rows: int, loss: Tensor, correct: Tensor) -> None:
        self.steps += 1


def _train(federation: Federation) -> tuple[int, str]:
    """Train to the end, or to where it stops; return the steps taken and why it stopped."""
    count = _Count()
    try:
        federation.train(watchers=[count])
    except UnlabelError as error:
        return count.steps, str(error)
    return count.steps, ""


def _accuracy(federation: Federation) -> float | None:
    """Return the test accuracy of the models as they stand, None where they predict nothing."""
    try:
        return federation.evaluate().accuracy
    except UnlabelError:
        return None


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Keep suspicions off the screen; they are counted."""
    before = watch_log.level
    watch_log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        watch_log.setLevel(before)


BENCHES.add(
    "hostile",
    Bench(
        "parties that turn hostile: noticed or not",
        HostileSettings,
        measure,
        table,
        page,
        picture,
    ),
)
