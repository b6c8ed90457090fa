"""A federation of three houses that is small enough for many tests, and one course of events."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors.torch import load_file
from sklearn.datasets import load_digits
from torch import Tensor

from unlabel import Federation
from unlabel.data import ACTIVE
from unlabel.forget import ForgetSettings
from unlabel.operate.kit import PARTY, Kit
from unlabel.operate.partyfile import read_party
from unlabel.operate.provision import provision
from unlabel.train import RunConfig
from unlabel.train.config import PassiveTable

PASSIVE = ("shop", "loan")
PARTIES = (ACTIVE, *PASSIVE)
ROWS = 420
#: Names that can be looked for in bytes: no other text holds them.
LABELS = ("quokka", "numbat", "bilby", "potoroo")
#: Decides every draw of a request, so that it is the same wherever it is made.
KEY = "5a" * 32

#: The weights of each party after each event.
Course = dict[str, dict[str, dict[str, Tensor]]]


def person(number: int) -> str:
    """Return the id of a person."""
    return f"wombat-{number:05d}"


def write_tables(folder: Path) -> dict[str, Path]:
    """Write a table a party: the same people, some missing here and there, in orders of their own.

    Pictures of four digits; the active party has the labels, the others half of the pixels each.
    """
    digits = load_digits()
    chosen = np.flatnonzero(digits.target < len(LABELS))[:ROWS]
    pixels, labels = digits.data[chosen] / 16, digits.target[chosen]
    ids = np.array([person(number) for number in range(ROWS)])
    own = pd.DataFrame({"id": ids, "animal": [LABELS[label] for label in labels]})
    parts = {ACTIVE: own}
    for place, name in enumerate(PASSIVE):
        columns = range(32 * place, 32 * place + 32)
        part = pd.DataFrame(pixels[:, columns], columns=[f"x{column}" for column in columns])
        part.insert(0, "id", ids)
        parts[name] = part.sample(frac=0.95, random_state=place)
    paths = {name: folder / f"{name}.csv" for name in parts}
    for name, part in parts.items():
        part.to_csv(paths[name], index=False)
    return paths


def make_kits(folder: Path, port: int) -> dict[str, Path]:
    """Make the kits of the three parties, which all draw from one known seed."""
    file = folder / "federation.yaml"
    text = (
        f"name: small\n"
        f"server: {{host: localhost, port: {port}}}\n"
        f"active: {{label: animal}}\n"
        f"passive: [{', '.join(f'{{name: {name}}}' for name in PASSIVE)}]\n"
        f"model: {{bottom: mlp}}\n"
        f"train: {{epochs: 2, batch: 32}}\n"
        f"timeout: 60\n"
    )
    file.write_text(text, encoding="utf-8")
    kits = provision(file, folder / "kits")
    for name in PARTIES:
        path = kits[name] / PARTY
        path.write_text(replace(read_party(path), seed=0).dump(), encoding="utf-8")
    return {name: kits[name] for name in PARTIES}


def local_config(kits: Mapping[str, Path], tables: Mapping[str, Path]) -> RunConfig:
    """Return what the parties agreed on as a run in one process, over the same tables."""
    config = Kit.read(kits[ACTIVE]).run_config(tables[ACTIVE])
    passive = [PassiveTable(name, tables[name].resolve()) for name in PASSIVE]
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
    return {party: load_file(_newest(home)) for party, home in homes.items()}


def _newest(home: Path) -> Path:
    manifest = max((home / "versions").glob("*.json"))
    assert json.loads(manifest.read_bytes())
    return manifest.with_suffix(".safetensors")


def homes_of(kits: Mapping[str, Path]) -> dict[str, Path]:
    """Return each party's own folder of a federation of kits."""
    return {name: Kit.read(folder).home for name, folder in kits.items()}
