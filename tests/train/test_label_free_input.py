"""Settings and data that do not fit a label-free run: one sentence, and nothing written."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from blind_runs import FIT, ROWS, blind_run, cells, differences, without, write_files
from cli.command_line import one_thread, unlabel

from unlabel import Federation
from unlabel.config import LabelFreeSettings, ModelSettings, RunConfig
from unlabel.config.data import Columns
from unlabel.data.dataset import Array
from unlabel.errors import DataError, SettingsError

__all__ = ["one_thread"]  # a fixture for every test here

LOGISTIC = "sklearn:LogisticRegression"
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "unknown kind": ({"kind": "blnd"}, "'blind'"),
    "unknown objective": ({"objective": "kontrast"}, "'contrast'"),
    "model without weights": ({"objective": "pretrained"}, "without weights"),
    "components tuned": ({"kind": "tuned", "objective": "components"}, "blind"),
    "estimator tuned": ({"kind": "tuned", "top": LOGISTIC}, "blind"),
    "estimator supervised": ({"kind": "supervised", "top": LOGISTIC}, "blind"),
    "estimator with views": ({"top": LOGISTIC, "views": 2}, "views"),
    "tuned with views": ({"kind": "tuned", "views": 2}, "views"),
    "unknown estimator": ({"top": "sklearn:LogisticRegresion"}, "LogisticRegression"),
    "unknown option": ({"top": LOGISTIC, "options": {"Cc": 1}}, "'C'"),
    "bad option": ({"top": LOGISTIC, "options": {"C": -1}}, "C"),
    "option of a linear top": ({"options": {"C": 1}}, "settings"),
    "epochs": ({"epochs": 3}, "train.epochs"),
    "batch": ({"batch": 8}, "train.batch"),
    "patience": ({"patience": 3}, "patience"),
    "patience tuned": ({"kind": "tuned", "patience": 3}, "patience"),
    "too many views": ({"views": 100}, "views"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_setting_that_does_not_fit_is_one_sentence(name: str, tmp_path: Path) -> None:
    form, word = WRONG[name]
    with pytest.raises(SettingsError, match=word) as refusal:
        blind_run(cells(), tmp_path / "run", **form)
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "run").exists()


def test_a_finished_blind_run_takes_no_settings_of_a_training_together() -> None:
    with pytest.raises(SettingsError, match="blind run"):
        blind_run(cells(), train=False).train(epochs=3)


@pytest.mark.parametrize(
    "labels",
    [
        without(["a"] * ROWS, [3]),
        np.full(ROWS, None),
        np.where(np.arange(ROWS) == int(blind_run(cells()).holdings.rows.test[0]), "b", "a"),
    ],
    ids=["one label", "none", "the other only in the test part"],
)
@pytest.mark.parametrize("kind", ["blind", "tuned"])
def test_too_few_labels_are_refused_before_any_party_is_asked(
    kind: str, labels: Array, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match="at least two"):
        blind_run(labels, tmp_path / "run", kind=kind)
    assert not (tmp_path / "run").exists()


def test_words_have_no_components(tmp_path: Path) -> None:
    table = pd.DataFrame({"text": ["good day to all", "bad night for some"] * 40, "y": [0, 1] * 40})
    table.to_csv(tmp_path / "texts.csv", index=False)
    config = RunConfig(
        data=str(tmp_path / "texts.csv"),
        columns=Columns(label="y", text="text"),
        bottoms="blind",
        model=ModelSettings(bottom="words", top="linear"),
        label_free=LabelFreeSettings(objective="components"),
    )
    with pytest.raises(SettingsError, match="Words"):
        Federation.create(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    contrast = replace(config, label_free=LabelFreeSettings(epochs=1, batch=32), fit=FIT)
    run = Federation.create(contrast)
    run.train()
    assert run.config.label_free.objective == "contrast"


def test_a_bottom_that_components_take_the_place_of_is_named() -> None:
    own: dict[str, Any] = {"bottom": "blind_runs:scaled_by_two", "train": False}
    assert [note for note in blind_run(cells(), **own).notes if "'blind_runs:scaled" in note]
    for used in (blind_run(cells(), objective="contrast", **own), blind_run(cells(), train=False)):
        assert not [note for note in used.notes if "is not used" in note]


def test_agreement_with_nobody_is_a_partys_own_contrast() -> None:
    run = Federation.local(
        "digits",
        parties=1,
        model=ModelSettings(bottom="small_models:plain_bottom", top="linear"),
        bottoms="blind",
        label_free=LabelFreeSettings(epochs=1, batch=512),
        fit=FIT,
    )
    run.train()
    (party,) = run.passives.values()
    assert party.label_free is not None
    assert party.label_free.received.count == 0


def test_embeddings_that_do_not_fit_memory_are_refused_and_the_run_can_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sysconf = os.sysconf
    with monkeypatch.context() as inside:
        inside.setattr(os, "sysconf", lambda n: 1 if n == "SC_AVPHYS_PAGES" else sysconf(n))
        with pytest.raises(SettingsError, match="GiB"):
            blind_run(cells(), tmp_path / "run")
    run = Federation.open(tmp_path / "run", resume=True)
    assert not list(run.folder.rglob("base*"))
    run.train()
    assert differences(run, blind_run(cells())) == []


def test_the_command_line_says_what_is_wrong_and_ends_with_an_error(tmp_path: Path) -> None:
    write_files(tmp_path / "t", cells())
    text = (
        "active: {table: t/bank.csv, label: grown, missing: flag}\n"
        "passive: [{name: shop, table: t/shop.csv, missing: flag}]\n"
        "model: {top: linear}\nfit: {epochs: 2}\n"
    )
    for more, word in (
        ("bottoms: blnd\n", "'blind'"),
        ("bottoms: blind\nlabel_free: {objective: kontrast}\n", "'contrast'"),
        ("bottoms: blind\ntrain: {patience: 3}\n", "patience"),
        ("bottoms: tuned\nlabel_free: {views: 2}\n", "views"),
    ):
        (tmp_path / "run.yaml").write_text(text + more)
        done = unlabel("train", tmp_path / "run.yaml", "--out", tmp_path / "run")
        assert word in done.sentence
        assert not (tmp_path / "run").exists()
    (tmp_path / "run.yaml").write_text(text + "bottoms: blind\n")
    command = ("train", tmp_path / "run.yaml", "--out", tmp_path / "run")
    assert unlabel(*command).code == 0
    before = {path: path.read_bytes() for path in run_files(tmp_path / "run")}
    assert "exists" in unlabel(*command).sentence
    slots = unlabel("slots", tmp_path / "run", "--every", "1", "--count", "1")
    assert "slots are not needed" in slots.sentence
    assert "'oak'" in unlabel("forget", tmp_path / "run", "--label", "oak").sentence
    assert {path: path.read_bytes() for path in run_files(tmp_path / "run")} == before


def run_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("kind", ["blind", "tuned"])
def test_no_label_decides_when_a_training_stops(kind: str) -> None:
    run = blind_run(cells(), kind=kind, train=False)
    assert run.config.train.patience == 0
    progress = run.train()
    assert len(progress.history) == (2 if kind == "tuned" else FIT.epochs)
