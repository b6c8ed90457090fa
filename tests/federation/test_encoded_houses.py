"""Categories and gaps in a federation: encoded in the house of their owner, and kept there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from unlabel import Federation
from unlabel.data import ACTIVE
from unlabel.data.encoding import FILE, Encoding, kept_encoding
from unlabel.data.marks import Column
from unlabel.operate import connect
from unlabel.operate.connect import keep_table
from unlabel.operate.house import House, keep_unsettled, open_house, settled_encoding
from unlabel.operate.kit import Kit
from unlabel.operate.provision import provision
from unlabel.train import RunConfig
from unlabel.train.config import PassiveTable
from unlabel.wire import LocalTransport

PEOPLE = 160
SECRET = "numbat"
FEDERATION = """\
name: encoded
active: {label: y, missing: flag}
passive: [{name: clinic, missing: mean, categories: [ward]}]
model: {bottom: mlp}
train: {epochs: 2, batch: 32}
"""


class Near:
    """Reaches the one party in this process, through the codec."""

    def __init__(self, house: House) -> None:
        self.transport = Wire({"clinic": house.party}, encoded=True)
        self.absent: tuple[str, ...] = ()

    def connect(self, lost: Sequence[str] = ()) -> None:
        pass

    def close(self) -> None:
        pass


class Wire(LocalTransport):
    timeout = 60.0


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


@contextlib.contextmanager
def near(kits: Mapping[str, Kit], tables: Mapping[str, Path]) -> Iterator[House]:
    """Open the clinic's house, and have commands reach it in this process."""
    house = open_house(kits["clinic"], tables["clinic"])
    keep_table(kits[ACTIVE], tables[ACTIVE])
    with pytest.MonkeyPatch.context() as patch, kits[ACTIVE].lock():
        patch.setattr(connect, "Courier", lambda *_, **__: Near(house))
        yield house


def local(kits: Mapping[str, Kit], tables: Mapping[str, Path]) -> RunConfig:
    """Return the same run in one process."""
    config = kits[ACTIVE].run_config(tables[ACTIVE])
    assert config.active is not None
    party = PassiveTable("clinic", tables["clinic"], categories=("ward",), missing="mean")
    return RunConfig(
        active=config.active,
        passive=[party],
        model=config.model,
        train=config.train,
        align=config.align,
    )


def test_a_house_encodes_as_a_run_in_one_process_and_keeps_it_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unlabel.operate.certificates.KEY_BITS", 2048)
    tables = write(tmp_path)
    (tmp_path / "federation.yaml").write_text(FEDERATION)
    made = provision(tmp_path / "federation.yaml", tmp_path / "kits")
    for name in tables:
        path = made[name] / "party.yaml"
        path.write_text(path.read_text() + "seed: 0\n")
    kits = {name: Kit.open(made[name]) for name in tables}
    assert kits["clinic"].party.categories == ("ward",)
    assert "clinic" in kits[ACTIVE].agreement.passive

    # Before anything is trained a house may be started on another table.
    other = tmp_path / "other.csv"
    other.write_text("id,ward,state\np1,7,dingo\np2,7,dingo\np3,8,dingo\n")
    open_house(kits["clinic"], other)
    with near(kits, tables), Federation.connect(kits[ACTIVE].folder, resume=True) as federation:
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
    with near(kits, tables) as house, Federation.connect(kits[ACTIVE].folder) as federation:
        assert np.array_equal(federation.predict().probabilities, expected.probabilities)
        again = federation.predict(tables={ACTIVE: tmp_path / "new.csv"})
        width = house.party.bottom.tables["main"].shape
    assert np.array_equal(again.probabilities, new.probabilities)
    assert width == (3 + 4,)  # wards 1 to 3; three states and the missing one
    assert torch.isfinite(torch.from_numpy(new.probabilities)).all()


def _kept(home: Path) -> object:
    found = kept_encoding(home)
    assert found is not None
    return found.columns


def test_a_wrong_table_leaves_a_trained_house_as_it_was(tmp_path: Path) -> None:
    encoding = Encoding("refuse", (Column("state", ("bilby", SECRET)),))
    keep_unsettled(encoding, tmp_path)
    assert settled_encoding(tmp_path) is None
    assert kept_encoding(tmp_path) == encoding
    keep_unsettled(Encoding(), tmp_path)  # another table, of numbers alone
    assert kept_encoding(tmp_path) is None
    (tmp_path / "versions").mkdir()
    (tmp_path / "versions" / "1.json").write_text("{}")
    keep_unsettled(encoding, tmp_path)  # trained on numbers, and then shown a wrong table
    assert kept_encoding(tmp_path) is None
