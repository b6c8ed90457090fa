"""Blind and tuned runs at the command line: flags, words, and what every verb says of them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli.command_line import nothing_written, one_thread, unlabel

from unlabel.cli import output
from unlabel.config.loader import read_run_folder

__all__ = ["one_thread"]  # a fixture for every test here

LABELS = np.array(["boat", "car", "home"])
CONFIG = """\
active: {table: bank.csv, label: loan}
passive: [{name: shop, table: shop.csv}]
bottoms: blind
label_free: {width: 1.0}
"""


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two tables and a blind run of them."""
    folder = tmp_path_factory.mktemp("blind")
    draw = np.random.default_rng(0)
    x = draw.normal(size=(600, 6))
    ids = [f"C{number}" for number in range(600)]
    bank = {"id": ids, "loan": LABELS[x[:, :3].argmax(1)], "a": x[:, 0], "b": x[:, 3]}
    shop = {"id": ids, "c": x[:, 1], "d": x[:, 2], "e": x[:, 4], "f": x[:, 5]}
    pd.DataFrame(bank).to_csv(folder / "bank.csv", index=False)
    pd.DataFrame(shop).to_csv(folder / "shop.csv", index=False)
    (folder / "loans.yaml").write_text(CONFIG)
    words = ("--fit-epochs", "20", "--out", folder / "run")
    assert unlabel("train", folder / "loans.yaml", *words).code == 0
    return folder


@pytest.fixture
def run(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the run, and stand beside it."""
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    text = (tmp_path / "run" / "run.yaml").read_text()
    (tmp_path / "run" / "run.yaml").write_text(text.replace(str(kept), str(tmp_path)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(output.results, "width", 80)
    return Path("run")


def flat(text: str) -> str:
    """Return a text without the line breaks of a table."""
    return " ".join(text.split())


def test_every_flag_of_bottoms_reaches_the_run(tmp_path: Path, run: Path) -> None:
    top = "sklearn:HistGradientBoostingClassifier"
    words = (
        *("--objective", "components", "--width", "0.5", "--top", top),
        *("--top-option", "max_iter=7", "--top-option", "early_stopping=false"),
    )
    facts = unlabel("train", "loans.yaml", *words, "--out", "other", "--json").json
    assert (facts["bottoms"], facts["objective"], facts["views"]) == ("blind", "components", 0)
    assert facts["party_names"] == ["shop"]
    config = read_run_folder(Path("other"))
    assert config.model.top == top
    assert config.model.options == {"max_iter": 7, "early_stopping": False}
    assert config.label_free.width == 0.5
    assert (tmp_path / "other/active/label-free/embeddings.safetensors").exists()
    sentence = unlabel("train", "loans.yaml", "--top-option", "max_iter", "--out", "no").sentence
    assert sentence.startswith("Expected `--top-option` like max_iter=200")


def test_views_and_passes_of_contrast_are_flags_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("--views", "2", "--label-free-epochs", "1", "--fit-epochs", "3")
    digits = ("--data", "digits", "--model", "mlp")
    done = unlabel("train", *digits, "--bottoms", "blind", *words, "--out", "run", "--json")
    assert (done.json["objective"], done.json["views"], done.json["epochs"]) == ("contrast", 2, 3)
    assert "step 1/1: bottoms without labels" in done.err
    assert "step 3/3: embedding views" in done.err
    assert Path("run/active/label-free/views.safetensors").exists()
    # A blind run is not trained together.
    with nothing_written(tmp_path):
        refused = unlabel("train", *digits, "--bottoms", "blind", "--epochs", "3", "--out", "no")
        assert "`train.epochs` means nothing to it" in refused.sentence
        assert "bottoms" in unlabel("train", *digits, "--bottoms", "blnd", "--out", "no").sentence


def test_a_training_says_what_kind_it_was(run: Path) -> None:
    said = unlabel("train", "loans.yaml", "--out", "again").err
    assert (
        "Bottoms: blind, by components. The partners took part once; no gradient of a label was "
        "sent.\n"
    ) in said
    tuned = ("--bottoms", "tuned", "--epochs", "1", "--label-free-epochs", "1")
    said = unlabel("train", "loans.yaml", *tuned, "--out", "tuned").err
    assert "Bottoms: tuned, by contrast. They were made without labels, kept so at every party" in (
        said
    )
    assert "that sent gradients of labels" in said
    assert "Gradients were sent of how far the parties agree" in said


def test_a_run_is_resumed_with_the_settings_it_was_begun_with(run: Path) -> None:
    before = read_run_folder(run)
    assert (before.label_free.objective, before.model.top) == ("components", "mlp")
    same = ("loans.yaml", "--fit-epochs", "20", "--resume", "--out", run)
    assert unlabel("train", *same).code == 0
    assert unlabel("train", "--resume", "--out", run).code == 0
    sentence = unlabel("train", *same, "--width", "0.5").sentence
    assert "was made with label_free.width = 1.0, not 0.5" in sentence
    sentence = unlabel("train", *same, "--objective", "contrast").sentence
    assert "was made with label_free.objective = components, not contrast" in sentence


def test_a_blind_run_is_replaced_by_one_that_takes_over_nothing_of_it(run: Path) -> None:
    frozen = (run / "shop/base/000001.safetensors").read_bytes()
    words = ("loans.yaml", "--width", "0.5", "--overwrite", "--out", run)
    assert unlabel("train", *words).code == 0
    assert (run / "shop/base/000001.safetensors").read_bytes() != frozen


def test_labels_and_people_are_forgotten_in_words_that_say_exact(run: Path) -> None:
    dry = flat(unlabel("forget", run, "--id", "C3", "--dry-run").out)
    assert "method │ refit" in dry
    assert "exact, by construction" in dry
    assert "cover" not in dry

    one = unlabel("forget", run, "--id", "C3")
    assert "The label of one person: before and after" in one.out
    assert re.search(r"refit: \d+\.\d\d s, no message was sent", one.out)
    assert "Guarantee exact, by construction: no bottom ever saw a label" in one.err
    assert "Visibility hidden" in one.err
    assert "Depth bottoms." in one.err
    assert "blind run" not in one.err
    assert "Next: unlabel audit run, then unlabel commit run, or unlabel rollback run" in one.err
    assert unlabel("commit", run).code == 0

    Path("some.csv").write_text("id\nC4\nC5\n")
    some = unlabel("forget", run, "--ids", "some.csv", "--commit")
    assert "The labels of 2 people: before and after" in some.out
    whole = unlabel("forget", run, "--label", "boat", "--commit", "--json").json
    assert (whole["method"], whole["committed"], whole["transcript_bytes"]) == ("refit", True, 0)


def test_other_verbs_know_what_a_blind_run_is(run: Path) -> None:
    assert "Forgotten: no label" in unlabel("status", run).out
    assert unlabel("forget", run, "--label", "boat", "--commit").code == 0
    shown = flat(unlabel("status", run).out)
    assert re.search(r"Forgotten: the labels of \d+ rows", shown)
    assert "Bottoms are blind: frozen at shop. Requests concern the label holder alone." in shown
    assert unlabel("status", run, "--json").json["bottoms"] == "blind"
    judged = unlabel("evaluate", run, "--json").json
    assert judged["labels"] == ["car", "home"]  # as if there had never been a third
    assert "boat" not in unlabel("evaluate", run).out
    predicted = unlabel("predict", run, "--json").json["predictions"]
    assert {each["label"] for each in predicted} <= {"car", "home"}
    new = ("--table", "active=bank.csv", "--table", "shop=shop.csv")
    assert unlabel("predict", run, *new, "--json").json["rows"] == 600
    assert "slots are not needed" in unlabel("forget", run, "--label", "car", "--queue").sentence


def test_copies_list_what_was_made_without_labels_as_kept(run: Path) -> None:
    assert unlabel("forget", run, "--label", "boat", "--commit").code == 0
    assert unlabel("purge", run).code == 0
    listed = unlabel("status", run, "--copies", "--json").json
    places = {each["place"]: each for each in listed["copies"] if each["state"] == "kept"}
    assert places["shop/base"]["why"].startswith("no label went into it")
    assert "active/label-free" in places
    tombstones = places["active/labels.safetensors"]["why"]
    assert "follow from ids alone" in tombstones
    left = [each["place"] for each in listed["copies"] if each["state"] == "left"]
    assert [Path(place).name for place in left] == ["bank.csv"]  # its owner clears that


def test_a_supervised_run_hears_what_a_blind_one_would_give_to_people(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("--data", "digits", "--model", "mlp", "--epochs", "2", "--out", "run")
    assert unlabel("train", *words).code == 0
    trained = unlabel("predict", "run", "--part", "train", "--json").json["predictions"]
    person = trained[0]["id"]
    note = "in a blind run (`unlabel train --bottoms blind`"
    for more in (("--dry-run",), ()):
        assert note in unlabel("forget", "run", "--id", person, *more).err
    unlabel("rollback", "run")
    assert note not in unlabel("forget", "run", "--label", "3").err
    unlabel("rollback", "run")
    assert note not in unlabel("forget", "run", "--id", person, "--json").err


def test_exact_methods_are_listed_beside_the_others() -> None:
    exact = {each["name"]: each for each in unlabel("methods", "--json").json["exact"]}
    words = {
        name: (each["bottoms"], each["visibility"], each["depth"], each["guarantee"])
        for name, each in exact.items()
    }
    assert words == {
        "refit": ("blind", "hidden", "bottoms", "exact"),
        "restart": ("tuned", "open", "bottoms", "exact"),
    }
    shown = flat(unlabel("methods").out)
    assert "Partners learn: nothing: no" in shown
    assert "│ restart │ open" in shown


@pytest.mark.parametrize("word", ["hidden", "renormalise"])
def test_a_blind_run_takes_no_other_method(run: Path, word: str) -> None:
    with nothing_written(run):
        sentence = unlabel("forget", run, "--label", "boat", "--method", word).sentence
    assert sentence == (
        "The bottoms of this run are blind, so `refit` forgets exactly; leave --method out."
    )
