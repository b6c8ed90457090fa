"""Categories and gaps in a federation: encoded by the party that has them, and kept there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from small_parties import local_parties, provisioned

from unlabel import Federation
from unlabel.config import PassiveTable, RunConfig
from unlabel.data import ACTIVE
from unlabel.data.column_encoding import FILE, Column, Encoding, stored_encoding
from unlabel.remote.kit import Kit
from unlabel.remote.party_home import keep_unsettled, open_party, settled_encoding

PEOPLE = 160
SECRET = "numbat"
FEDERATION = """\
name: encoded
active: {label: y, missing: flag}
passive: [{name: clinic, missing: mean, categories: [ward]}]
model: {bottom: mlp}
train: {epochs: 2, batch: 32}
"""


def write(folder: Path) -> dict[str, Path]:
    """Write a table with labels and one with categories, both with gaps."""
    rng = np.random.default_rng(0)
    ids = [f"p{n:03d}" for n in range(PEOPLE)]
    age, ward = rng.normal(50, 9, PEOPLE), rng.integers(1, 4, PEOPLE)
    state = rng.choice(["bilby", "quokka", SECRET], PEOPLE)
    gap = rng.random(PEOPLE) < 0.1
    y = np.where(age / 9 + 2.0 * (state == SECRET) + ward > 8, "high", "low")
    own = pd.DataFrame({"id": ids, "age": np.where(gap, np.nan, age), "y": y})
    clinic = pd.DataFrame({"id": ids, "ward": ward, "state": np.where(gap[::-1], "", state)})
    paths = {ACTIVE: folder / "active.csv", "clinic": folder / "clinic.csv"}
    own.iloc[:-10].to_csv(paths[ACTIVE], index=False)
    clinic.to_csv(paths["clinic"], index=False)
    own.iloc[-10:].drop(columns="y").to_csv(folder / "new.csv", index=False)
    return paths


def local(kits: Mapping[str, Kit], tables: Mapping[str, Path]) -> RunConfig:
    """Return the same run in one process."""
    config = kits[ACTIVE].run_config(tables[ACTIVE])
    assert config.active is not None
    party = PassiveTable(
        name="clinic", table=tables["clinic"], categories=("ward",), missing="mean"
    )
    return RunConfig(
        active=config.active,
        passive=[party],
        model=config.model,
        train=config.train,
        align=config.align,
    )


def test_a_party_encodes_as_a_run_in_one_process_and_keeps_it_to_itself(
    tmp_path: Path,
) -> None:
    tables = write(tmp_path)
    folders = provisioned(tmp_path, FEDERATION, seed=0)
    kits = {name: Kit.open(folder) for name, folder in folders.items()}
    assert kits["clinic"].party.categories == ("ward",)
    assert "clinic" in kits[ACTIVE].agreement.passive

    # Before anything is trained a party may be started on another table.
    other = tmp_path / "other.csv"
    other.write_text("id,ward,state\np1,7,dingo\np2,7,dingo\np3,8,dingo\n")
    open_party(kits["clinic"], other)
    with (
        local_parties(folders, tables),
        Federation.connect(kits[ACTIVE].folder, resume=True) as federation,
    ):
        federation.train()
        expected = federation.predict()
        new = federation.predict(tables={ACTIVE: tmp_path / "new.csv"})

    together = Federation.create(local(kits, tables))
    together.train()
    assert np.array_equal(together.predict().probabilities, expected.probabilities)
    for name, encoding in together.holdings.encodings.items():
        assert encoding.columns == _kept(kits[name].home), name

    # Nobody else's file, and no settings, agreement or log of anybody, names a category.
    holding = [
        path
        for path in (tmp_path / "kits").rglob("*")
        if path.is_file() and SECRET.encode() in path.read_bytes()
    ]
    assert holding == [kits["clinic"].home / FILE]

    # The clinic gets people of another category later; what was trained stays readable.
    with tables["clinic"].open("a") as file:
        file.write("p900,9,wombat\n")
    with (
        local_parties(folders, tables) as parties,
        Federation.connect(kits[ACTIVE].folder) as federation,
    ):
        assert np.array_equal(federation.predict().probabilities, expected.probabilities)
        repeated = federation.predict(tables={ACTIVE: tmp_path / "new.csv"})
        width = parties.homes["clinic"].party.bottom.tables["main"].shape
    assert np.array_equal(repeated.probabilities, new.probabilities)
    assert width == (3 + 4,)  # wards 1 to 3; three states and the missing one
    assert torch.isfinite(torch.from_numpy(new.probabilities)).all()


def _kept(home: Path) -> object:
    found = stored_encoding(home)
    assert found is not None
    return found.columns


def test_a_wrong_table_leaves_a_trained_party_as_it_was(tmp_path: Path) -> None:
    encoding = Encoding("refuse", (Column("state", ("bilby", SECRET)),))
    keep_unsettled(encoding, tmp_path)
    assert settled_encoding(tmp_path) is None
    assert stored_encoding(tmp_path) == encoding
    keep_unsettled(Encoding(), tmp_path)  # another table, of numbers alone
    assert stored_encoding(tmp_path) is None
    (tmp_path / "versions").mkdir()
    (tmp_path / "versions" / "1.json").write_text("{}")
    keep_unsettled(encoding, tmp_path)  # trained on numbers, and then shown a wrong table
    assert stored_encoding(tmp_path) is None
