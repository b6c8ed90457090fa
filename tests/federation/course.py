"""One course of events in the life of small parties, and the weights that each has after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from safetensors.torch import load_file
from small_parties import LABELS, PASSIVE
from torch import Tensor

from unlabel import Federation
from unlabel.config import PassiveTable, RunConfig
from unlabel.data import ACTIVE
from unlabel.forget import ForgetSettings
from unlabel.remote.kit import Kit

#: Decides every draw of a request, so that it is the same wherever it is made.
KEY = "5a" * 32

#: The weights of each party after each event.
Course = dict[str, dict[str, dict[str, Tensor]]]


def local_config(kits: Mapping[str, Path], tables: Mapping[str, Path]) -> RunConfig:
    """Return what the parties agreed on as a run in one process, over the same tables."""
    config = Kit.read(kits[ACTIVE]).run_config(tables[ACTIVE])
    passive = [PassiveTable(name=name, table=tables[name].resolve()) for name in PASSIVE]
    return replace(config, passive=passive)


def run_course(federation: Federation, homes: Mapping[str, Path]) -> Course:
    """Train, forget one label so that nobody can tell, and another so that all bottoms move."""
    federation.train()
    course = {"trained": weights(homes)}
    federation.forget([LABELS[1]], settings=ForgetSettings(key=KEY)).commit(force=True)
    course["hidden"] = weights(homes)
    federation.forget(
        [LABELS[2]],
        settings=ForgetSettings(
            method="ascent", key=KEY, allow_disclosure=True, allow_collapse=True
        ),
    ).commit(force=True)
    course["ascent"] = weights(homes)
    return course


def weights(homes: Mapping[str, Path]) -> dict[str, dict[str, Tensor]]:
    """Return what lies in each party's own folder as its newest version."""
    newest = {party: max((home / "versions").glob("*.json")) for party, home in homes.items()}
    return {p: load_file(facts.with_suffix(".safetensors")) for p, facts in newest.items()}


def homes_of(kits: Mapping[str, Path]) -> dict[str, Path]:
    """Return each party's own folder of a federation of kits."""
    return {name: Kit.read(folder).home for name, folder in kits.items()}
