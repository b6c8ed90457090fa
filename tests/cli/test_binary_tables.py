"""A table with two labels, from training to a certificate: the labels of people are forgotten."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli.command_line import nothing_written, unlabel

from unlabel import Federation

PEOPLE = 600
#: People whose label is wrong.
WRONG = [f"p{number:03d}" for number in range(0, 160, 10)]
CONFIG = """\
active:  {table: bank.csv, label: repaid}
passive:
  - {name: shop, table: shop.csv, missing: flag}
align:   {method: plaintext}
model:   {bottom: mlp}
train:   {epochs: 15, batch: 16, lr: 0.1, weight_decay: 0, save_every: 15}
"""


def write(folder: Path) -> None:
    """Write a bank's and a shop's tables of the same people, with a category and gaps."""
    rng = np.random.default_rng(1)
    ids = [f"p{n:03d}" for n in range(PEOPLE)]
    job = rng.choice(["cook", "nurse", "judge"], PEOPLE)
    income, age = rng.normal(30, 8, PEOPLE), rng.normal(45, 10, PEOPLE)
    score = (income - 30) / 8 + (job == "judge") - (job == "cook") + rng.normal(0, 0.4, PEOPLE)
    repaid = (score > 0) ^ np.isin(ids, WRONG)
    bank = pd.DataFrame({"id": ids, "age": age, "repaid": np.where(repaid, "yes", "no")})
    bank.to_csv(folder / "bank.csv", index=False)
    gap = rng.random(PEOPLE) < 0.1
    shop = pd.DataFrame({"id": ids, "job": job, "income": np.where(gap, np.nan, income)})
    # Columns that mean nothing are what a model knows a wrong label by heart from.
    for number in range(20):
        shop[f"noise{number}"] = rng.normal(size=PEOPLE)
    shop.to_csv(folder / "shop.csv", index=False)
    (folder / "loans.yaml").write_text(CONFIG)


def test_people_of_a_binary_table_are_forgotten_and_certified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    assert unlabel("train", "loans.yaml", "--out", "run").code == 0
    held = Federation.open("run").holdings
    listed = sorted(set(held.ids[held.rows.train.numpy()].tolist()) & set(WRONG))
    assert len(listed) > 8
    pd.DataFrame({"id": listed}).to_csv("request.csv", index=False)

    with nothing_written(tmp_path / "run"):
        sentence = unlabel("forget", "run", "--label", "no").sentence
        queued = unlabel("forget", "run", "--label", "no", "--queue").sentence
    assert sentence == queued
    assert sentence.startswith("Expected at least two labels to be left but 1 would be, 'yes': ")
    assert sentence.endswith("retire it, or forget the labels of people (--ids).")

    judged = unlabel("evaluate", "run", "--json").json
    before = judged["accuracy"]
    assert 0.5 < judged["average_precision"] < 1
    assert 0.5 < judged["auc"] < 1
    assert judged["threshold_confusion"] == judged["confusion"]
    strict = unlabel("evaluate", "run", "--threshold", "0.9", "--json").json
    # Fewer are called 'yes', the second label, of either kind.
    for loose, harder in zip(judged["confusion"], strict["threshold_confusion"], strict=True):
        assert harder[1] <= loose[1]
    assert strict["threshold_confusion"] != judged["confusion"]
    _, (missed, caught) = strict["threshold_confusion"]
    shown = " ".join(unlabel("evaluate", "run", "--threshold", "0.9").out.split())
    assert f"AUC {judged['auc']:.3f}, average precision" in shown
    assert f"threshold 0.9 of 'yes': {caught} of {caught + missed} rows of 'yes' and" in shown
    sentence = unlabel("evaluate", "run", "--threshold", "2").sentence
    assert "`threshold` to be a probability from 0 to 1 but got 2.0" in sentence
    words = ("--ids", "request.csv", "--json")
    found = unlabel("forget", "run", *words).json
    assert (found["method"], found["people"], found["staged"]) == ("retrain", len(listed), True)
    # Wrong labels that were known by heart are not believed any more.
    assert found["confidence"]["before"] > 0.9
    assert found["confidence"]["after"] < 0.7
    assert "beside models that are trained again" in unlabel("audit", "run").sentence
    assert unlabel("commit", "run").code == 0
    after = unlabel("evaluate", "run", "--json").json["accuracy"]
    assert after > before - 0.08
    assert unlabel("keys", "auditor", "--out", "keys").code == 0
    assert unlabel("certificate", "run", "--auditor-key", "keys/auditor.pub").code == 0
    told = ("run/certificate.json", "--run", "run", "--annex-key", "keys/auditor.key", "--json")
    assert unlabel("verify", *told).json["holds"] is True
    # The partner is told how many, and never who or which category.
    certificate = Path("run/certificate.json").read_text()
    assert not any(word in certificate for word in (*listed, "judge"))
    second = unlabel("forget", "run", *words).sentence
    assert "was already forgotten" in second

    # New people of the run's categories, and one of another.
    Path("bank_new.csv").write_text("id,age\nn1,40\nn2,41\n")
    columns = {f"noise{number}": [0.0, 0.0] for number in range(20)}
    new = {"id": ["n1", "n2"], "job": ["judge", "pilot"], "income": [None, 31.0], **columns}
    pd.DataFrame(new).to_csv("shop_new.csv", index=False)
    tables = ("--table", "active=bank_new.csv", "--table", "shop=shop_new.csv")
    said = unlabel("predict", "run", *tables)
    assert "1 values of 'job' are of categories that training had not" in " ".join(said.err.split())
    plain = unlabel("predict", "run", *tables, "--json").json
    assert len(plain["predictions"]) == 2
    assert len(plain["notes"]) == 1
    assert json.loads(Path("run/shop/encoding.json").read_text())["missing"] == "flag"
