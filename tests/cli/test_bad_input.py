"""Bad input: each one clear sentence, a non-zero exit, and nothing written."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from cli.command_line import (
    QUICK,
    Tables,
    contents,
    in_shell,
    no_cuda,
    nothing_written,
    one_thread,
    unlabel,
    user_module,
    write_tables,
)

__all__ = ["one_thread"]  # a fixture for every test here


@pytest.fixture(autouse=True)
def stand_in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLABEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def refused(*words: object) -> str:
    """Run a command that must fail and leave the working folder as it was; return its sentence."""
    with nothing_written(Path.cwd()):
        return unlabel(*words).sentence


# --- flags ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--data", "digit"), "Unknown dataset 'digit'. Did you mean 'digits'? Known: brain-"),
        (("--data", "mine.npz"), "mine.npz' does not exist: check the path"),
        (("--model", "convet"), "Unknown bottom model 'convet'. Did you mean 'convnet'?"),
        (("--top", "liner"), "Unknown top model 'liner'. Did you mean 'linear'? Known: fc3"),
        (("--optimiser", "sdg"), "got 'sdg' but accepts 'sgd' or 'adam'. Did you mean 'sgd'?"),
        (("--schedule", "cosin"), "'linear' or 'cosine'. Did you mean 'cosine'?"),
        (
            ("--split", "view"),
            "`split` got 'view' but accepts 'strips', 'views', 'columns' or 'texts'.",
        ),
        (("--split", "columns"), "cannot be split by 'columns'; use 'strips'."),
        (("--augment", "corp"), "`train.augment` got 'corp' but accepts 'none', 'crop' or"),
        (("--precision", "bf61"), "got 'bf61' but accepts 'float32' or 'bf16'."),
        (("--device", "cdua"), "Unknown device 'cdua'. Did you mean 'cuda'? Known: auto, cpu"),
        (("--device", "cpu:x"), "Expected `device` like cpu or cuda:0 but got 'cpu:x'."),
        (("--epochs", "0"), "Expected `epochs` to be auto or at least 1 but got 0."),
        (("--batch", "1"), "Expected `batch` to be at least 2 but got 1."),
        (("--batch", "5000"), "`batch` to be at most the 1166 training rows but got 5000"),
        (("--lr", "-1"), "Expected `lr` to be a number above 0 but got -1.0."),
        (("--lr", "nan"), "Expected `lr` to be a number above 0 but got nan."),
        (("--seed", "-1"), "Expected `seed` to be 0 or more but got -1."),
        (("--test", "1"), "Expected `test` to be a share between 0 and 1 but got 1.0."),
        (("--test", "0.999"), "at least two: lower `test` and `validation`, or bring more data."),
        (("--validation", "0.999"), "lower `test` and `validation`"),
        (("--test", "0.0001"), "No test rows are left; raise `test` or bring more data."),
        (("--validation", "0", "--patience", "2"), "Expected `validation` above 0 where"),
        (("--parties", "0"), "Expected 1 to 8 passive parties but got 0."),
        (("--parties", "9"), "Expected 1 to 8 passive parties but got 9."),
        (("--parties", "-1"), "Expected 1 to 8 passive parties but got -1"),
        (("--parties", "1,1,1,1,1,1,1,1,1"), "Expected 1 to 8 passive parties but got 9"),
        (("--parties", "5,5"), "add up to at most 8, the width of the features, but got [5, 5]."),
        (("--parties", "8,0"), "parts at least 1 wide but got the widths [8, 0]."),
        (("--parties", "8", "--active-part"), "at most 8 parts for features 8 wide but got 9."),
        (("--parties", "8,", "--active-part"), "like 2, 20,8 or left=10,right=18"),
        (("--parties", "two"), "like 2, 20,8 or left=10,right=18, each name once, but got 'two'."),
        (("--parties", "a=4,a=4"), "each name once, but got 'a=4,a=4'."),
        (("--parties", "../out=4,b=4"), "of letters, digits, '-' and '_' but got '../out'."),
        (("--parties", "=4,b=4"), "of letters, digits, '-' and '_' but got ''."),
        (("--parties", "a=4,b=4", "--active-part"), "to give a width to 'active' too"),
        (("--resume", "--overwrite"), "Expected either --resume or --overwrite, not both."),
    ],
)
def test_a_flag_that_cannot_work_is_named_with_what_would(
    flags: tuple[str, ...], message: str
) -> None:
    assert message in refused("train", *QUICK, "--out", "runs/new", *flags)


def test_a_flag_that_is_no_number_is_refused_as_a_wrong_command_line() -> None:
    with nothing_written(Path.cwd()):
        outcome = unlabel("train", *QUICK, "--epochs", "many")
    assert outcome.code == 2
    assert "--epochs" in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("words", [(), ("--out", "runs/new"), ("--resume", "--out", "runs/new")])
def test_a_training_of_nothing_is_asked_what_it_is_about(words: tuple[str, ...]) -> None:
    assert "Say what to train on: --data NAME, or a YAML file" in refused("train", *words)


@pytest.mark.skipif(not no_cuda(), reason="this machine has a CUDA device")
def test_cuda_where_there_is_none_is_an_error_and_not_a_slow_surprise() -> None:
    for device in ("cuda", "cuda:1"):
        sentence = refused("train", *QUICK, "--device", device, "--out", "runs/new")
        assert sentence == "Expected a CUDA device but this machine has none; use 'cpu'."


@pytest.mark.skipif(not no_cuda(), reason="this machine has a CUDA device")
def test_a_run_is_not_evaluated_on_cuda_where_there_is_none(run: Path) -> None:
    assert "this machine has none; use 'cpu'" in refused("evaluate", "run", "--device", "cuda")


def test_data_that_is_not_here_says_how_to_get_it() -> None:
    sentence = refused("train", "--data", "cifar10", "--model", "mlp")
    assert "`unlabel data fetch cifar10`" in sentence
    assert "`--folder`" in sentence
    assert "Unknown dataset 'mnits'. Did you mean 'mnist'?" in refused("data", "fetch", "mnits")
    sentence = refused("data", "fetch", "cifar100")
    assert "'cifar100' cannot be fetched: download the 'CIFAR-100 binary version'" in sentence
    assert "`--folder`" in sentence


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("training", "--set", "epoch=1"), "Unknown setting 'epoch'. Did you mean 'epochs'?"),
        (("training", "--set", "epochs"), "Expected a setting like data=VALUE but got 'epochs'."),
        (("training", "--set", "epochs=x"), "Expected `epochs` to be int but got 'x'."),
        (("training", "--set", "nesterov=1"), "to be true or false but got '1'."),
        (("split-overhead", "--set", "repeats=0"), "Expected `repeats` to be at least 1"),
    ],
)
def test_a_bench_names_the_setting_it_does_not_know(words: tuple[str, ...], message: str) -> None:
    assert message in refused("bench", *words, "--out", "bench.json")


# --- the configuration file ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data: digits\ntrian: {epochs: 1}", "Unknown setting 'trian'. Did you mean 'train'?"),
        ("data: digits\ntrain: {epoch: 1}", "under `train` 'epoch'. Did you mean 'epochs'?"),
        ("data: digits\nmodel: {botom: mlp}", "under `model` 'botom'. Did you mean 'bottom'?"),
        ("data: digits\ntrain: {lr: fast}", "`train.lr` got 'fast' but accepts a number."),
        ("data: digits\ntrain: 3", "`train` got 3 but accepts a mapping."),
        ("data: digits\ntrain:", "`train` got None but accepts a mapping."),
        ("[1, 2]", "expected a mapping of settings but got [1, 2]."),
        ("", "expected a mapping of settings but got None."),
        ("data: digits\ntrain: {epochs: 1", "is not readable YAML near line 2."),
        ("train: {epochs: 1}", "Expected `data`, or a table under `active`"),
    ],
)
def test_a_wrong_configuration_file_is_named_with_the_mistake(text: str, message: str) -> None:
    Path("mine.yaml").write_text(text)
    sentence = refused("train", "mine.yaml", "--out", "runs/new")
    assert message in sentence
    assert "mine.yaml" in sentence


def test_flags_do_not_hide_a_mistake_in_the_file() -> None:
    Path("mine.yaml").write_text("data: digits\ntrain: 3\nmodel: mlp")
    sentence = refused("train", "mine.yaml", "--epochs", "1", "--model", "mlp")
    assert "`train` got 3 but accepts a mapping." in sentence
    assert "`model` got 'mlp' but accepts a mapping." in sentence


def test_a_configuration_file_that_is_not_there_is_named() -> None:
    assert "Cannot read 'mine.yaml': No such file" in refused("train", "mine.yaml")
    Path("folder.yaml").mkdir()
    assert "Cannot read 'folder.yaml': Is a directory" in refused("train", "folder.yaml")


# --- tables --------------------------------------------------------------------------------


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return write_tables(tmp_path)


def _without(column: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda frame: frame.drop(columns=column)


def _twice(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([frame, frame.iloc[[4]]])


def _set(column: str, value: object, row: int = 2) -> Callable[[pd.DataFrame], pd.DataFrame]:
    def change(frame: pd.DataFrame) -> pd.DataFrame:
        values = frame[column].astype(object).tolist()
        values[row] = value
        return frame.assign(**{column: values})

    return change


TABLE_CHANGES: dict[str, tuple[str, Callable[[pd.DataFrame], pd.DataFrame], str]] = {
    "no id column": ("host", _without("id"), "host.csv' has no id column 'id'. Unknown column"),
    "no label column": ("guest", _without("y"), "guest.csv' has no label column 'y'."),
    "id twice": ("host", _twice, "stands in more than one row (1 repeats in all); an id must be"),
    "no id": ("host", _set("id", None), "host.csv': row 3 has no id in 'id'."),
    "no label": ("guest", _set("y", None), "guest.csv': row 3 has no label in 'y'."),
    "no overlap": (
        "host",
        lambda frame: frame.assign(id="x" + frame["id"]),
        "have no id in common: 'host' has none of the 540 ids of 'active', such as '000'; check",
    ),
    "text feature": (
        "host",
        _set("worst_area", "large"),
        "feature 'worst_area' is not numeric in row 3 (1 rows in all), and most of its values are",
    ),
    "missing feature": (
        "guest",
        _set("mean_area", None),
        "'mean_area' is missing or not finite in row 3 (1 rows in all); fill or drop such rows, or",
    ),
    "huge feature": ("host", _set("worst_area", 1e300), "'worst_area' is missing or not finite"),
    "infinite feature": ("host", _set("worst_area", "inf"), "is missing or not finite in row 3"),
    "one class": (
        "guest",
        lambda frame: frame.assign(y="benign"),
        "holds a single label (benign) among the rows that all parties have; a classifier",
    ),
    "no features": ("host", lambda frame: frame[["id"]], "host.csv' of party 'host' has no feat"),
    "no rows": ("host", lambda frame: frame.iloc[:0], "host.csv' has no rows."),
    "few rows": (
        "host",
        lambda frame: frame.iloc[:60],
        "Expected `batch` to be at most the",
    ),
}


@pytest.mark.parametrize("case", TABLE_CHANGES)
def test_a_bad_table_is_named_with_what_to_do(tables: Tables, case: str) -> None:
    which, change, message = TABLE_CHANGES[case]
    frame = {"guest": tables.guest, "host": tables.host}[which]
    change(frame).to_csv(f"{which}.csv", index=False)
    assert message in refused("train", "loans.yaml", "--out", "runs/new")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "There is no table at"),
        (b"", "host.csv' cannot be read: No columns to parse"),
        (b"id,a\n\xff\xfe,1\n", "host.csv' is not UTF-8 text: line 2 holds"),
        (b"id,a\n1,2\n3,4,5,6\n", "host.csv' cannot be read:"),
    ],
)
def test_a_table_that_cannot_be_read_is_named(
    tables: Tables, content: bytes | None, message: str
) -> None:
    path = tables.folder / "host.csv"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert message in refused("train", "loans.yaml", "--out", "runs/new")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"active": {"features": ["mean_aera"]}}, "column 'mean_aera'. Did you mean 'mean_area'?"),
        ({"active": {"features": ["y"]}}, "column 'y' is the id or label, not a feature."),
        ({"active": {"label": "Y"}}, "has no label column 'Y'."),
        ({"active": {"labels": "y"}}, "under `active` 'labels'. Did you mean 'label'?"),
        (
            {"train": {"augment": "crop"}},
            "`augment` to be 'none' for tables and texts, which have no pixels",
        ),
        ({"model": {"bottom": "convnet"}}, "reads images, but these rows have shape [20]; use 'ml"),
        ({"data": "digits"}, "either `data` or the tables under `active` and `passive`, not both."),
        ({"passive": []}, "a table under `active` and at least one under `passive`."),
        ({"passive": [{"table": "host.csv"}]}, "`passive.0.name` is missing."),
        ({"passive": [{"name": "h", "tabel": "a"}]}, "'tabel'. Did you mean 'table'?"),
        ({"passive": [{"name": "a/b", "table": "host.csv"}]}, "digits, '-' and '_' but got 'a/b'."),
        ({"passive": [{"name": "active", "table": "host.csv"}]}, "another name than 'active'."),
        (
            {"passive": [{"name": "h", "table": "host.csv"}] * 2},
            "passive parties of different names but got ['h', 'h'].",
        ),
        (
            {"passive": [{"name": f"h{i}", "table": "host.csv"} for i in range(9)]},
            "Expected 1 to 8 passive parties but got 9.",
        ),
    ],
)
def test_a_wrong_description_of_tables_is_named(
    tables: Tables, change: dict[str, object], message: str
) -> None:
    raw = yaml.safe_load(tables.config.read_text())
    for key, value in change.items():
        raw[key] = {**raw.get(key, {}), **value} if isinstance(value, dict) else value
    tables.config.write_text(yaml.safe_dump(raw))
    assert message in refused("train", "loans.yaml", "--out", "runs/new")


# --- models --------------------------------------------------------------------------------


MODULE = """
from torch import nn

def rank_four(shape):
    return nn.Conv2d(1, 4, 3, padding=1)

def number():
    return 3

def no_weights(shape):
    return nn.Flatten()

def wants_more(shape, depth):
    return nn.Flatten()

def breaks(shape):
    raise KeyError("depth")

def other_width(shape):
    return nn.Linear(5, 5)

class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(32, 2)

    def forward(self, x):
        return x, x

def top_of_two(inputs):
    return nn.Linear(inputs, 2)
"""


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--model", "bad_models:rank_four"), "expected embeddings of shape [rows, width] for 2"),
        (("--model", "bad_models:rank_four"), "but got [2, 4, 8, 4]."),
        (("--model", "bad_models:number"), "returned int; expected a torch.nn.Module."),
        (("--model", "bad_models:no_weights"), "no weights to train and would send raw features."),
        (("--model", "bad_models:wants_more"), "cannot be called with shape: wants_more() missing"),
        (("--model", "bad_models:breaks"), "cannot be called with shape: KeyError: 'depth'."),
        (("--model", "bad_models:other_width"), "it fails on rows of shape [1, 8, 4] ("),
        (("--model", "bad_models:Pair"), "expected embeddings of shape [rows, width] for 2 rows"),
        (("--model", "bad_models:rank_for"), "'rank_for'. Did you mean 'rank_four'? Known: Pair,"),
        (("--model", "bad_models:"), "Unknown function ''. Known: "),
        (("--model", "no_such_models:f"), "cannot import 'no_such_models' (No module named"),
        (("--model", ":f"), "Model ':f': cannot import ''"),
        (("--top", "bad_models:top_of_two"), "expected logits of shape [2, 10] for 2 rows but got"),
        (("--top", "bad_models:number"), "returned int; expected a torch.nn.Module."),
    ],
)
def test_a_users_model_that_does_not_fit_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: tuple[str, str], message: str
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    user_module(monkeypatch, tmp_path, "bad_models", MODULE)
    sentence = refused("train", *QUICK, *flags, "--out", "runs/new")
    assert message in sentence
    assert flags[1] in sentence


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(:\n", "cannot import 'broken_models' (SyntaxError: invalid syntax"),
        ("1 / 0\n", "cannot import 'broken_models' (ZeroDivisionError: division by zero)."),
        ("import no_such_thing\n", "(No module named 'no_such_thing')."),
    ],
)
def test_a_users_module_that_cannot_be_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    user_module(monkeypatch, tmp_path, "broken_models", text)
    assert message in refused("train", *QUICK, "--model", "broken_models:f", "--out", "runs/new")


# --- run folders ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, and the run `other` of another model."""
    folder = tmp_path_factory.mktemp("trained")
    for name, model in (("run", "mlp"), ("other", "convnet")):
        words = ("train", *QUICK, "--model", model, "--out", folder / name)
        assert unlabel(*words).code == 0
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained / "run", tmp_path / "run"))


def test_a_run_folder_that_exists_is_refused_and_left_as_it_was(run: Path) -> None:
    sentence = refused("train", *QUICK, "--out", "run")
    assert sentence == (
        "Run folder 'run' exists; add --resume to go on with it, --overwrite to replace it, or "
        "choose another --out (in Python: Federation.open, overwrite=True)."
    )


@pytest.mark.parametrize("flags", [(), ("--overwrite",)])
def test_a_file_in_place_of_the_run_folder_is_refused(flags: tuple[str, ...]) -> None:
    Path("run").write_text("mine")
    sentence = refused("train", *QUICK, "--out", "run", *flags)
    assert sentence == "'run' is a file, not a run folder; choose another --out."


@pytest.mark.parametrize("name", ["thesis.txt", "data/rows.csv", "active/notes.txt"])
def test_overwrite_deletes_nothing_that_no_run_has_written(run: Path, name: str) -> None:
    mine = run / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("years of work")
    assert "so it is not overwritten" in refused("train", *QUICK, "--out", "run", "--overwrite")
    (run / "run.yaml").unlink()
    assert "so it is not overwritten" in refused("train", *QUICK, "--out", "run", "--overwrite")


@pytest.mark.parametrize(
    "flags", [("--model", "convet"), ("--parties", "9"), ("--batch", "5000"), ("--split", "views")]
)
def test_overwrite_with_settings_that_cannot_work_keeps_the_old_run(
    run: Path, flags: tuple[str, str]
) -> None:
    refused("train", *QUICK, "--out", "run", "--overwrite", *flags)


@pytest.mark.parametrize(
    ("flags", "setting"),
    [
        (("--epochs", "2"), "train.epochs = 1, not 2;"),
        (("--lr", "0.1"), "train.lr = 0.05, not 0.1;"),
        (("--model", "convnet"), "model.bottom = mlp, not convnet;"),
        (("--parties", "3"), "parties = 2, not 3;"),
        (("--active-part",), "active_part = False, not True;"),
        (("--top", "fc3"), "model.top = None, not fc3;"),
    ],
)
def test_resume_with_another_setting_names_it(
    run: Path, flags: tuple[str, ...], setting: str
) -> None:
    sentence = refused("train", *QUICK, "--out", "run", "--resume", *flags)
    assert f"Run 'run' was made with {setting} resume it with its own settings" in sentence


def test_a_folder_that_is_no_run_is_not_evaluated() -> None:
    Path("empty").mkdir()
    for folder in ("empty", "nowhere"):
        expected = f"'{folder}' is not a run folder: it has no run.yaml."
        assert refused("evaluate", folder) == expected
        assert refused("predict", folder) == expected


def test_a_run_without_a_version_says_that_it_must_be_resumed(run: Path) -> None:
    shutil.rmtree(run / "passive-1")
    assert "A party lost version 1; restore its folder" in refused("evaluate", "run")
    for versions in run.glob("*/versions"):
        shutil.rmtree(versions)
    assert "no version that all parties share; resume its training" in refused("evaluate", "run")


def test_a_part_of_the_data_that_a_run_does_not_have_is_named(run: Path) -> None:
    assert "'tset'. Did you mean 'test'?" in refused("evaluate", "run", "--part", "tset")
    unlabel("train", *QUICK, "--validation", "0", "--out", "other")
    assert "no validation rows" in refused("evaluate", "other", "--part", "validation")


def test_a_loss_that_explodes_is_one_sentence(tmp_path: Path) -> None:
    outcome = unlabel("train", *QUICK, "--lr", "1e6", "--out", "run")
    assert "Party 'passive-1' refused: it takes finite gradients" in outcome.sentence
    # Where all began is kept, and nothing that was learned since.
    assert {path.name for path in tmp_path.glob("*/versions/*.safetensors")} <= {
        "000000.safetensors"
    }


def test_data_that_changed_since_the_training_is_noticed(tables: Tables) -> None:
    assert unlabel("train", "loans.yaml", "--epochs", "1", "--out", "run").code == 0
    tables.guest.iloc[1:].to_csv("guest.csv", index=False)
    sentence = refused("evaluate", "run")
    assert "1 are missing and 0 are new" in sentence
    assert "unlabel train --update" in sentence


# --- checkpoints ---------------------------------------------------------------------------


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("damage", [_truncate, _empty, _flip])
@pytest.mark.parametrize("suffix", ["safetensors", "json"])
@pytest.mark.parametrize("party", ["active", "passive-2"])
def test_a_damaged_checkpoint_is_refused_by_name(
    run: Path, party: str, suffix: str, damage: Callable[[Path], None]
) -> None:
    path = run / party / "versions" / f"000001.{suffix}"
    damage(path)
    sentence = refused("evaluate", "run")
    assert f"'{party}/versions/{path.name}' is truncated or was changed" in sentence


@pytest.mark.parametrize("text", ["[1]", "3", "{}", '{"manifest_sha256": 1}', "null", '"a"'])
def test_a_manifest_of_another_form_is_refused_by_name(run: Path, text: str) -> None:
    (run / "active" / "versions" / "000001.json").write_text(text)
    assert "manifest 'active/versions/000001.json'" in refused("evaluate", "run")


def test_facts_that_were_edited_in_a_manifest_are_noticed(run: Path) -> None:
    path = run / "active" / "versions" / "000001.json"
    manifest = json.loads(path.read_text())
    manifest["facts"]["progress"]["history"][0]["accuracy"] = 1.0
    path.write_text(json.dumps(manifest))
    assert "000001.json' is truncated or was changed" in refused("evaluate", "run")


def test_a_checkpoint_without_its_tensors_is_refused_by_name(run: Path) -> None:
    path = run / "passive-1" / "versions" / "000001.safetensors"
    path.unlink()
    assert "000001.safetensors' cannot be read (No such file" in refused("evaluate", "run")


@pytest.mark.parametrize("party", ["active", "passive-1"])
def test_a_checkpoint_of_another_model_is_refused_by_name(
    trained: Path, run: Path, party: str
) -> None:
    shutil.rmtree(run / party)
    shutil.copytree(trained / "other" / party, run / party)
    sentence = refused("evaluate", "run")
    assert f"Checkpoint '{party}/versions/000001.json' is of model '" in sentence
    other, own = {
        "active": ("over embeddings of [64, 64]", "over embeddings of [32, 32]"),
        "passive-1": ("convnet on rows of [1, 8, 4]", "mlp on rows of [1, 8, 4]"),
    }[party]
    assert sentence.index(other) < sentence.index("', not '") < sentence.index(own)


def test_a_checkpoint_of_another_party_is_refused_by_name(run: Path) -> None:
    shutil.rmtree(run / "passive-1")
    shutil.copytree(run / "passive-2", run / "passive-1")
    assert "'passive-1/versions/000001.json' is of party 'passive-2', not 'passive-1'." in refused(
        "evaluate", "run"
    )


def test_a_checkpoint_under_another_number_is_refused_by_name(run: Path) -> None:
    for path in run.rglob("000001.*"):
        path.rename(path.with_stem("000002"))
    assert "000002.json' is of version '1', not '2'." in refused("evaluate", "run")


CHANGING_MODELS = """
from math import prod
from torch import nn

def bottom(shape):
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), 9), nn.Linear(9, 5))

def top(inputs, labels):
    return nn.Sequential(nn.Linear(inputs, 6), nn.Linear(6, labels))
"""


@pytest.mark.parametrize(
    ("party", "width", "other"), [("active", "6", "7"), ("passive-1", "9", "8")]
)
def test_weights_that_do_not_fit_a_changed_model_are_named_by_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, party: str, width: str, other: str
) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", True)
    user_module(monkeypatch, tmp_path, "changing", CHANGING_MODELS)
    flags = ("--model", "changing:bottom", "--top", "changing:top", "--out", "run")
    assert unlabel("train", *QUICK, *flags).code == 0
    user_module(monkeypatch, tmp_path, "changing", CHANGING_MODELS.replace(width, other))
    path = f"{party}/versions/000001.safetensors"
    expected = f"Checkpoint '{path}': the weights in it are those of another model."
    assert expected in refused("evaluate", "run")


# --- disks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["/proc/unlabel-run", "/sys/unlabel-run"])
def test_a_place_that_cannot_be_written_is_named(place: str) -> None:
    sentence = refused("train", *QUICK, "--out", place)
    assert f"Cannot write '{place}/run.yaml': " in sentence
    assert "free some room or choose another folder." in sentence
    assert not Path(place).exists()


def test_results_that_cannot_be_written_are_named(run: Path) -> None:
    sentence = refused("predict", "run", "--out", "/proc/predictions.csv")
    assert "Cannot write '/proc/predictions.csv'" in sentence


def test_a_full_disk_is_one_sentence_and_leaves_no_half_written_checkpoint(tmp_path: Path) -> None:
    x = np.arange(60.0)
    few = {"id": [f"p{n}" for n in range(60)], "y": ["odd", "even"] * 30}
    pd.DataFrame({**few, "a": x}).to_csv(tmp_path / "guest.csv", index=False)
    pd.DataFrame({"id": few["id"], "b": x % 7, "c": x}).to_csv(tmp_path / "host.csv", index=False)
    (tmp_path / "few.yaml").write_text(
        "active: {table: guest.csv, label: y}\npassive: [{name: host, table: host.csv}]\n"
    )
    words = ("train", "few.yaml", "--epochs", "1", "--batch", "16", "--out", "run", "--json")
    outcome = in_shell(*words, cwd=tmp_path, file_limit=16_000)
    sentence = outcome.sentence
    assert "'host' refused: it cannot write to its own folder (File too large);" in sentence
    assert "free some room there." in sentence
    left = contents(tmp_path)
    assert not [name for name in left if name.endswith(".part") or "/versions/" in name]
    assert "resume its training first" in refused("evaluate", "run")
    found = unlabel(*words, "--resume").json  # once there is room again
    assert found["epochs"] == 1


# --- predictions ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained_on_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    config = write_tables(folder).config
    assert unlabel("train", config, "--epochs", "1", "--out", folder / "run").code == 0
    return folder


@pytest.fixture
def loans(trained_on_tables: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_on_tables, tmp_path, dirs_exist_ok=True)) / "run"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("active=guest.csv",), "Expected a table of new rows for party 'host' but got none."),
        (("host=host.csv",), "Expected a table of new rows for party 'active' but got none."),
        (("active=guest.csv", "hots=host.csv"), "Unknown party 'hots'. Did you mean 'host'?"),
        (("active=guest.csv", "host=new.csv"), "There is no table at 'new.csv'; check the path."),
        (("host",), "Expected `--table` like host=new.csv but got 'host'."),
        (("host=",), "Expected `--table` like host=new.csv but got 'host='."),
        (("active=host.csv", "host=host.csv"), "host.csv': Unknown column 'mean_radius'."),
        (("active=guest.csv", "host=guest.csv"), "guest.csv': Unknown column 'radius_error'."),
    ],
)
def test_new_tables_that_do_not_fit_are_named(
    loans: Path, words: tuple[str, ...], message: str
) -> None:
    given = [word for table in words for word in ("--table", table)]
    assert message in refused("predict", "run", *given, "--out", "predictions.csv")


def test_new_rows_in_the_form_of_another_run_are_refused(trained: Path, loans: Path) -> None:
    assert "made from tables; give tables" in refused("predict", "run", "--data", "new.npz")
    sentence = refused("predict", trained / "run", "--table", "host=host.csv")
    assert sentence == "This run was made from a dataset; give `data`, not tables."


def test_new_rows_of_another_shape_are_refused(run: Path) -> None:
    np.savez("new.npz", x=np.zeros((3, 8, 10), np.uint8))
    sentence = refused("predict", "run", "--data", "new.npz")
    assert "rows of shape [1, 8, 4] for party 'passive-1' but got [1, 8, 5]." in sentence
    np.savez("new.npz", x=np.zeros((0, 8, 8), np.uint8))
    assert "'x' is empty" in refused("predict", "run", "--data", "new.npz")
    np.savez("new.npz", y=np.zeros(3))
    assert "has no 'x'" in refused("predict", "run", "--data", "new.npz")


# --- what belongs together -----------------------------------------------------------------


def test_a_checkpoint_of_another_run_is_refused(run: Path) -> None:
    other = run.parent / "other"
    unlabel("train", *QUICK, "--seed", "9", "--out", other)
    shutil.rmtree(run / "passive-1")
    shutil.copytree(other / "passive-1", run / "passive-1")
    sentence = refused("evaluate", "run")
    assert "'passive-1' refused: its version 1 is not the one that was saved with" in sentence


def test_features_that_changed_since_training_are_noticed(tmp_path: Path) -> None:
    config = write_tables(tmp_path).config
    assert unlabel("train", config, "--epochs", "1", "--out", tmp_path / "run").code == 0
    path = tmp_path / "host.csv"
    header, *rows = path.read_text().splitlines()
    path.write_text("\n".join([header, *(row + "1" for row in rows)]))
    sentence = refused("evaluate", tmp_path / "run")
    assert "'host' refused: its features have changed since version 1 was saved." in sentence


@pytest.mark.parametrize(
    ("old", "new"), [("optimiser: sgd", "optimiser: adam"), ("lr: 0.05", "lr: 0.5")]
)
def test_a_run_whose_settings_were_edited_is_refused(run: Path, old: str, new: str) -> None:
    path = run / "run.yaml"
    path.write_text(path.read_text().replace(old, new))
    name, _, value = new.partition(": ")
    sentence = refused("evaluate", "run")
    assert f"was trained with {name} = " in sentence
    assert f"run.yaml now says {value}; put it back." in sentence


def test_a_policy_below_the_batch_is_named_before_anything_is_written() -> None:
    Path("tight.yaml").write_text("{data: digits, policy: {max_rows: 32}, train: {batch: 64}}")
    sentence = refused("train", "tight.yaml", "--out", "run-tight")
    assert "Expected `batch` to be at most 32, the rows a request" in sentence


def test_a_policy_of_few_rows_is_kept_to_in_prediction_too() -> None:
    Path("tight.yaml").write_text(
        "{data: digits, policy: {max_rows: 16}, train: {batch: 16, epochs: 1}}"
    )
    assert unlabel("train", "tight.yaml", "--out", "tight", "--json").json["accuracy"] > 0


def test_a_name_that_no_disk_takes_is_one_sentence() -> None:
    assert "Cannot write" in refused("train", *QUICK, "--out", "runs/" + "a" * 300)


def test_a_table_with_other_separators_says_so(tmp_path: Path) -> None:
    config = write_tables(tmp_path).config
    path = tmp_path / "host.csv"
    path.write_text(path.read_text().replace(",", ";"))
    assert "separate columns with commas" in refused("train", config, "--out", "run-semicolon")


UNTRAINABLE = """
import torch
from torch import nn

class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def forward(self, x):
        return torch.ones(len(x), 5) * x.flatten(1).sum(1, keepdim=True)

class Extra(nn.Linear):
    def get_extra_state(self):
        return {"a": 1}
    def set_extra_state(self, state):
        pass

def unused(shape): return Unused()
def extra(shape): return nn.Sequential(nn.Flatten(), Extra(shape[0] * shape[1] * shape[2], 5))
def masked(shape):
    net = nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], 5))
    net.register_buffer("mask", torch.full((3,), -float("inf")))
    return net
def head(inputs, labels):
    class Cut(nn.Linear):
        def forward(self, x):
            return super().forward(x.detach())
    return Cut(inputs, labels)
"""


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--model", "odd_models:unused"), "a step of training fails"),
        (("--model", "odd_models:extra"), "is not a tensor and could not be kept"),
        (("--model", "mlp", "--top", "odd_models:head"), "passes no gradients on"),
    ],
)
def test_a_model_that_cannot_be_trained_is_named_before_anything_is_written(
    flags: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("odd_models.py").write_text(UNTRAINABLE)
    monkeypatch.delitem(sys.modules, "odd_models", raising=False)
    assert message in refused("train", "--data", "digits", *flags, "--out", "run-odd")


def test_a_buffer_that_holds_infinity_on_purpose_is_no_divergence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("odd_models.py").write_text(UNTRAINABLE)
    monkeypatch.delitem(sys.modules, "odd_models", raising=False)
    words = ("train", "--data", "digits", "--model", "odd_models:masked", "--epochs", "1")
    assert unlabel(*words, "--out", "masked").code == 0
