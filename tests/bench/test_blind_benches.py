"""Benches of bottoms that never see a label, in a small form."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from unlabel_bench.blind.blind_people import BlindPeopleSettings
from unlabel_bench.blind.blind_tables import BlindTablesSettings, goals
from unlabel_bench.blind.blind_texts import BlindTextsSettings
from unlabel_bench.blind.label_inference import LabelInferenceSettings, Listener
from unlabel_bench.blind.reconstruction import reconstruction
from unlabel_bench.blind.refit_speed import RefitSpeedSettings
from unlabel_bench.blind.split_tables import TREES, read_split
from unlabel_bench.registry import BENCHES, Result

from unlabel.errors import DataError, SettingsError
from unlabel.wire import Embed, Gradients

TABLE = "people.csv:label=paid:id=who:categories=code:holder=a+code"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table whose label follows from a column of each party."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 4))
    with (tmp_path / "people.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["who", "a", "code", "b", "c", "d", "town", "paid"])
        for row, (a, b, c, d) in enumerate(x):
            paid = ("no", "yes")[int(a + 2 * b > 0)]
            lines.writerow([f"P{row}", a, row % 3, b, c, d, "xyz"[row % 3], paid])
    return tmp_path


def run(name: str, settings: object) -> Result:
    """Measure, and see that the figures can be kept and shown."""
    bench = BENCHES.get(name)
    result = bench.run(settings, lambda _: None)
    json.dumps(result)
    heads, *rows = bench.table(result)
    assert rows
    assert all(len(row) == len(heads) for row in rows)
    assert bench.page is not None
    assert bench.page({**result, "settings": vars(settings)}).startswith("# ")
    return result


def test_the_columns_that_are_named_are_the_label_holders_and_the_partner_has_the_others(
    folder: Path,
) -> None:
    table = read_split(TABLE, str(folder))
    assert list(table.frames["holder"]) == ["id", "paid", "a", "code"]
    assert list(table.frames["partner"]) == ["id", "b", "c", "d", "town"]
    assert table.frames["holder"]["id"][0] == "P0"


def test_a_column_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(SettingsError, match="'age'"):
        read_split("people.csv:label=paid:holder=age", str(folder))
    with pytest.raises(DataError):
        read_split("none.csv:label=paid", str(folder))


def test_what_is_sent_as_it_is_can_be_reconstructed_and_noise_cannot() -> None:
    rng = np.random.default_rng(0)
    columns = np.concatenate([rng.normal(size=(400, 3)), np.ones((400, 1))], 1)
    known, unknown = np.arange(300), np.arange(300, 400)
    assert reconstruction(columns[:, :3] * 5, columns, known, unknown)["best"] > 0.99
    assert reconstruction(rng.normal(size=(400, 3)), columns, known, unknown)["best"] < 0.05


def test_a_network_finds_what_a_linear_attacker_misses() -> None:
    columns = np.random.default_rng(0).normal(size=(1500, 1))
    shares = reconstruction(columns**5, columns, np.arange(1000), np.arange(1000, 1500))
    assert shares["best"] > shares["ridge"] + 0.1


def test_blind_tables_stand_beside_the_joined_table_and_go_on_where_they_ended(
    folder: Path,
) -> None:
    settings = BlindTablesSettings(
        tables=(TABLE,),
        folder=str(folder),
        widths=(0.5, 1.0),
        scales=("standard",),
        tops=(TREES, "linear"),
        known=100,
        epochs=2,
        seeds=1,
        records=str(folder / "figures.jsonl"),
    )
    result = run("blind-tables", settings)
    entry = result["summary"]["people"]
    assert entry["alone"]["mean"] < entry["joined"]["mean"]
    half, full = entry["blind"]
    assert (half["sent"], full["sent"]) == (3, 6)
    assert half["r2"]["best"]["mean"] < full["r2"]["best"]["mean"] <= 1
    assert [row[1] for row in goals(result)[1:]] == ["0.5", "1"]
    messages: list[str] = []
    repeated = BENCHES.get("blind-tables").measure(settings, messages.append)
    assert (repeated, messages) == (result, [])


def test_refits_are_timed_for_a_label_and_for_people(folder: Path) -> None:
    labelled = TABLE.replace("label=paid", "label=town")
    settings = RefitSpeedSettings(
        table=TABLE,
        labelled=labelled,
        forgotten="x",
        folder=str(folder),
        tops=("linear",),
        people=(1, 20),
        repeats=1,
        supervised=False,
    )
    result = run("refit-speed", settings)
    assert [line["what"] for line in result["requests"]] == ["one label", "one person", "20 people"]
    assert all(0 < line["fit"] <= line["request"] for line in result["requests"])


def test_a_refit_of_people_is_the_run_with_empty_cells_to_the_last_bit() -> None:
    settings = BlindPeopleSettings(
        rows=300,
        strangers=100,
        listed=10,
        requests=1,
        seeds=(0,),
        tops=("linear",),
        fit_epochs=20,
        singles=1,
        supervised=False,
    )
    figures = run("blind-people", settings)["tops"]["linear"]
    assert figures["apart"] == 0
    assert figures["single"]["most"] == 0
    for models in figures["kinds"].values():
        assert models["forgotten"]["attack_auc"] == models["retrained"]["attack_auc"]
        assert models["forgotten"] != models["original"]


def test_attacks_on_a_training_stand_beside_those_of_a_party_that_never_took_part(
    folder: Path,
) -> None:
    settings = LabelInferenceSettings(
        data=TABLE,
        folder=str(folder),
        model="mlp",
        trainings=("supervised", "blind, across"),
        epochs=20,
        contrast=1,
        seeds=1,
        draws=2,
    )
    entries = {entry["name"]: entry for entry in run("label-inference", settings)["summary"]}
    assert "clusters" in entries["supervised"]["better"]
    assert entries["supervised"]["same_messages"] is None
    assert entries["blind, across"]["same_messages"] is True
    assert entries["features"]["control"]


def test_a_training_that_nobody_knows_is_refused() -> None:
    with pytest.raises(SettingsError, match="half-blind"):
        LabelInferenceSettings(trainings=("half-blind",))


def test_a_listener_adds_up_the_gradients_of_both_views_of_a_row() -> None:
    heard = Listener(4)
    heard.hear(Embed(0, torch.tensor([1, 3]), "pair"))
    heard.hear(Gradients(0, torch.tensor([[1.0], [2.0], [10.0], [20.0]])))
    assert heard.total is not None
    assert heard.total[:, 0].tolist() == [0, 11, 0, 22]


def test_blind_texts_stand_beside_supervised_ones(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with (tmp_path / "texts.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["topic", "note"])
        for row in range(120):
            words = [f"w{(row % 3) * 10 + n}" for n in rng.integers(0, 12, 8)]
            lines.writerow(["abc"[row % 3], " ".join(words)])
    settings = BlindTextsSettings(
        source="texts.csv label=topic text=note",
        folder=str(tmp_path),
        bottoms=("words",),
        epochs=2,
        contrast=1,
        top="linear",
        seeds=1,
    )
    kinds = [entry["kind"] for entry in run("blind-texts", settings)["summary"]]
    assert kinds == ["supervised", "blind"]
