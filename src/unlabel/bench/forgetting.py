"""Methods of forgetting side by side, from the same weights, beside models retrained without.

Every figure is a line of a JSONL file, keyed by what it is a figure of; a bench that starts again
on the same file repeats nothing that is there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unlabel.bench.forgetting_picture import draw
from unlabel.bench.forgetting_summary import summary, table
from unlabel.bench.measures import (
    accuracies,
    figures_of,
    key_of,
    labels_of,
    probe,
    read_method,
    samples_of,
    settings_digest,
)
from unlabel.bench.recipe import Recipe
from unlabel.bench.records import Records
from unlabel.bench.registry import BENCHES, Bench
from unlabel.federation import Federation
from unlabel.files import sha256
from unlabel.forget import ForgetSettings
from unlabel.train import Forgotten


@dataclass(frozen=True)
class ForgettingSettings(Recipe):
    """Settings of the bench.

    labels    requests: a label, or labels joined by +
    methods   by name; with settings as NAME:SETTING=VALUE:..., presets as NAME@PRESET
    frontier  methods for the probed requests only
    probed    requests for which probes and the membership attack are measured as well
    retrain   seeds for which models without the probed labels are trained
    budget    seconds after which no new piece of work begins; 0 is no limit
    picture   PNG file to draw into; needs matplotlib
    records   JSONL file of the figures; it is read first, and what is there is not repeated
    """

    validation: float = 0.0
    seeds: tuple[int, ...] = (0,)
    labels: tuple[str, ...] = ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
    methods: tuple[str, ...] = ("renormalise", "mask")
    frontier: tuple[str, ...] = ()
    probed: tuple[str, ...] = ()
    retrain: tuple[int, ...] = ()
    budget: float = 0.0
    records: str = ""
    picture: str = ""


#: Settings that decide the original model's weights.
RECIPE = ("data", "model", "parties", "epochs", "batch", "lr", "warmup", "nesterov", "validation")


def run(settings: ForgettingSettings, say: Callable[[str], None]) -> dict[str, Any]:
    """Train the originals, forget with every method, retrain; return figures and summaries."""
    recipe = {name: getattr(settings, name) for name in RECIPE}
    records = Records(settings.records, sha256(json.dumps(recipe).encode())[:12])
    ends = time.monotonic() + settings.budget if settings.budget else float("inf")
    originals: dict[int, Federation] = {}
    # What everybody asks first comes first, in case the time runs out.
    for part in ("methods", "frontier"):
        for seed in settings.seeds:
            for request, method in _todo(settings, records, seed, part):
                if time.monotonic() > ends:
                    break
                if seed not in originals:
                    originals[seed] = _original(settings, records, seed, say)
                _forget(settings, records, originals[seed], seed, request, method, say)
        if part == "methods":
            _retrain_all(settings, records, ends, say)
    result = {
        "records": records.lines,
        "summary": summary((*settings.methods, *settings.frontier), records),
    }
    if settings.picture:
        draw(result, Path(settings.picture))
    return result


def _retrain_all(
    settings: ForgettingSettings, records: Records, ends: float, say: Callable[[str], None]
) -> None:
    for seed in settings.retrain:
        for request in settings.probed:
            key = {"kind": "retrained", "request": request, "seed": seed}
            if records.find(**key) is None and time.monotonic() < ends:
                _retrain(settings, records, seed, request, say)


def _todo(
    settings: ForgettingSettings, records: Records, seed: int, part: str
) -> list[tuple[str, str]]:
    """Return the requests and methods that have no figures yet."""
    if part == "methods":
        wanted = [(request, method) for method in settings.methods for request in settings.labels]
        if settings.methods:
            wanted += [(request, "original") for request in settings.probed]
    else:
        wanted = [(request, method) for method in settings.frontier for request in settings.probed]
    return [
        (request, method)
        for request, method in wanted
        if records.find(**_key(request, method, seed)) is None
    ]


def _key(request: str, method: str, seed: int) -> dict[str, Any]:
    """Return what a line is a figure of; a method whose defaults changed is another one."""
    key: dict[str, Any] = {"kind": "forget", "request": request, "method": method, "seed": seed}
    if method != "original":
        key["settings"] = settings_digest(method)
    return key


def _original(
    settings: ForgettingSettings, records: Records, seed: int, say: Callable[[str], None]
) -> Federation:
    say(f"seed {seed}: training the original")
    federation = settings.federation(seed)
    history = federation.train().history
    if records.find(kind="original", seed=seed) is None:
        records.add(
            kind="original",
            seed=seed,
            accuracy=federation.evaluate().accuracy,
            train_seconds=sum(epoch.seconds for epoch in history),
            epoch_seconds=history[-1].seconds,
        )
    return federation


def _retrain(
    settings: ForgettingSettings,
    records: Records,
    seed: int,
    request: str,
    say: Callable[[str], None],
) -> None:
    say(f"seed {seed}: training without {request}")
    federation = settings.federation(seed)
    federation.forgotten = Forgotten(labels=labels_of(request))
    history = federation.train().history
    stay, gone = accuracies(federation, labels_of(request))
    records.add(
        kind="retrained",
        request=request,
        seed=seed,
        method="retrained",
        retained=stay,
        forgotten=gone,
        train_seconds=sum(epoch.seconds for epoch in history),
        **probe(federation, labels_of(request)),
    )


def _forget(
    settings: ForgettingSettings,
    records: Records,
    federation: Federation,
    seed: int,
    request: str,
    method: str,
    say: Callable[[str], None],
) -> None:
    labels = labels_of(request)
    line = _key(request, method, seed)
    if method == "original":
        stay, gone = accuracies(federation, labels)
        records.add(**line, retained=stay, forgotten=gone, **probe(federation, labels))
        return
    outcome = federation.forget(
        labels,
        settings=ForgetSettings(
            method=read_method(method), key=key_of(seed, request), **samples_of(method)
        ),
    )
    result = outcome.result
    line |= {**figures_of(result), "drift_share": result.drift_share}
    if request in settings.probed:
        line |= probe(federation, labels)
    outcome.rollback()
    records.add(**line)
    say(
        f"seed {seed} {method} {request}: D_r {100 * (line['retained'] or 0):.2f} "
        f"y_u {100 * (line['forgotten'] or 0):.2f} in {result.seconds:.3f} s"
    )


BENCHES.add(
    "forgetting",
    Bench(
        "methods of forgetting beside retrained models: D_r, y_u, attack, probes, seconds",
        ForgettingSettings,
        run,
        table,
    ),
)
