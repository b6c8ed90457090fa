"""A run of tables in one process whose rows are matched without showing ids."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from unlabel import Federation
from unlabel.align import psi
from unlabel.align.store import FILE
from unlabel.config.loader import parse_run, read_run
from unlabel.data.dataset import Array
from unlabel.errors import DataError, PartyRefused, RunError
from unlabel.train import load_holdings

CONFIG = """\
active: {table: bank.csv, label: y}
passive:
  - {name: shop, table: shop.csv}
  - {name: gym, table: gym.csv}
align: {method: psi}
train: {epochs: 1, batch: 16}
"""


def write(folder: Path, people: int = 150) -> Path:
    """Write tables of which two thirds of the people are common, each in an order of its own."""
    rng = np.random.default_rng(0)
    for start, name in enumerate(("bank", "shop", "gym")):
        ids = np.array([f"{n:04d}" for n in range(start * 10, start * 10 + people)])
        x = np.array([int(text) for text in ids])
        table = pd.DataFrame({"id": ids, "x": x / 10, "z": x % 7})
        if name == "bank":
            table["y"] = np.where(x % 2, "odd", "even")
        table.iloc[rng.permutation(people)].to_csv(folder / f"{name}.csv", index=False)
    (folder / "run.yaml").write_text(CONFIG)
    return folder / "run.yaml"


def no_masking(*_: object, **__: object) -> None:
    raise AssertionError("ids were masked again")


def numbers(ids: Array) -> list[int]:
    return [int(text) for text in ids.tolist()]


def test_the_rows_are_those_of_a_match_in_the_clear_in_the_order_of_the_ids(
    tmp_path: Path,
) -> None:
    config = read_run(write(tmp_path))
    assert config.align.method == "psi"
    held = load_holdings(config)
    assert numbers(held.ids) == list(range(20, 150))
    for name in ("active", "shop", "gym"):
        values = held.features[name].values
        assert torch.equal(values[:, 0], torch.arange(20.0, 150).double() / 10)
    assert [held.names[label] for label in held.labels[:2]] == ["even", "odd"]
    clear = load_holdings(parse_run({**raw(tmp_path), "align": {"method": "plaintext"}}, "x"))
    assert sorted(numbers(clear.ids)) == numbers(held.ids)


def raw(folder: Path) -> dict[str, object]:
    return {
        "active": {"table": str(folder / "bank.csv"), "label": "y"},
        "passive": [{"name": n, "table": str(folder / f"{n}.csv")} for n in ("shop", "gym")],
        "align": {"method": "psi"},
    }


def test_a_run_is_matched_once_and_opened_without_a_word_about_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    made = Federation.create(read_run(write(tmp_path)), run)
    made.train()
    expected = made.evaluate().accuracy
    assert "method: psi" in (run / "run.yaml").read_text()
    assert all((run / name / FILE).is_file() for name in ("active", "shop", "gym"))
    monkeypatch.setattr(psi, "_spread", no_masking)
    second = Federation.open(run)
    assert second.evaluate().accuracy == expected
    # Other people at a partner are noticed; then they have to be matched again.
    (tmp_path / "gym.csv").write_text((tmp_path / "gym.csv").read_text() + "new,1,1\n")
    with pytest.raises(AssertionError, match="masked again"):
        Federation.open(run)
    monkeypatch.undo()
    assert Federation.open(run).evaluate().accuracy == expected
    # Whoever is gone from a table is gone from the rows, and the run says so.
    lines = (tmp_path / "gym.csv").read_text().splitlines(keepends=True)
    (tmp_path / "gym.csv").write_text("".join(x for x in lines if not x.startswith("0100,")))
    with pytest.raises(RunError):
        Federation.open(run)
    Federation.create(read_run(tmp_path / "run.yaml"), run, overwrite=True)


def test_new_people_are_predicted_however_few_they_are(tmp_path: Path) -> None:
    fed = Federation.create(read_run(write(tmp_path)))
    fed.train()
    new = {}
    for name in ("active", "shop", "gym"):
        new[name] = tmp_path / f"new-{name}.csv"
        people = pd.DataFrame({"id": ["b", "a", name], "x": [1.0, 2.0, 3.0], "z": [1, 2, 3]})
        people.to_csv(new[name], index=False)
    found = fed.predict(tables=new)
    assert found.ids.tolist() == ["a", "b"]
    # As between organisations: of its own people alone the label holder learns who lacks them.
    assert found.unknown == 1
    assert found.notes == tuple(
        f"Party '{name}' has no row for 1 of the 3 ids of 'active' (active)."
        for name in ("shop", "gym")
    )


@pytest.mark.parametrize(
    ("people", "smallest", "least", "error", "said"),
    [
        (110, 100, 1, DataError, "at least 100 rows"),
        (110, 1, 95, PartyRefused, r"`policy.min_common`"),
        (20, 1, 1, DataError, "no id in common"),
    ],
)
def test_few_common_rows_are_refused(
    tmp_path: Path, people: int, smallest: int, least: int, error: type[Exception], said: str
) -> None:
    write(tmp_path, people)
    settings = {"align": {"method": "psi", "smallest": smallest}, "policy": {"min_common": least}}
    with pytest.raises(error, match=said):
        load_holdings(parse_run({**raw(tmp_path), **settings}, "x"))
