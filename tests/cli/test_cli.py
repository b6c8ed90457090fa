"""The command line as a user meets it, from the first training to predictions of new people."""

from __future__ import annotations

import csv
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cli.command_line import (
    QUICK,
    Outcome,
    Tables,
    contents,
    in_shell,
    nothing_written,
    one_thread,
    unlabel,
    user_module,
    write_tables,
)

from unlabel import __version__
from unlabel.audit import MEASURES, compare

__all__ = ["one_thread"]  # a fixture for every test here


@pytest.fixture(autouse=True)
def stand_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def untimed(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name != "seconds"}


# --- the first command ---------------------------------------------------------------------


def test_the_first_training_is_good_repeatable_and_evaluates_to_the_same(tmp_path: Path) -> None:
    words = "train --data digits --parties 2 --model convnet --epochs 8 --seed 0 --out runs/d"
    first = in_shell(*words.split(), "--json", cwd=tmp_path)
    assert "epoch 8/8" in first.err  # progress goes to standard error alone
    found = first.json
    assert found["accuracy"] >= 0.95
    assert list(found["per_label_accuracy"]) == list("0123456789")
    assert found["seconds"] > 0
    assert (found["parties"], found["run"], found["epochs"]) == (2, "runs/d", 8)
    second = unlabel(*words.split(), "--overwrite", "--json").json
    assert untimed(second) == untimed(found)
    with nothing_written(tmp_path):
        judged = unlabel("evaluate", "runs/d", "--json").json
    assert judged["accuracy"] == found["accuracy"]
    assert judged["per_label_accuracy"] == found["per_label_accuracy"]
    assert (judged["part"], judged["run"]) == ("test", "runs/d")
    confusion = np.array(judged["confusion"])
    assert confusion.trace() / confusion.sum() == pytest.approx(found["accuracy"])


def test_a_table_for_people_says_the_same_as_the_json() -> None:
    table = unlabel("train", *QUICK, "--out", "run")
    found = unlabel("evaluate", "run", "--json").json
    percent = f"{100 * found['accuracy']:.1f} %"
    assert f"Test accuracy {percent}" in table.out
    assert "Kept in run. Next: unlabel evaluate run" in table.err
    judged = unlabel("evaluate", "run")
    assert f"Test accuracy {percent}" in judged.out
    assert judged.err == ""


def test_another_seed_gives_another_run() -> None:
    first = unlabel("train", *QUICK, "--out", "a", "--seed", "1", "--json").json
    second = unlabel("train", *QUICK, "--out", "b", "--seed", "2", "--json").json
    assert first["per_label_accuracy"] != second["per_label_accuracy"]


def test_a_run_that_ended_resumes_to_the_same_result() -> None:
    first = unlabel("train", *QUICK, "--out", "run", "--json").json
    for flags in (QUICK, ()):
        second = unlabel("train", *flags, "--out", "run", "--resume", "--json")
        assert second.json == first
        assert "Resuming after epoch 1 of 1." in second.err
    fresh = unlabel("train", *QUICK, "--out", "new", "--resume", "--json").json
    assert fresh["accuracy"] == first["accuracy"]  # there was nothing to resume


def test_without_out_the_run_is_named_after_the_data() -> None:
    assert unlabel("train", *QUICK, "--json").json["run"] == "runs/digits"
    Path("mine.yaml").write_text("train: {epochs: 1}\nmodel: {bottom: mlp}\n")
    Path("named.yaml").write_text("data: digits\ntrain: {epochs: 1}\n")
    assert unlabel("train", "named.yaml", "--json").json["run"] == "runs/named"
    found = unlabel("train", "mine.yaml", "--data", "digits", "--out", "o", "--json").json
    assert found["epochs"] == 1  # the file may leave to the flags what to train on


def test_flags_win_over_the_file() -> None:
    Path("mine.yaml").write_text("data: digits\nparties: 4\ntrain: {epochs: 3, batch: 32}\n")
    found = unlabel("train", "mine.yaml", "--epochs", "1", "--json").json
    assert (found["epochs"], found["parties"]) == (1, 4)
    assert "batch: 32" in Path("runs/mine/run.yaml").read_text()


# --- who holds what ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "names", "holds"),
    [
        (("--parties", "1"), ["passive-1"], [8]),
        (("--parties", "3"), ["passive-1", "passive-2", "passive-3"], [3, 3, 2]),
        (("--parties", "5,3"), ["passive-1", "passive-2"], [5, 3]),
        (("--parties", "left=2,right=6"), ["left", "right"], [2, 6]),
        (("--parties", "2", "--active-part"), ["passive-1", "passive-2"], [3, 2, 3]),
        (("--parties", "6,1,1", "--active-part"), ["passive-1", "passive-2"], [1, 1, 6]),
        (("--parties", "active=5,shop=3"), ["shop"], [3, 5]),
    ],
)
def test_parties_hold_the_parts_they_are_given(
    flags: tuple[str, ...], names: list[str], holds: list[int]
) -> None:
    found = unlabel("train", *QUICK, *flags, "--out", "run", "--json").json
    assert found["party_names"] == names
    assert found["parties"] == len(names)
    widths = [_model(name) for name in names]
    assert widths == [f"mlp on rows of [1, 8, {width}]" for width in holds[: len(names)]]
    assert sum(holds) == 8
    owns = len(holds) > len(names)
    assert _model("active").startswith(f"linear over embeddings of {[32] * (len(names) + owns)}")
    judged = unlabel("evaluate", "run", "--json").json
    assert judged["accuracy"] == found["accuracy"]
    assert {path.name for path in Path("run").iterdir() if path.is_dir()} == {*names, "active"}


def _model(party: str) -> str:
    manifest = json.loads((Path("run") / party / "versions" / "000001.json").read_text())
    return str(manifest["model"])


def test_each_passive_party_records_what_it_was_asked() -> None:
    assert unlabel("train", *QUICK, "--record", "--out", "run").code == 0
    assert not Path("run/active/transcript.jsonl").exists()
    for party in ("passive-1", "passive-2"):
        lines = Path(f"run/{party}/transcript.jsonl").read_text().splitlines()
        entries = [json.loads(line) for line in lines]
        received = [entry["kind"] for entry in entries if entry["direction"] == "received"]
        sent = {entry["kind"] for entry in entries if entry["direction"] == "sent"}
        assert {"Prepare", "Embed", "Gradients"} <= set(received)
        assert sent <= {"Description", "Done", "Embeddings", "Saved"}
        assert received.count("Gradients") == -(-1166 // 64)
        assert entries[-1]["bytes"] > 0
    unlabel("train", *QUICK, "--out", "silent")
    assert not list(Path("silent").rglob("transcript.jsonl"))


def test_early_stopping_stops_early_and_keeps_the_best_version() -> None:
    words = ("--data", "digits", "--model", "mlp", "--epochs", "40", "--patience", "3")
    found = unlabel("train", *words, "--out", "run", "--json").json
    lines = Path("run/metrics.jsonl").read_text().splitlines()
    history = [json.loads(line)["validation_accuracy"] for line in lines]
    assert found["epochs"] == len(history) < 40
    best = max(history)
    assert history.index(best) == len(history) - 4
    judged = unlabel("evaluate", "run", "--part", "validation", "--json").json
    assert judged["accuracy"] == best == found["validation_accuracy"]
    assert unlabel("evaluate", "run", "--json").json["accuracy"] == found["accuracy"]


# --- a user's own .npz file ----------------------------------------------------------------


def write_npz(path: Path, rows: int = 240) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 7)).astype(np.float32)
    y = np.where(x[:, 0] + x[:, 5] > 0, "yes", "no")
    np.savez(path, x=x, y=y)
    return x, y


def test_an_npz_file_trains_evaluates_and_predicts_from_wherever_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = write_npz(tmp_path / "mine.npz")
    words = ("--data", "mine.npz", "--parties", "bank=3,shop=4", "--epochs", "20", "--out", "run")
    found = unlabel("train", *words, "--json").json
    assert found["accuracy"] > 0.85
    assert list(found["per_label_accuracy"]) == ["no", "yes"]
    assert unlabel("train", *words, "--resume", "--json").json == found
    np.savez("new.npz", x=x)
    predicted = unlabel("predict", "run", "--data", "new.npz", "--json").json["predictions"]
    assert [row["id"] for row in predicted] == [str(i) for i in range(len(x))]
    right = [row["label"] == label for row, label in zip(predicted, y, strict=True)]
    assert np.mean(right) > 0.85
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    judged = unlabel("evaluate", "../run", "--json").json
    assert judged["accuracy"] == found["accuracy"]


def test_a_file_of_settings_finds_its_data_beside_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "study").mkdir()
    write_npz(tmp_path / "study" / "mine.npz")
    write_npz(tmp_path / "other.npz", rows=160)
    (tmp_path / "study" / "mine.yaml").write_text("data: mine.npz\ntrain: {epochs: 1}\n")
    assert unlabel("train", "study/mine.yaml", "--out", "a").code == 0
    assert unlabel("train", "study/mine.yaml", "--data", "other.npz", "--out", "b").code == 0
    rows = {run: len(unlabel("predict", run, "--json").json["predictions"]) for run in "ab"}
    assert rows == {"a": 48, "b": 32}


def test_views_of_objects_are_split_by_view() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    x = rng.integers(0, 90, (120, 4, 6, 5), dtype=np.uint8)
    x[np.arange(120), :, y, :] += 150
    np.savez("objects.npz", x_train=x[:90], y_train=y[:90], x_test=x[90:], y_test=y[90:])
    words = ("--data", "objects.npz", "--split", "views", "--model", "convnet", "--epochs", "5")
    found = unlabel("train", *words, "--parties", "3", "--out", "run", "--json").json
    assert found["accuracy"] > 0.9
    holds = [json.loads(p.read_text())["model"] for p in sorted(Path("run").rglob("*.json"))]
    assert holds[1:] == [f"convnet on rows of [{views}, 6, 5]" for views in (2, 1, 1)]
    np.savez("new.npz", x=x[90:])
    predicted = unlabel("predict", "run", "--data", "new.npz", "--json").json["predictions"]
    own = unlabel("predict", "run", "--json").json["predictions"]
    assert [row["label"] for row in predicted] == [row["label"] for row in own]
    assert [row["id"] for row in own] == [str(i) for i in range(90, 120)]


# --- a user's own tables -------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tables, dict[str, Any]]:
    """Train once on the tables exactly as the README shows it."""
    folder = tmp_path_factory.mktemp("loans")
    tables = write_tables(folder)
    result = unlabel("train", tables.config, "--out", folder / "run", "--json").json
    return tables, result


def test_two_tables_train_on_the_people_both_know(trained: tuple[Tables, dict[str, Any]]) -> None:
    tables, found = trained
    assert found["accuracy"] > 0.9
    assert found["party_names"] == ["host"]
    judged = {}
    for part in ("train", "validation", "test", "public"):
        judged[part] = unlabel("evaluate", tables.folder / "run", "--part", part, "--json").json
    assert judged["test"]["accuracy"] == found["accuracy"]
    assert judged["test"]["labels"] == ["benign", "malignant"]
    assert judged["validation"]["accuracy"] == found["validation_accuracy"]
    sizes = {part: int(np.sum(result["confusion"])) for part, result in judged.items()}
    assert sum(sizes.values()) == len(tables.common)
    assert sizes["test"] == pytest.approx(0.2 * len(tables.common), abs=2)


def predict(tables: Tables, *words: object, **files: Path) -> Outcome:
    given = [word for name, path in files.items() for word in ("--table", f"{name}={path}")]
    return unlabel("predict", tables.folder / "run", *given, *words)


def test_new_tables_are_predicted_in_the_order_of_the_active_partys_rows(
    trained: tuple[Tables, dict[str, Any]],
) -> None:
    tables, found = trained
    active, host = tables.folder / "guest.csv", tables.folder / "host.csv"
    outcome = predict(tables, "--out", "all.csv", "--json", active=active, host=host)
    told = outcome.json
    assert "Party 'host' has no row for" in told.pop("notes")[0]
    assert told == {
        "rows": len(tables.common),
        "run": str(tables.folder / "run"),
        "out": "all.csv",
        "unknown": len(pd.read_csv(active)) - len(tables.common),
    }
    with Path("all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "label", "true_label", "p_benign", "p_malignant"]
    assert [row["id"] for row in rows] == tables.common  # and 007 is still 007
    for row in rows:
        shares = {name: float(row[f"p_{name}"]) for name in ("benign", "malignant")}
        assert sum(shares.values()) == pytest.approx(1, abs=2e-6)
        assert row["label"] == max(shares, key=lambda name: shares[name])
    # The same people through `evaluate`: as many right answers on the test rows.
    by_id = {row["id"]: row["label"] for row in rows}
    own = unlabel("predict", tables.folder / "run", "--json").json["predictions"]
    assert [by_id[row["id"]] for row in own] == [row["label"] for row in own]
    right = [row["label"] == tables.labels[row["id"]] for row in own]
    assert sum(right) / len(right) == found["accuracy"]


def test_new_people_need_no_label_and_may_be_few(
    trained: tuple[Tables, dict[str, Any]], tmp_path: Path
) -> None:
    tables, _ = trained
    some = tables.common[5:8]
    guest = tables.guest[tables.guest["id"].isin(some)].drop(columns="y")
    host = tables.host[tables.host["id"].isin(some[1:])]
    guest.iloc[::-1].to_csv("guest.csv", index=False)
    host[host.columns[::-1]].to_csv("host.csv", index=False)  # columns are found by name
    files = {"active": tmp_path / "guest.csv", "host": tmp_path / "host.csv"}
    found = predict(tables, "--json", **files).json["predictions"]
    assert [row["id"] for row in found] == some[:0:-1]
    everyone = {"active": tables.folder / "guest.csv", "host": tables.folder / "host.csv"}
    known = {row["id"]: row for row in predict(tables, "--json", **everyone).json["predictions"]}
    for row in found:
        assert row["label"] == known[row["id"]]["label"]
        assert row["probability"] == pytest.approx(known[row["id"]]["probability"], abs=1e-5)
    shown = predict(tables, **files).out
    assert "2 predictions" in shown
    assert all(row["id"] in shown for row in found)


def test_an_active_party_may_have_labels_only(tmp_path: Path) -> None:
    tables = write_tables(tmp_path)
    text = tables.config.read_text()
    tables.config.write_text(text.replace("features: rest", "features: none"))
    found = unlabel("train", "loans.yaml", "--epochs", "8", "--out", "run", "--json").json
    assert found["accuracy"] > 0.9
    assert _model_of(tmp_path, "active") == "linear over embeddings of [32] to 2 labels"
    predicted = unlabel("predict", "run", "--table", "host=host.csv", "--json").json
    assert predicted["rows"] == len(tables.host)
    assert predicted["predictions"][0]["id"] == tables.host["id"].iloc[0]


def _model_of(folder: Path, party: str) -> str:
    manifest = next((folder / "run" / party / "versions").glob("*.json"))
    return str(json.loads(manifest.read_text())["model"])


def test_features_may_be_named_one_by_one(tmp_path: Path) -> None:
    tables = write_tables(tmp_path)
    named = tables.config.read_text().replace("rest", "[mean_area, mean_texture]")
    named = named.replace(
        "host.csv, id: id", "host.csv, id: id, features: [worst_area], bottom: mlp"
    )
    tables.config.write_text(named)
    tables.host.assign(notes="some text").to_csv("host.csv", index=False)
    found = unlabel("train", "loans.yaml", "--epochs", "8", "--out", "run", "--json").json
    assert found["accuracy"] > 0.8
    assert _model_of(tmp_path, "host") == "mlp on rows of [1]"
    assert "- mean_area\n  - mean_texture\n" in Path("run/run.yaml").read_text()


def test_columns_that_come_later_do_not_change_a_run(tmp_path: Path) -> None:
    tables = write_tables(tmp_path)
    found = unlabel("train", "loans.yaml", "--epochs", "1", "--out", "run", "--json").json
    tables.host.assign(more=1.0).to_csv("host.csv", index=False)
    assert unlabel("evaluate", "run", "--json").json["accuracy"] == found["accuracy"]
    second = ("train", "loans.yaml", "--epochs", "1", "--out", "run", "--resume", "--json")
    assert unlabel(*second).json == found


def test_parquet_tables_give_what_csv_tables_give(tmp_path: Path) -> None:
    tables = write_tables(tmp_path)
    words = ("--epochs", "2", "--json")
    found = unlabel("train", "loans.yaml", *words, "--out", "a").json
    tables.guest.to_parquet("guest.parquet", index=False)
    tables.host.to_parquet("host.parquet", index=False)
    tables.config.write_text(tables.config.read_text().replace(".csv", ".parquet"))
    second = unlabel("train", "loans.yaml", *words, "--out", "b").json
    assert second["accuracy"] == found["accuracy"]
    given = ("--table", "active=guest.parquet", "--table", "host=host.csv")
    assert unlabel("predict", "b", *given, "--json").json["rows"] == len(tables.common)


def test_labels_and_folders_with_brackets_are_shown_as_they_are() -> None:
    write_npz(Path("mine.npz"))
    with np.load("mine.npz") as held:
        names = np.where(held["y"] == "yes", "[/yes]", ":cat: [no]")
        np.savez("mine.npz", x=held["x"], y=names)
    trained = unlabel("train", "--data", "mine.npz", "--epochs", "1", "--out", "[run]")
    assert trained.code == 0
    assert "Kept in [run]." in trained.err
    shown = unlabel("evaluate", "[run]").out
    assert "[/yes]" in shown
    assert ":cat: [no]" in shown
    found = unlabel("predict", "[run]", "--json").json["predictions"]
    assert found[0]["label"] in unlabel("predict", "[run]").out
    assert unlabel("evaluate", "[run]", "--part", "[/x]").err.startswith("Error: Unknown part")


# --- a user's own models -------------------------------------------------------------------


OWN_MODELS = """
from math import prod
from torch import nn

class Wide(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), 48), nn.Tanh())

    def forward(self, x):
        return self.layers(x)

def deep(inputs, labels):
    return nn.Sequential(nn.Linear(inputs, 20), nn.ReLU(), nn.Linear(20, labels))
"""


def test_models_come_from_a_file_where_the_user_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user_module(monkeypatch, tmp_path, "own_models", OWN_MODELS)
    flags = ("--model", "own_models:Wide", "--top", "own_models:deep", "--epochs", "6")
    found = unlabel("train", "--data", "digits", *flags, "--out", "run", "--json").json
    assert found["accuracy"] > 0.9
    assert _model_of(tmp_path, "passive-2") == "own_models:Wide on rows of [1, 8, 4]"
    assert _model_of(tmp_path, "active").startswith("own_models:deep over embeddings of [48, 48]")
    assert unlabel("evaluate", "run", "--json").json["accuracy"] == found["accuracy"]


def test_each_party_may_have_a_model_of_its_own(tmp_path: Path) -> None:
    Path("mine.yaml").write_text(
        "data: digits\n"
        "parties: {left: 5, right: 3}\n"
        "model: {bottom: mlp, bottoms: {right: convnet}}\n"
        "train: {epochs: 1}\n"
    )
    assert unlabel("train", "mine.yaml", "--out", "run").code == 0
    assert _model_of(tmp_path, "left") == "mlp on rows of [1, 8, 5]"
    assert _model_of(tmp_path, "right") == "convnet on rows of [1, 8, 3]"
    assert "[32, 64]" in _model_of(tmp_path, "active")


# --- the other verbs -----------------------------------------------------------------------


@pytest.mark.long
def test_the_demo_shows_that_two_know_more_than_one() -> None:
    found = unlabel("demo", "--json").json
    assert found["run"] == "runs/demo"
    assert set(found["alone"]) == set(found["wire"]) == {"left", "right"}
    assert found["accuracy"] > max(found["alone"].values())
    for seen in found["wire"].values():
        assert "Gradients" not in seen["kinds_received"]
        assert min(seen["messages"], seen["bytes_sent"], seen["bytes_received"]) > 0
    # What is kept is the model that has forgotten a digit, and does not know that there was one.
    judged = unlabel("evaluate", "runs/demo", "--json").json["per_label_accuracy"]
    assert found["forgotten"] not in judged
    assert len(judged) == 9
    # The papers are there, and an outsider finds the certificate in order.
    assert "<html" in Path(found["report"]).read_text()
    checked = unlabel("verify", found["certificate"], "--run", "runs/demo", "--json").json
    assert (checked["holds"], checked["faults"]) == (True, [])
    assert len(list(Path("runs/demo/active/versions").glob("*.safetensors"))) == 1
    # Three ways to train, side by side.
    kinds = found["kinds"]
    words = {k: (v["visibility"], v["depth"], v["guarantee"]) for k, v in kinds.items()}
    assert words == {
        "supervised": ("hidden", "top", "measured"),
        "tuned": ("open", "bottoms", "exact"),
        "blind": ("hidden", "bottoms", "exact"),
    }
    assert min(kind["accuracy"] for kind in kinds.values()) > 0.93
    assert kinds["blind"]["messages"] == 0 < kinds["supervised"]["messages"]
    # From gradients of labels a partner knows nearly all of them; from a blind run what its own
    # features say.
    assert min(kinds[kind]["guess"]["gradients"] for kind in ("supervised", "tuned")) > 0.9
    guess = kinds["blind"]["guess"]
    assert guess["gradients"] is None
    assert guess["embeddings"] < guess["features"] + 0.1


def test_the_demo_is_a_page_for_people_that_can_be_shown_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("EPOCHS", "TUNED_EPOCHS", "LABEL_FREE_EPOCHS", "RETRAINED"):
        monkeypatch.setattr(f"unlabel.cli.demo.{name}", 1)
    quick = ("forgotten-accuracy", "retained-accuracy", "echo", "probe-linear")
    measures = {name: MEASURES.get(name)() for name in quick}
    monkeypatch.setattr("unlabel.audit.service.compare", partial(compare, measures=measures))
    unlabel("demo", "--out", "page")
    page = unlabel("demo", "--out", "page", "--picture", "page.svg")
    assert page.code == 0
    shown = ("Together they know more", "page/report.html", "Three ways to train", "Depth reached")
    for words in shown:
        assert words in page.out
    assert Path("page.svg").read_text().startswith("<svg")


def test_the_lists_of_datasets_and_benches_are_json_too() -> None:
    datasets = {each["name"]: each for each in unlabel("data", "list", "--json").json["datasets"]}
    assert datasets["digits"]["ready"]
    assert not datasets["cifar100"]["fetchable"]
    assert datasets["mnist"]["fetchable"]
    benches = {each["name"]: each for each in unlabel("bench", "list", "--json").json["benches"]}
    assert "repeats" in benches["split-overhead"]["settings"]
    assert "epochs" in benches["training"]["settings"]
    for command, names in (("data", datasets), ("bench", benches)):
        shown = unlabel(command, "list").out
        assert all(name in shown for name in names)
    fetched = unlabel("data", "fetch", "digits", "--json").json
    assert fetched == {"name": "digits", "path": "installed with unlabel"}


def test_a_bench_writes_where_its_figures_come_from() -> None:
    words = ("--set", "epochs=1", "--set", "model=mlp", "--set", "seeds=0,1", "--out", "b.json")
    found = unlabel("bench", "training", *words, "--json").json
    assert found == json.loads(Path("b.json").read_text())
    assert len(found["runs"]) == 2
    assert found["settings"]["epochs"] == 1
    assert found["versions"]["unlabel"] == __version__
    assert found["command"].startswith("unlabel bench training --set epochs=1")
    assert found["machine"]["cores"] >= 1


def test_the_version_is_told() -> None:
    assert unlabel("--version") == Outcome(0, f"unlabel {__version__}\n", "")


@pytest.mark.parametrize(
    "words",
    [
        *("", "demo", "train", "evaluate", "predict", "data", "data list", "data fetch"),
        *("forget", "slots", "methods", "audit", "commit", "rollback", "purge", "recover"),
        *("status", "ledger", "report", "certificate", "verify", "keys", "keys auditor"),
    ],
)
def test_every_verb_explains_itself(words: str) -> None:
    for flag in ("--help", "-h"):
        outcome = unlabel(*words.split(), flag)
        assert outcome.code == 0
        assert f"Usage: unlabel {words}".rstrip() in outcome.out
        assert outcome.err == ""


def test_every_bench_explains_itself() -> None:
    names = [each["name"] for each in unlabel("bench", "list", "--json").json["benches"]]
    for words in (("bench",), *(("bench", name) for name in (*names, "list"))):
        outcome = unlabel(*words, "--help")
        assert outcome.code == 0
        assert f"Usage: unlabel {' '.join(words)}" in outcome.out


def test_json_leaves_nothing_else_on_standard_output(tmp_path: Path) -> None:
    write_npz(tmp_path / "mine.npz")
    unlabel("train", "--data", "mine.npz", "--epochs", "1", "--out", "run")
    for words in (("evaluate", "run"), ("predict", "run"), ("predict", "run", "--out", "p.csv")):
        outcome = unlabel(*words, "--json")
        assert outcome.out == json.dumps(outcome.json, indent=2) + "\n"
    assert pd.read_csv("p.csv").shape == (48, 5)
    assert "p.csv" in contents(tmp_path)
