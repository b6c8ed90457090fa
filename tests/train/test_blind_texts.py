"""Blind runs on texts: from words to a replayed certificate."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import unlabel as ul

TOPICS = {
    "card": "lost stolen card pin blocked replace plastic",
    "loan": "mortgage interest rate borrow loan repay years",
    "fraud": "unknown payment strange theft report scam police",
}
YAML = """
active: {table: bank.csv, id: id, label: topic, features: none}
passive:
  - {name: left, table: left.csv, id: id, text: words}
  - {name: right, table: right.csv, id: id, text: words}
bottoms: blind
model: {bottom: words, top: linear, text: {length: 8, vocabulary: 300}}
label_free: {epochs: 2, batch: 64}
fit: {epochs: 20}
"""


def write_tables(folder: Path, blank: str = "") -> Path:
    """Write a label holder's and two partners' tables, with the cells of one label empty."""
    draw = np.random.default_rng(0)
    topics = draw.choice(list(TOPICS), 180)
    ids = [f"T{number}" for number in range(len(topics))]
    folder.mkdir()
    cells = ["" if topic == blank else topic for topic in topics]
    pd.DataFrame({"id": ids, "topic": cells}).to_csv(folder / "bank.csv", index=False)
    for party in ("left", "right"):
        texts = [" ".join(draw.choice(TOPICS[topic].split(), 6)) for topic in topics]
        pd.DataFrame({"id": ids, "words": texts}).to_csv(folder / f"{party}.csv", index=False)
    (folder / "run.yaml").write_text(YAML, encoding="utf-8")
    return folder / "run.yaml"


@pytest.mark.parametrize("across", [True, False])
def test_a_label_of_texts_is_forgotten_exactly_and_replayed(tmp_path: Path, across: bool) -> None:
    path = write_tables(tmp_path / "tables")
    if not across:
        text = path.read_text(encoding="utf-8").replace("epochs: 2,", "epochs: 2, across: false,")
        path.write_text(text, encoding="utf-8")
    federation = ul.Federation.from_file(path, tmp_path / "run")
    federation.train()
    assert federation.evaluate().accuracy > 0.6
    outcome = federation.forget(labels=["fraud"])
    verdict = federation.audit()
    assert (verdict.depth, verdict.guarantee) == ("bottoms", "exact")
    outcome.commit()
    federation.purge()
    certified = federation.certificate()
    assert ul.verify(certified, run=tmp_path / "run", replay=tmp_path / "run").faults == []
    other = write_tables(tmp_path / "others", blank="fraud")
    other.write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    reference = ul.Federation.from_file(other)
    reference.train()
    assert federation.labels == reference.labels == ("card", "loan")
    ours, theirs = (fed.active.top.model_state() for fed in (federation, reference))
    assert all(torch.equal(ours[name], theirs[name]) for name in ours | theirs)
