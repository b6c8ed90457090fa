"""Runs on texts, from the file to predictions: in one sheet, and in tables of their owners."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from models.small_encoder import write_encoder
from small_parties import make_kits
from unlabel_bench.comparison.comparison import ComparisonSettings
from unlabel_bench.methods.boundary import Boundary
from unlabel_bench.methods.unsir import Unsir
from unlabel_bench.registry import BENCHES

from unlabel import Federation
from unlabel.config import ActiveTable, PassiveTable
from unlabel.config.loader import read_run
from unlabel.data.splits import split_texts
from unlabel.errors import CheckpointError, ForgetError, PartyRefused, SettingsError
from unlabel.forget import ForgetSettings, Method
from unlabel.models import read_texts
from unlabel.remote.kit import Kit
from unlabel.remote.party_home import open_party
from unlabel.train import load_holdings

TOPICS = {
    "card": ["card", "pin", "lost", "stolen", "plastic", "chip"],
    "loan": ["loan", "rate", "interest", "borrow", "debt", "mortgage"],
    "travel": ["flight", "hotel", "abroad", "passport", "ticket", "visa"],
}
FILLING = ["please", "where", "is", "my", "the", "of", "and", "soon", "about", "help"]

SHEET = """\
data: asked.csv
columns: {{label: topic, text: words}}
parties: {parties}
active_part: {active_part}
model: {{bottom: words, text: {{length: 12, vocabulary: 500}}}}
train: {{epochs: 6, lr: 0.01, optimiser: adam, batch: 16, public: 10}}
"""
TABLES = """\
active: {table: bank.csv, label: topic, features: none}
passive:
  - {name: chat, table: chat.csv, text: message}
  - {name: mail, table: mail.csv, text: letter, id: person}
align: {method: plaintext}
model: {bottom: words, text: {length: 12, vocabulary: 500}}
train: {epochs: 6, lr: 0.01, optimiser: adam, batch: 16, public: 10}
"""


def write_texts(rows: int, seed: int) -> tuple[list[str], list[str]]:
    """Return texts whose every half has a word of its topic, and the topics."""
    rng = np.random.default_rng(seed)
    topics = [list(TOPICS)[n] for n in rng.integers(0, 3, rows)]
    texts = []
    for topic in topics:
        words = rng.choice(FILLING, 8).tolist()
        words[int(rng.integers(0, 3))] = str(rng.choice(TOPICS[topic]))
        words[int(rng.integers(5, 8))] = str(rng.choice(TOPICS[topic]))
        texts.append(" ".join(words))
    return texts, topics


def write_sheet(folder: Path, parties: int = 2, active_part: str = "false") -> Path:
    texts, topics = write_texts(360, 0)
    pd.DataFrame({"words": texts, "topic": topics}).to_csv(folder / "asked.csv", index=False)
    path = folder / "run.yaml"
    path.write_text(SHEET.format(parties=parties, active_part=active_part))
    return path


def write_tables(folder: Path, rows: int, seed: int, prefix: str = "") -> None:
    """Write each party's table, in an order of its own; the last people are not known to all."""
    texts, topics = write_texts(rows, seed)
    ids = [f"{n:04d}" for n in range(rows)]
    halves = split_texts(texts, 2)
    bank = pd.DataFrame({"id": ids, "topic": topics})
    chat = pd.DataFrame({"id": ids, "message": halves["passive-1"], "age": range(rows)})
    mail = pd.DataFrame({"person": ids, "letter": halves["passive-2"]})
    bank.to_csv(folder / f"{prefix}bank.csv", index=False)
    chat.sample(frac=1, random_state=1).to_csv(folder / f"{prefix}chat.csv", index=False)
    mail.iloc[: rows - 5].sample(frac=1, random_state=2).to_csv(
        folder / f"{prefix}mail.csv", index=False
    )


@pytest.mark.parametrize(("parties", "active_part"), [(1, "false"), (3, "false"), (2, "true")])
def test_a_sheet_of_texts_is_learned_and_new_texts_are_named(
    tmp_path: Path, parties: int, active_part: str
) -> None:
    config = read_run(write_sheet(tmp_path, parties, active_part))
    federation = Federation.create(config)
    texts, _ = write_texts(360, 0)
    halves = split_texts(texts, parties, active_part=active_part == "true")
    for name, part in halves.items():
        kept = federation.holdings.features[name].values
        assert torch.equal(kept, read_texts("words", part, config.model.text))
    federation.train()
    assert federation.evaluate().accuracy > 0.9
    texts, topics = write_texts(60, 1)
    pd.DataFrame({"words": texts}).to_csv(tmp_path / "new.csv", index=False)
    found = federation.predict(data=str(tmp_path / "new.csv"))
    assert np.mean([a == b for a, b in zip(found.labels, topics, strict=True)]) > 0.9


def test_texts_of_a_federation_are_trained_predicted_and_forgotten(tmp_path: Path) -> None:
    write_tables(tmp_path, 360, 0)
    write_tables(tmp_path, 60, 1, "new_")
    (tmp_path / "run.yaml").write_text(TABLES)
    config = read_run(tmp_path / "run.yaml")
    runs = [Federation.create(config, encoded=encoded) for encoded in (False, True)]
    (tokens,) = {tuple(run.holdings.features["chat"].values.flatten().tolist()) for run in runs}
    assert len(tokens) == 355 * 12
    for run in runs:
        run.train()
    new = {"chat": tmp_path / "new_chat.csv", "mail": tmp_path / "new_mail.csv"}
    first, second = (run.predict(tables=new) for run in runs)
    assert np.array_equal(first.probabilities, second.probabilities)  # the wire changes nothing
    people = pd.read_csv(tmp_path / "new_bank.csv", dtype=str)
    known = dict(zip(people["id"], people["topic"], strict=True))
    pairs = [(label, known[i]) for i, label in zip(first.ids, first.labels, strict=True)]
    assert len(pairs) == 55
    assert np.mean([a == b for a, b in pairs]) > 0.9
    outcome = runs[0].forget(["loan"])
    assert (outcome.result.forgotten_accuracy.before or 0) > 0.9
    assert (outcome.result.forgotten_accuracy.after or 0) < 0.05
    outcome.rollback()


def test_an_encoder_trains_through_the_wire_and_comes_back_from_disk(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    path = write_sheet(tmp_path)
    encoder = "bottom: bert, text: {layers: 1, width: 32, length: 8, vocabulary: 200}"
    path.write_text(
        path.read_text().replace("bottom: words, text: {length: 12, vocabulary: 500}", encoder)
    )
    config = read_run(path)
    run = Federation.create(config, tmp_path / "run")
    wired = Federation.create(config, encoded=True)
    for federation in (run, wired):
        federation.train(epochs=1)
    opened = Federation.open(tmp_path / "run")
    for other in (wired, opened):
        assert np.array_equal(other.predict().probabilities, run.predict().probabilities)


def test_a_public_set_of_texts_lies_in_tables_too(tmp_path: Path) -> None:
    write_tables(tmp_path, 360, 0)
    (tmp_path / "run.yaml").write_text(TABLES)
    federation = Federation.create(read_run(tmp_path / "run.yaml"))
    federation.train()
    public = tmp_path / "public"
    public.mkdir()
    write_tables(public, 90, 3)
    (public / "bank.csv").rename(public / "active.csv")
    outcome = federation.forget(["card"], settings=ForgetSettings(public=public))
    assert (outcome.result.forgotten_accuracy.after or 0) < 0.05
    assert outcome.result.public == f"the files at {public}"
    outcome.rollback()


def test_a_party_in_a_house_of_its_own_reads_its_own_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unlabel.align.people.library", lambda: None)  # no ids are matched here
    write_tables(tmp_path, 120, 0)
    kits = tmp_path / "kits"
    kits.mkdir()
    make_kits(
        kits,
        "active: {label: topic, features: none}\n"
        "passive: [{name: chat, text: message}, {name: mail, text: letter, id: person}]\n"
        "model: {bottom: words, text: {length: 12, vocabulary: 500}}\n",
    )
    home = open_party(Kit.open(kits / "mail"), tmp_path / "mail.csv")
    frame = pd.read_csv(tmp_path / "mail.csv", dtype=str)
    features = home.party.bottom.tables["main"].values
    config = Kit.open(kits / "mail").run_config(tmp_path / "mail.csv")
    assert torch.equal(features, read_texts("words", frame["letter"].tolist(), config.model.text))
    # Opened again, with an encoding that was settled the first time.
    reopened = open_party(Kit.open(kits / "mail"), tmp_path / "mail.csv")
    assert reopened.party.bottom.features_digest() == home.party.bottom.features_digest()


@pytest.mark.parametrize("method", ["unsir", "boundary"])
@pytest.mark.parametrize(
    ("active_part", "kind", "start"),
    [
        ("false", PartyRefused, "Party 'passive-1' refused: its rows are the words of texts"),
        ("true", ForgetError, "The active party can make no inputs: its rows are the words"),
    ],
)
def test_a_method_that_moves_inputs_is_refused_in_one_sentence(
    tmp_path: Path, method: str, active_part: str, kind: type[Exception], start: str
) -> None:
    federation = Federation.create(read_run(write_sheet(tmp_path, 2, active_part)))
    federation.train(epochs=1)
    before = federation.evaluate()
    with pytest.raises(kind, match=f"^{start}.*no gradient moves; choose a method.*frozen"):
        federation.forget(["loan"], settings=ForgetSettings(method=method))
    assert federation.evaluate() == before
    assert all(party.open_request is None for party in federation.passives.values())


def test_a_bench_notes_what_a_party_refused_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNLABEL_CACHE", str(tmp_path / "cache"))
    write_sheet(tmp_path)
    settings = ComparisonSettings(
        data="asked.csv",
        folder=str(tmp_path),
        columns=("label=topic", "text=words"),
        model="words",
        text=("length=12", "vocabulary=500"),
        epochs=1,
        seeds=1,
        labels=(1,),
        methods=("unsir", "mask", "retrain"),
    )
    found = {
        line["method"]: line
        for line in BENCHES.get("single-label").run(settings, lambda _: None)["records"]
    }
    assert "no gradient moves" in found["unsir"]["failed"]
    assert "failed" not in found["mask"]


@pytest.mark.parametrize(
    "method",
    [
        Unsir(noise_batch=4, noise_steps=2, copies=1, retained=5, impair_lr=1e-6, repair_lr=1e-6),
        Boundary(epochs=1),
    ],
)
def test_features_of_a_frozen_encoder_can_be_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: Method
) -> None:
    pytest.importorskip("transformers")
    monkeypatch.setenv("UNLABEL_CACHE", str(tmp_path / "cache"))
    write_encoder(tmp_path / "encoder")
    path = write_sheet(tmp_path)
    text = "text: {weights: encoder, frozen: true, length: 12}"
    path.write_text(path.read_text().replace("text: {length: 12, vocabulary: 500}", text))
    federation = Federation.create(read_run(path))
    assert federation.holdings.features["passive-1"].shape == (32,)
    federation.train(epochs=1)
    outcome = federation.forget(["loan"], settings=ForgetSettings(method=method))
    assert outcome.result.steps > 0
    outcome.rollback()


@pytest.mark.parametrize(
    "wrong", [{"features": ["age"]}, {"features": "none"}, {"categories": ("a",)}]
)
def test_a_text_stands_alone(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=r"`features`"):
        PassiveTable(name="shop", text="note", **wrong)
    with pytest.raises(SettingsError, match=r"`features`"):
        ActiveTable(table=Path("t.csv"), label="y", text="note", **wrong)


def test_a_text_of_the_active_partys_own(tmp_path: Path) -> None:
    write_tables(tmp_path, 360, 0)
    (tmp_path / "run.yaml").write_text(
        TABLES.replace(
            "table: bank.csv, label: topic, features: none",
            "table: own.csv, label: topic, text: note",
        )
    )
    bank = pd.read_csv(tmp_path / "bank.csv", dtype=str)
    bank.assign(note=write_texts(360, 0)[0]).to_csv(tmp_path / "own.csv", index=False)
    held = load_holdings(read_run(tmp_path / "run.yaml"))
    assert sorted(held.features) == ["active", "chat", "mail"]
    assert held.features["active"].values.dtype == torch.int64
    assert held.config.active is not None
    assert (held.config.active.text, held.config.active.features) == ("note", "rest")


# --- weights of words ----------------------------------------------------------------------


def weights_of(run: Federation, party: str) -> torch.Tensor:
    return run.passives[party].bottom.module.get_buffer("weights").clone()


def test_words_are_weighed_by_the_rows_that_train_and_weights_come_back_from_disk(
    tmp_path: Path,
) -> None:
    run = Federation.create(read_run(write_sheet(tmp_path)), tmp_path / "run")
    run.train(epochs=1)
    rows = run.holdings.features["passive-1"].values[run.holdings.rows.train]
    weights = weights_of(run, "passive-1")
    assert set(weights.nonzero()[:, 0].tolist()) == set(rows.unique().tolist()) - {0}
    opened = Federation.open(tmp_path / "run")
    assert torch.equal(weights_of(opened, "passive-1"), weights)
    assert np.array_equal(opened.predict().probabilities, run.predict().probabilities)


def test_retraining_weighs_words_without_the_forgotten_rows(tmp_path: Path) -> None:
    run = Federation.create(read_run(write_sheet(tmp_path)), tmp_path / "run")
    run.train(epochs=1)
    before = weights_of(run, "passive-1")
    outcome = run.forget(["loan"], settings=ForgetSettings(method="retrain"))
    after = weights_of(run, "passive-1")
    only = read_texts("words", [" ".join(TOPICS["loan"])], run.holdings.config.model.text)
    assert (before[only] != 0)[only != 0].all()
    assert (after[only] == 0).all()  # no row that is left holds a word of loans
    outcome.rollback()
    assert torch.equal(weights_of(run, "passive-1"), before)


@pytest.mark.parametrize("active_part", ["false", "true"])
def test_a_run_of_words_by_an_older_version_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, active_part: str
) -> None:
    config = read_run(write_sheet(tmp_path, 2, active_part))
    with monkeypatch.context() as older:
        older.setattr("unlabel.party.checkpoint.__version__", "0.6.0")
        older.setattr("unlabel.train.assembly.describe_bottom", lambda bottom, _: bottom)
        older.setattr("unlabel.train.assembly.reads_bag", lambda *_: False)
        Federation.create(config, tmp_path / "run").train(epochs=1)
    monkeypatch.setattr("unlabel.party.checkpoint.__version__", "0.7.0")
    wrong = r"is of model '.*', not '.*words by weight.*'; unlabel 0\.6\.0 wrote it: open the run"
    with pytest.raises((CheckpointError, PartyRefused), match=wrong):
        Federation.open(tmp_path / "run")
