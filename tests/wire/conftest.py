"""Real parties for the tests of what lies between them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from unlabel.config import OptimiserSettings, Policy
from unlabel.data import Features
from unlabel.models import build_bottom
from unlabel.party import Bottom, CheckpointStore, PassiveParty, Place, Stream

#: In an order that is neither that of the alphabet nor that of their lengths.
NAMES = ("mill", "zoo", "bakery")


def make_party(name: str, folder: Path, policy: Policy | None = None) -> PassiveParty:
    stream, cpu = Stream(0, name), torch.device("cpu")
    with torch.random.fork_rng(devices=[]):
        stream.start("init", cpu)
        features = Features(torch.randn(20, 5))
        module = build_bottom("mlp", (5,))
    bottom = Bottom(module, features, OptimiserSettings(), stream=stream, place=Place(cpu))
    store = CheckpointStore(folder / name, party=name, model="mlp")
    return PassiveParty(name, bottom, width=32, store=store, policy=policy)


@pytest.fixture
def make_parties(tmp_path: Path) -> Callable[..., dict[str, PassiveParty]]:
    """Return a function that makes three parties; each call makes equal ones in a new folder."""
    made = iter(range(1_000))

    def make(policy: Policy | None = None) -> dict[str, PassiveParty]:
        folder = tmp_path / str(next(made))
        return {name: make_party(name, folder, policy) for name in NAMES}

    return make
