"""Trained models that benches start from, kept in the cache so that none is trained twice.

    CACHE/bench/RECIPE/seed-N/versions/
      000001.safetensors   the states of all parties
      000001.json          how they were trained

What a bench measures is always a model that was read from there, a fresh one too, so that a bench
that starts again measures the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from unlabel.data import ACTIVE
from unlabel.errors import CheckpointError
from unlabel.federation import Federation
from unlabel.files import cache_folder, sha256
from unlabel.party import CheckpointStore, Learner
from unlabel.train import Progress
from unlabel_bench.recipe import LATER, Recipe

#: Settings that only say where and how to compute.
MACHINE = ("device", "graphs", "folder")


@dataclass(frozen=True)
class Original:
    """A trained federation in no folder.

    seconds  that its training took, and its last epoch
    """

    federation: Federation
    seconds: float
    epoch_seconds: float


def recipe_digest(recipe: Recipe) -> str:
    """Return a fingerprint of all settings that decide the weights, but for the seed."""
    values = {f.name: getattr(recipe, f.name) for f in fields(Recipe) if f.name not in MACHINE}
    for name in LATER:
        if not values[name]:
            del values[name]
    return sha256(json.dumps(values, sort_keys=True).encode())[:12]


def folder_of(recipe: Recipe, seed: int) -> Path:
    """Return where the original of a seed lies, or will lie."""
    return cache_folder() / "bench" / recipe_digest(recipe) / f"seed-{seed}"


def open_original(
    recipe: Recipe,
    seed: int,
    say: Callable[[str], None],
    check: Callable[[Federation], None] = lambda _: None,
) -> Original:
    """Return the trained federation of a recipe and a seed, training it where that is not done.

    check  is given the federation before it is trained, and may raise
    """
    store = CheckpointStore(folder_of(recipe, seed), party="original", model=recipe_digest(recipe))
    original = _read(store, recipe, seed)
    if original is None:
        federation = recipe.federation(seed)
        check(federation)
        say(f"seed {seed}: training the original")
        _train(store, federation)
        original = _read(store, recipe, seed)
    if original is None:
        raise CheckpointError(f"The original in '{store.home}' changed while it was read.")
    check(original.federation)
    return original


def _train(store: CheckpointStore, federation: Federation) -> None:
    history = federation.train().history
    facts = {
        "data": federation.holdings.digest(),
        "seconds": sum(epoch.seconds for epoch in history),
        "epoch_seconds": history[-1].seconds,
    }
    state = {
        f"{place}/{name}": tensor
        for place, learner in _learners(federation)
        for name, tensor in learner.state().items()
    }
    store.save(1, state, facts)


def _read(store: CheckpointStore, recipe: Recipe, seed: int) -> Original | None:
    """Return the original of a store; None where there is none, or a damaged or outdated one."""
    if 1 not in store.versions():
        return None
    federation = recipe.federation(seed)
    try:
        tensors, facts = store.load(1)
        if facts["data"] != federation.holdings.digest():
            return None  # a file of the same name holds other rows by now
        for place, learner in _learners(federation):
            learner.load_state(_under(tensors, place))
        _keep(federation)
        return Original(federation, facts["seconds"], facts["epoch_seconds"])
    except (CheckpointError, KeyError):
        return None


def _keep(federation: Federation) -> None:
    """Keep the parties' present models as a version, as if they had been trained here."""
    version = (federation.version or 0) + 1
    progress = Progress(version=version, finished=True)
    facts = replace(federation.version_facts(), progress=progress)
    federation.active.versions.save(version, facts.to_json())
    federation.version = version


def _learners(federation: Federation) -> Iterator[tuple[str, Learner]]:
    for half, learner in federation.active.learners().items():
        yield f"{ACTIVE}/{half}", learner
    for name, party in federation.passives.items():
        yield f"{name}/bottom", party.bottom


def _under(tensors: dict[str, Tensor], place: str) -> dict[str, Any]:
    start = f"{place}/"
    return {name.removeprefix(start): t for name, t in tensors.items() if name.startswith(start)}
