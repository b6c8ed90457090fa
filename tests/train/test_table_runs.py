"""Runs of tables with categories, gaps and two labels: the same numbers wherever they are read."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from unlabel import Federation
from unlabel.config import Columns, RunConfig, TrainSettings
from unlabel.config.loader import read_run
from unlabel.data.column_encoding import FILE
from unlabel.errors import DataError, ForgetError, PartyRefused
from unlabel.forget import METHODS, ForgetSettings
from unlabel.forget.public_set import read_public, read_unlabelled
from unlabel.forget.slots import run_slot
from unlabel.party.checkpoint import CheckpointStore

PEOPLE = 400
SECRET = "HIV-positive"
CONFIG = """\
active: {{table: bank.csv, label: y}}
passive:
  - {{name: shop, table: shop.csv, categories: [town], missing: {missing}}}
  - {{name: clinic, table: clinic.csv, missing: {missing}}}
align: {{method: plaintext}}
model: {{bottom: mlp}}
train: {{epochs: {epochs}, batch: 32, lr: 0.05, public: 5}}
"""


def write(folder: Path, missing: str = "flag", *, epochs: int = 3, labels: int = 2) -> Path:
    """Write the tables of a bank, a shop and a clinic about the same people."""
    rng = np.random.default_rng(0)
    ids = [f"p{n:03d}" for n in range(PEOPLE)]
    age, spent = rng.normal(50, 12, PEOPLE), rng.gamma(2, 40, PEOPLE)
    town = rng.integers(1, 5, PEOPLE)
    state = rng.choice(["healthy", "cold", SECRET], PEOPLE, p=[0.6, 0.3, 0.1])
    score = (age - 50) / 12 + (state == "cold") + (town == 2) + rng.normal(0, 0.3, PEOPLE)
    y = np.digitize(score, np.quantile(score, np.linspace(0, 1, labels + 1)[1:-1]))
    gap = rng.random(PEOPLE) < 0.2 * (missing != "refuse")
    pd.DataFrame({"id": ids, "y": [f"class {n}" for n in y]}).to_csv(
        folder / "bank.csv", index=False
    )
    shop = pd.DataFrame({"id": ids, "spent": np.where(gap, np.nan, spent), "town": town})
    shop.to_csv(folder / "shop.csv", index=False)
    clinic = pd.DataFrame({"id": ids, "age": age, "state": np.where(gap[::-1], "", state)})
    clinic.to_csv(folder / "clinic.csv", index=False)
    (folder / "run.yaml").write_text(CONFIG.format(missing=missing, epochs=epochs))
    return folder / "run.yaml"


def made(folder: Path, missing: str = "flag", **options: Any) -> RunConfig:
    return read_run(write(folder, missing, **options))


def weights(federation: Federation) -> dict[str, torch.Tensor]:
    return {
        f"{party}/{name}": value
        for party, learner in federation.active.learners().items()
        for name, value in learner.model_state().items()
    } | {
        f"{party}/{name}": value
        for party, passive in federation.passives.items()
        for name, value in passive.bottom.model_state().items()
    }


def expect_equal(a: Federation, b: Federation) -> None:
    one, other = weights(a), weights(b)
    assert one.keys() == other.keys()
    assert {name for name in one if "shop" in name and "scaling" in name}
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


# --- the same numbers everywhere -----------------------------------------------------------


def test_a_run_in_a_folder_over_the_wire_is_the_one_in_memory(tmp_path: Path) -> None:
    config = made(tmp_path)
    memory = Federation.create(config)
    memory.train()
    kept = Federation.create(config, tmp_path / "run", encoded=True)
    kept.train()
    expect_equal(memory, kept)
    reopened = Federation.open(tmp_path / "run")
    expect_equal(memory, reopened)
    assert reopened.holdings.encodings == memory.holdings.encodings
    assert memory.evaluate().accuracy > 0.7


def test_a_resumed_run_is_the_undisturbed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = made(tmp_path)
    whole = Federation.create(config, tmp_path / "whole")
    whole.train()
    broken = Federation.create(config, tmp_path / "broken")
    save, saves = CheckpointStore.save, []

    def save_twice(store: CheckpointStore, *args: Any, **options: Any) -> Any:
        saves.append(store)
        if len(saves) > 6:  # three parties, two epochs
            raise KeyboardInterrupt
        return save(store, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointStore, "save", save_twice)
        with pytest.raises(KeyboardInterrupt):
            broken.train()
    resumed = Federation.open(tmp_path / "broken", resume=True)
    resumed.train()
    expect_equal(whole, resumed)


def test_the_mean_is_what_filling_by_hand_gives(tmp_path: Path) -> None:
    for name in ("holes", "filled"):
        (tmp_path / name).mkdir()
    holes = Federation.create(made(tmp_path / "holes", "mean"))
    config = made(tmp_path / "filled", "mean")
    table = pd.read_csv(tmp_path / "filled" / "shop.csv").set_index("id")
    trained = holes.holdings.ids[holes.holdings.rows.train.numpy()]
    table["spent"] = table["spent"].fillna(table.loc[trained, "spent"].mean())
    table.reset_index().to_csv(tmp_path / "filled" / "shop.csv", index=False)
    filled = Federation.create(config)
    holes.train()
    filled.train()
    one, other = weights(holes), weights(filled)
    for name, value in one.items():  # equal but for the last digit of a sum
        assert torch.allclose(value, other[name], rtol=1e-4, atol=1e-5), name
    assert torch.isnan(holes.holdings.features["shop"].values).any()
    assert not torch.isnan(filled.holdings.features["shop"].values).any()


def test_rows_that_miss_a_value_are_dropped_before_they_are_matched(tmp_path: Path) -> None:
    held = Federation.create(made(tmp_path, "drop")).holdings
    shop, clinic = pd.read_csv(tmp_path / "shop.csv"), pd.read_csv(tmp_path / "clinic.csv")
    left = set(shop.dropna()["id"]) & set(clinic.dropna()["id"])
    assert set(held.ids.tolist()) == left
    assert 0 < len(left) < PEOPLE


# --- what is kept, and where ---------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    Federation.create(made(folder), folder / "run", record=True).train()
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained / "run", tmp_path / "run")
    return tmp_path / "run"


def test_a_category_stands_in_its_owners_file_and_nowhere_else(trained: Path) -> None:
    run = trained / "run"
    holding = [p for p in run.rglob("*") if p.is_file() and SECRET.encode() in p.read_bytes()]
    assert holding == [run / "clinic" / FILE]
    assert stat.S_IMODE(holding[0].stat().st_mode) == 0o600
    assert not (run / "active" / FILE).exists()  # it has no features
    settings = (run / "run.yaml").read_text()
    assert "categories:\n  - town" in settings
    assert "missing: flag" in settings


def test_new_rows_are_read_as_the_run_began(run: Path, tmp_path: Path) -> None:
    federation = Federation.open(run)
    # One person alone, of a category and a gap that a table of their own would not show.
    (tmp_path / "shop.csv").write_text("id,spent,town\np900,12.5,2\np901,,9\n")
    (tmp_path / "clinic.csv").write_text(f"id,age,state\np900,60,{SECRET}\np901,40,unheard of\n")
    tables = {"shop": tmp_path / "shop.csv", "clinic": tmp_path / "clinic.csv"}
    found = federation.predict(tables=tables)
    assert found.ids.tolist() == ["p900", "p901"]
    assert [note.split(" are of")[0] for note in found.notes] == [
        "1 values of 'town'",
        "1 values of 'state'",
    ]
    shop = federation.passives["shop"].bottom.tables["new"].values
    # spent, whether it is missing, towns 1 to 4
    assert shop[0].tolist() == [12.5, 0, 0, 1, 0, 0]
    assert shop[1, 1:].tolist() == [1, 0, 0, 0, 0]
    clinic = federation.passives["clinic"].bottom.tables["new"].values
    # age, then HIV-positive, cold, healthy and missing
    assert clinic.tolist() == [[60, 1, 0, 0, 0], [40, 0, 0, 0, 0]]
    memory = Federation.create(read_run(write(tmp_path)))
    memory.train()
    (tmp_path / "shop.csv").write_text("id,spent,town\np900,12.5,2\np901,,9\n")
    (tmp_path / "clinic.csv").write_text(f"id,age,state\np900,60,{SECRET}\np901,40,unheard of\n")
    assert np.array_equal(memory.predict(tables=tables).probabilities, found.probabilities)


def test_people_added_to_a_table_later_change_no_category(trained: Path, run: Path) -> None:
    before = Federation.open(run)
    path = trained / "clinic.csv"
    text = path.read_text()
    try:
        path.write_text(text + "p950,33,a new illness\n")
        after = Federation.open(run)
    finally:
        path.write_text(text)
    assert after.holdings.encodings == before.holdings.encodings
    assert np.array_equal(after.predict().probabilities, before.predict().probabilities)


def test_a_public_set_is_read_with_the_runs_categories(
    trained: Path, run: Path, tmp_path: Path
) -> None:
    federation = Federation.open(run)
    public = tmp_path / "public"
    public.mkdir()
    held = federation.holdings
    clinic = pd.read_csv(trained / "clinic.csv").set_index("id").loc[held.ids[held.rows.test]]
    # Of one category only: fitted to these rows alone, there would be no other.
    cold = clinic[clinic["state"] == "cold"].index
    for party, name in (("active", "bank"), ("shop", "shop"), ("clinic", "clinic")):
        table = pd.read_csv(trained / f"{name}.csv").set_index("id").loc[cold]
        table.reset_index().to_csv(public / f"{party}.csv", index=False)
    listed = held.ids[held.rows.train[:3].numpy()].tolist()
    federation.forget(ids=listed, settings=ForgetSettings(public=public, few_shot=5)).rollback()
    values = federation.passives["clinic"].bottom.tables["public"].values
    assert values[:, 1:].tolist() == [[0, 1, 0, 0]] * len(cold)


def test_public_rows_that_the_model_names_need_no_label(
    trained: Path, run: Path, tmp_path: Path
) -> None:
    config, public = Federation.open(run).config, tmp_path / "public"
    public.mkdir()
    for name in ("shop", "clinic"):
        pd.read_csv(trained / f"{name}.csv").tail(9).to_csv(public / f"{name}.csv", index=False)
    held = Federation.open(run).holdings
    features, ids = read_unlabelled(config, public, held.encodings)
    assert sorted(ids) == [f"p{n}" for n in range(391, 400)]
    assert {name: part.shape for name, part in features.items()} == {
        name: part.shape for name, part in held.features.items()
    }
    (public / "clinic.csv").unlink()
    with pytest.raises(DataError, match=r"'clinic\.csv'"):
        read_unlabelled(config, public, held.encodings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("missing: flag", "missing: mean"), "with `missing: flag`, not 'mean'"),
        (("categories:\n  - town", "categories:\n  - spent"), "no category 'spent'"),
    ],
)
def test_a_run_is_not_opened_with_other_settings_than_it_began_with(
    run: Path, change: tuple[str, str], message: str
) -> None:
    path = run / "run.yaml"
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(DataError, match=message):
        Federation.open(run)


def test_a_run_that_lost_its_categories_is_not_opened_on_others(trained: Path, run: Path) -> None:
    (run / "clinic" / FILE).unlink()
    path = trained / "clinic.csv"
    text = path.read_text()
    try:
        path.write_text(text.replace(SECRET, "well"))
        with pytest.raises(PartyRefused):
            Federation.open(run)
    finally:
        path.write_text(text)


# --- two labels ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", [None, *METHODS.names()])
def test_one_of_two_labels_is_not_forgotten_by_any_method(run: Path, method: str | None) -> None:
    federation = Federation.open(run)
    before = weights(federation)
    with pytest.raises(ForgetError, match=r"1 would be, 'class 0': nothing .*of people \(`ids`\)"):
        federation.forget(["class 1"], settings=ForgetSettings(method=method))
    assert all(torch.equal(value, before[name]) for name, value in weights(federation).items())
    assert not (run / "active" / "staged").exists() or not any((run / "active/staged").iterdir())


def test_requests_stop_before_one_label_is_left(tmp_path: Path) -> None:
    federation = Federation.create(made(tmp_path, labels=3, epochs=8))
    federation.train()
    federation.forget(["class 2"], settings=ForgetSettings(method="renormalise")).commit(force=True)
    with pytest.raises(ForgetError):
        federation.forget(["class 0"], settings=ForgetSettings(method="renormalise"))
    slot = run_slot(federation, ["class 0"], ForgetSettings())
    assert not slot.kept
    assert "two labels to be left but 1 would be, 'class 1'" in slot.why


def test_a_slot_about_one_of_two_labels_keeps_nothing(run: Path) -> None:
    federation = Federation.open(run)
    before = weights(federation)
    slot = run_slot(federation, ["class 0"], ForgetSettings())
    assert (slot.kept, "1 would be, 'class 1'" in slot.why) == (False, True)
    assert all(torch.equal(value, before[name]) for name, value in weights(federation).items())


# --- a run of one file ---------------------------------------------------------------------


def test_rows_of_one_file_go_by_their_ids_from_training_to_a_request(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    frame = pd.DataFrame({"key": np.arange(1, 301), "age": rng.normal(y, 0.3), "y": y})
    frame["job"] = np.where(rng.random(300) < 0.5, "cook", "nurse")
    frame.loc[[3, 40], "age"] = np.nan
    frame.to_csv(tmp_path / "people.csv", index=False)
    columns = Columns(label="y", id="key", missing="drop")
    train = TrainSettings(epochs=2, lr=0.05)
    fed = Federation.create(
        RunConfig(data=str(tmp_path / "people.csv"), columns=columns, train=train), tmp_path / "run"
    )
    fed.train()
    labels = frame.set_index("key")["y"]
    assert len(fed.holdings.ids) == 298
    for row, name in enumerate(fed.holdings.ids.tolist()):
        assert int(labels[int(name)]) == fed.holdings.labels[row]
    frame.loc[0, "job"] = "judge"
    frame.drop(columns="y").head(6).to_csv(tmp_path / "new.csv", index=False)
    found = Federation.open(tmp_path / "run").predict(data=str(tmp_path / "new.csv"))
    assert found.ids.tolist() == ["1", "2", "3", "5", "6"]
    assert found.notes[0].startswith("1 values of 'job' are of categories")
    person = str(fed.holdings.ids[fed.holdings.rows.train[-1]])
    outcome = fed.forget(ids=[person])
    assert outcome.result.labels == ()
    outcome.rollback()
    with pytest.raises(ForgetError, match="'4'"):
        fed.forget(ids=["4"])  # a row that was dropped, and no other in its place


def test_a_public_file_may_have_one_row_of_each_of_many_labels(tmp_path: Path) -> None:
    labels = [f"kind {number:02d}" for number in range(30)]
    rows = pd.DataFrame({"a": range(120), "b": range(120), "label": labels * 4})
    rows.to_csv(tmp_path / "all.csv", index=False)
    rows.tail(30).to_csv(tmp_path / "public.csv", index=False)
    config = RunConfig(data=str(tmp_path / "all.csv"), parties=2)
    _, found, ids = read_public(config, tmp_path / "public.csv", labels)
    assert found.tolist() == list(range(30))
    assert len(ids) == 30
