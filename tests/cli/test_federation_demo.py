"""What `unlabel federation demo` sets up, and what it leaves alone; the rest is in federation/."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest
from cli.command_line import in_shell, nothing_written, unlabel

from unlabel.config.loader import read_federation
from unlabel.data import ACTIVE, read_table
from unlabel.remote.example import TABLES, settings, write_tables


def test_each_table_has_people_of_its_own_and_an_order_of_its_own(tmp_path: Path) -> None:
    common = write_tables(tmp_path)
    ids = {
        name: pd.read_csv(tmp_path / file, dtype=str)["id"].tolist()
        for name, file in TABLES.items()
    }
    assert set(ids) == {ACTIVE, "left", "right"}
    everybody = set.intersection(*map(set, ids.values()))
    assert len(everybody) == common > 1000
    for name, own in ids.items():
        assert len(own) == len(set(own)) > common
        others = set[str]().union(*(found for other, found in ids.items() if other != name))
        assert len(set(own) - others) >= 60
        assert own != sorted(own)
    orders = [[text for text in own if text in everybody] for own in ids.values()]
    assert orders[0] != orders[1] != orders[2] != orders[0]


def test_the_halves_of_an_image_stand_under_its_id(tmp_path: Path) -> None:
    from sklearn.datasets import load_digits

    write_tables(tmp_path)
    whole = load_digits()
    found = {n: pd.read_csv(tmp_path / f).set_index("id") for n, f in TABLES.items()}
    shared = (
        found["left"].index.intersection(found["right"].index).intersection(found[ACTIVE].index)
    )
    for name in shared[:20]:
        number = int(str(name).removeprefix("image-"))
        assert found[ACTIVE].loc[name, "digit"] == whole.target[number]
        for half, columns in (("left", slice(0, 4)), ("right", slice(4, 8))):
            expected = whole.images[number][:, columns].ravel() * (255 / 16)
            assert abs(found[half].loc[name].to_numpy() - expected).max() <= 0.5


def test_the_settings_are_those_of_a_federation(tmp_path: Path) -> None:
    path = tmp_path / "federation.yaml"
    path.write_text(settings(8123, epochs=10))
    assert len(settings(8123, epochs=10).splitlines()) < 10
    found = read_federation(path)
    assert found.agreement().parties == list(TABLES)
    assert found.server.port == 8123
    write_tables(tmp_path)
    table = read_table(
        tmp_path / TABLES[ACTIVE], id_column=found.active.id, label_column=found.active.label
    )
    assert not table.columns  # the one with the labels has nothing else


@pytest.mark.parametrize("strange", ["thesis.txt", "kits.zip"])
def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path, strange: str) -> None:
    (tmp_path / "kits").mkdir()
    (tmp_path / strange).write_text("mine")
    with nothing_written(tmp_path):
        sentence = unlabel("federation", "demo", "--out", tmp_path).sentence
    assert "holds something else than a demonstration; choose another --out" in sentence


@pytest.mark.long
def test_a_step_that_fails_ends_it(tmp_path: Path) -> None:
    assert os.environ.get("PYTHONPATH"), "the library must be hidden from what is started here"
    ended = in_shell("federation", "demo", "--json", cwd=tmp_path)
    assert (ended.code, ended.out) == (1, "")
    assert "Traceback" not in ended.err
    assert "needs openmined-psi; run: pip install 'unlabel[federation]'" in ended.err
    last = ended.err.splitlines()[-1]
    assert last.startswith("Error: Party 'active' did not start: ")
    made = sorted(path.name for path in (tmp_path / "runs" / "federation-demo").iterdir())
    assert made == sorted(["federation.yaml", "kits", *TABLES.values()])
