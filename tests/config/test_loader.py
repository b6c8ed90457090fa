"""The one YAML file of a run: read, written, and explained where it is wrong."""

from __future__ import annotations

import contextlib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from unlabel.compat import OLD_RUN_FILE
from unlabel.config import (
    ActiveTable,
    Augment,
    FederationFile,
    ModelSettings,
    MonitorSettings,
    OptimiserKind,
    PassiveTable,
    Policy,
    RunConfig,
    Schedule,
    TrainSettings,
)
from unlabel.config.loader import dump, parse_run, read_federation, read_run, read_run_folder
from unlabel.errors import RunError, SettingsError
from unlabel.runfolder import write_config

# --- there and back ------------------------------------------------------------------------

share = st.floats(0.01, 0.99)
trains = st.builds(
    TrainSettings,
    optimiser=st.sampled_from(get_args(OptimiserKind)),
    lr=st.floats(1e-6, 10),
    momentum=share,
    nesterov=st.booleans(),
    weight_decay=st.floats(0, 1),
    schedule=st.sampled_from(get_args(Schedule)),
    warmup=share,
    epochs=st.one_of(st.just("auto"), st.integers(1, 1000)),
    batch=st.integers(2, 4096),
    seed=st.integers(0, 2**63),
    test=share,
    validation=share,
    patience=st.one_of(st.just("auto"), st.integers(0, 9)),
    augment=st.sampled_from(["auto", *get_args(Augment)]),
    device=st.sampled_from(["cpu", "auto", "cuda:1"]),
    precision=st.sampled_from(["float32", "bf16"]),
    deterministic=st.booleans(),
    save_every=st.integers(1, 9),
)
names = st.text("abcé-_0", min_size=1, max_size=6).filter(lambda n: n.strip("-_") != "")
columns = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1)
choices = st.one_of(st.sampled_from(["rest", "none"]), st.lists(columns, max_size=3))
models = st.builds(
    ModelSettings,
    bottom=st.sampled_from(["mlp", "convnet", "mine:bottom"]),
    top=st.sampled_from([None, "linear", "fc3", "mine:top"]),
    combine=st.sampled_from(["concat", "sum"]),
    bottoms=st.dictionaries(names, st.sampled_from(["mlp", "mine:other"]), max_size=2),
)
policies = st.builds(
    Policy,
    max_rows=st.integers(1, 10**6),
    serves=st.sampled_from([("Describe",), ("Embed", "RetainVersions")]),
)
datasets = st.builds(
    RunConfig,
    data=st.sampled_from(["digits", "mnist", "/data/mine.npz"]),
    folder=st.sampled_from([None, Path("/data")]),
    parties=st.one_of(
        st.integers(1, 8),
        st.lists(st.integers(1, 9), min_size=1, max_size=8),
        st.dictionaries(names, st.integers(1, 9), min_size=1, max_size=8),
    ),
    split=st.sampled_from([None, "strips", "views", "columns"]),
    model=models,
    train=trains,
    policy=policies,
    trust=st.dictionaries(names, st.sampled_from(["ab" * 32, "0f" * 32]), max_size=2),
)
tables = st.builds(
    RunConfig,
    active=st.builds(
        ActiveTable, table=st.just(Path("/a/b.csv")), label=columns, id=columns, features=choices
    ),
    passive=st.lists(
        st.builds(
            PassiveTable,
            name=names,
            table=st.just(Path("/a/c.parquet")),
            id=columns,
            features=choices,
            bottom=st.sampled_from([None, "mlp"]),
            policy=st.one_of(st.none(), policies),
        ),
        min_size=1,
        max_size=3,
        unique_by=lambda party: party.name,
    ),
    model=models,
    train=trains,
)


@given(st.one_of(datasets, tables))
def test_a_configuration_reads_back_as_it_was_written(config: RunConfig) -> None:
    text = dump(config)
    assert parse_run(yaml.safe_load(text), "text") == config


def test_a_run_folder_gives_back_its_configuration(tmp_path: Path) -> None:
    config = RunConfig(data="digits", parties={"left": 5, "right": 3}, code=tmp_path)
    (tmp_path / "run.yaml").write_text(dump(config))
    assert read_run_folder(tmp_path) == config
    assert read_run(tmp_path / "run.yaml") == config
    with pytest.raises(RunError):
        read_run_folder(tmp_path / "other")


def test_a_run_folder_of_0_7_is_read_by_the_name_its_file_had(tmp_path: Path) -> None:
    config = RunConfig(data="digits", code=tmp_path)
    (tmp_path / OLD_RUN_FILE).write_text(dump(config))
    assert read_run_folder(tmp_path) == config
    write_config(tmp_path, replace(config, parties=3))
    assert read_run_folder(tmp_path).parties == 3
    assert not (tmp_path / OLD_RUN_FILE).exists()


def test_each_of_the_two_files_is_told_from_the_other(tmp_path: Path) -> None:
    parties: dict[str, Any] = {"active": {"label": "y"}, "passive": [{"name": "shop"}]}
    path = tmp_path / "mine.yaml"
    for raw in (parties, {**parties, "server": {"port": 8002}}):
        path.write_text(yaml.safe_dump(raw))
        assert isinstance(read_federation(path), FederationFile)
        with pytest.raises(SettingsError, match="unlabel federation init"):
            read_run(path)
    runs: list[dict[str, Any]] = [GOOD_TABLES, {"data": "digits"}]
    for raw in runs:
        path.write_text(yaml.safe_dump(raw))
        assert isinstance(read_run(path), RunConfig)
        with pytest.raises(SettingsError, match="a run in one place"):
            read_federation(path)


def test_words_of_0_7_are_read_in_those_of_today() -> None:
    old = {
        **GOOD_TABLES,
        "align": {"method": "clear"},
        "watch": {"limit": 3},
        "policy": {"serves": ["Embed", "Weigh"]},
        "train": {"late": 0, "late_parties": [], "late_rule": "foresee"},
        "audit": {"demand": "output"},
    }
    config = parse_run(old, "old.yaml")
    assert config.align.method == "plaintext"
    assert config.monitor == MonitorSettings(limit=3)
    assert config.policy.serves == ("Embed", "AccumulateFisher")
    assert config.audit.demand == "answers"
    with pytest.raises(SettingsError, match=r"version 0\.7"):
        parse_run({**old, "train": {"late": 2}}, "old.yaml")


def test_what_is_left_out_has_its_default() -> None:
    assert parse_run({"data": "digits"}, "text") == RunConfig(data="digits")
    train = parse_run({"data": "digits", "train": {"epochs": 3}}, "text").train
    assert train == TrainSettings(epochs=3)


def test_paths_start_beside_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study").mkdir()
    path = Path("study/mine.yaml")
    path.write_text(
        "active: {table: data/bank.csv, label: y}\npassive: [{name: shop, table: /data/shop.csv}]"
    )
    config = read_run(path)
    assert config.active is not None
    assert config.active.table == tmp_path / "study" / "data" / "bank.csv"
    assert config.passive[0].table == Path("/data/shop.csv")
    path.write_text("data: mine.npz")
    assert read_run(path).data == str(tmp_path / "study" / "mine.npz")
    path.write_text("data: mine.npz\nfolder: files")
    config = read_run(path)
    assert config.data == "mine.npz"
    assert config.folder == tmp_path / "study" / "files"
    path.write_text("data: digits")
    assert read_run(path).data == "digits"


def test_paths_that_are_whole_stay_as_they_are() -> None:
    config = RunConfig(data="/data/mine.npz", folder=Path("/files"), code=Path("/models"))
    assert config.under(Path("/elsewhere")) == config
    relative = replace(config, data="mine.npz", folder=None)
    assert relative.under(Path("/data")) == replace(config, folder=None)


# --- mistakes ------------------------------------------------------------------------------

GOOD_TABLES: dict[str, Any] = {
    "active": {"table": "a.csv", "label": "y"},
    "passive": [{"name": "shop", "table": "b.csv"}],
}


def changed(where: str, value: object) -> dict[str, Any]:
    """Return a good configuration with one setting changed."""
    raw: dict[str, Any] = yaml.safe_load(yaml.safe_dump(GOOD_TABLES))
    if where.split(".")[0] not in ("active", "passive"):
        raw = {"data": "digits"}
    holder: Any = raw
    *path, last = where.split(".")
    for key in path:
        holder = holder[int(key)] if isinstance(holder, list) else holder.setdefault(key, {})
    holder[last] = value
    return raw


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("train.epochs", "many", "`train.epochs` got 'many' but accepts a whole number or 'auto'."),
        ("train.epochs", 2.5, "`train.epochs` got 2.5 but accepts a whole number or 'auto'."),
        ("train.epochs", None, "`train.epochs` got None but accepts a whole number or 'auto'."),
        ("train.epochs", 0, "Expected `epochs` to be auto or at least 1 but got 0."),
        ("train.lr", [1], "`train.lr` got [1] but accepts a number."),
        ("train.lr", float("inf"), "Expected `lr` to be a number above 0 but got inf."),
        ("train.nesterov", "perhaps", "`train.nesterov` got 'perhaps' but accepts true or false."),
        ("train.device", 3, "`train.device` got 3 but accepts text."),
        (
            "train.optimiser",
            "SGD",
            "`train.optimiser` got 'SGD' but accepts 'sgd' or 'adam'.",
        ),
        (
            "train.schedule",
            "cosinus",
            "`train.schedule` got 'cosinus' but accepts 'constant', 'linear' or 'cosine'. "
            "Did you mean 'cosine'?",
        ),
        (
            "train.augment",
            "flip",
            "`train.augment` got 'flip' but accepts 'none', 'crop' or 'crop-flip' or 'auto'. "
            "Did you mean 'crop-flip'?",
        ),
        ("train.momentum", 1, "Expected `momentum` to be from 0 to below 1 but got 1.0."),
        ("train.patience", -1, "Expected `patience` to be auto or 0 or more but got -1."),
        ("train.save_every", 0, "Expected `save_every` to be at least 1 but got 0."),
        ("train.learning_rate", 1, "Unknown setting under `train` 'learning_rate'."),
        ("train.momentun", 1, "under `train` 'momentun'. Did you mean 'momentum'? Known: augment,"),
        ("model.botom", "mlp", "under `model` 'botom'. Did you mean 'bottom'? Known: bottom,"),
        ("model.combine", "add", "`model.combine` got 'add' but accepts 'concat' or 'sum'."),
        ("model.bottoms", 3, "`model.bottoms` got 3 but accepts a mapping."),
        ("model", "mlp", "`model` got 'mlp' but accepts a mapping."),
        ("policy.max_rows", 0, "Expected `max_rows` to be at least 1 but got 0."),
        ("policy.max_row", 1, "under `policy` 'max_row'. Did you mean 'max_rows'?"),
        ("policy.serves", ["Embedd"], "Unknown request 'Embedd'. Did you mean 'Embed'?"),
        (
            "split",
            "strip",
            "`split` got 'strip' but accepts 'strips', 'views', 'columns' or 'texts'.",
        ),
        ("parties", 9, "Expected 1 to 8 passive parties but got 9."),
        ("parties", "two", "`parties` got 'two' but accepts a whole number or a list or a mapping"),
        ("parties", {1: 4}, "`parties` got {1: 4} but accepts a whole number or a list."),
        ("parties", {1: 4}, "`parties.1` got 1 but accepts text."),
        ("active_part", "perhaps", "`active_part` got 'perhaps' but accepts true or false."),
        ("folder", 3, "`folder` got 3 but accepts a path."),
        ("datas", "x", "Unknown setting 'datas'. Did you mean 'data'? Known: active,"),
        ("active.label", 3, "`active.label` got 3 but accepts text."),
        (
            "active.features",
            "all",
            "`active.features` got 'all' but accepts 'rest' or 'none' or a ",
        ),
        ("active.features", [1], "`active.features.0` got 1 but accepts text."),
        ("active.tabel", "x", "under `active` 'tabel'. Did you mean 'table'?"),
        ("passive.0.table", 7, "`passive.0.table` got 7 but accepts a path."),
        ("passive.0.nam", "x", "under `passive.0` 'nam'. Did you mean 'name'?"),
        ("passive.0.policy", {"max_row": 1}, "'max_row'. Did you mean 'max_rows'?"),
        ("passive", {}, "`passive` got {} but accepts a list."),
    ],
)
def test_a_mistake_names_the_setting_what_it_got_and_what_it_accepts(
    where: str, value: object, message: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_run(changed(where, value), "mine.yaml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("mine.yaml: ")
    assert "\n" not in str(caught.value)


def test_a_setting_that_is_missing_is_named() -> None:
    for where, name in (("active", "label"), ("active", "table"), ("passive.0", "name")):
        raw = yaml.safe_load(yaml.safe_dump(GOOD_TABLES))
        holder = raw["active"] if where == "active" else raw["passive"][0]
        del holder[name]
        with pytest.raises(SettingsError, match=f"`{where}.{name}` is missing"):
            parse_run(raw, "mine.yaml")


def test_all_mistakes_are_told_at_once() -> None:
    raw = {"data": "digits", "train": {"epochs": "x", "lr": "y"}, "modle": {}}
    with pytest.raises(SettingsError) as caught:
        parse_run(raw, "mine.yaml")
    for part in ("`train.epochs` got 'x'", "`train.lr` got 'y'", "Did you mean 'model'?"):
        assert part in str(caught.value)


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(SettingsError) as caught:
        parse_run(changed("train.lr", "x" * 1000), "mine.yaml")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("data: [digits", "mine.yaml' is not readable YAML near line 1"),
        ("data: digits\n\ttrain: 3", "mine.yaml' is not readable YAML near line 2"),
        ("data: !!python/object:os.system x", "mine.yaml' is not readable YAML near line 1"),
        ("data: " + "[" * 3000, "mine.yaml' is not readable YAML"),
        ("- a\n- b", r"mine.yaml: expected a mapping of settings but got \['a', 'b'\]"),
        ("3", "mine.yaml: expected a mapping of settings but got 3"),
    ],
)
def test_a_file_that_is_no_mapping_of_settings_is_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=message):
        read_run(path)


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"data: \xff\xfe")
    with pytest.raises(SettingsError):
        read_run(path)


settings = [f.name for kind in (RunConfig, TrainSettings, ModelSettings) for f in fields(kind)]
keys = st.one_of(st.sampled_from([*settings, "name", "table", "label"]), st.text(max_size=4))
anything = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6), st.dates()
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(keys, st.integers(), st.none()), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.one_of(keys, st.integers(), st.none()), anything, max_size=5))
def test_whatever_stands_in_the_file_nothing_but_a_settings_error_comes_out(raw: Any) -> None:
    with contextlib.suppress(SettingsError):
        parse_run(raw, "mine.yaml")
    with contextlib.suppress(SettingsError):
        parse_run({"data": "digits", **raw}, "mine.yaml")
