"""A blind federation over texts, in processes of their own and over mutual TLS."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from federation.test_label_free_live import command
from small_parties import PARTIES, PASSIVE, provisioned
from train.test_blind_texts import TOPICS

import unlabel as ul
from unlabel.data import ACTIVE
from unlabel.remote.local_cluster import LocalCluster, free_port

TEXTS = """
name: texts
server: {host: localhost, port: PORT}
active: {label: topic, features: none}
passive: [{name: shop, text: words}, {name: loan, text: words}]
model: {bottom: words, top: linear, text: {length: 8, vocabulary: 300}}
bottoms: blind
label_free: {epochs: 2, batch: 64, across: false}
fit: {epochs: 20}
"""


def test_texts_are_forgotten_between_organisations_and_replayed(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    topics = draw.choice(list(TOPICS), 180)
    ids = [f"T{number}" for number in range(len(topics))]
    tables = {name: tmp_path / f"{name}.csv" for name in PARTIES}
    pd.DataFrame({"id": ids, "topic": topics}).to_csv(tables[ACTIVE], index=False)
    for party in PASSIVE:
        texts = [" ".join(draw.choice(TOPICS[topic].split(), 6)) for topic in topics]
        pd.DataFrame({"id": ids, "words": texts}).to_csv(tables[party], index=False)
    kits = provisioned(tmp_path, TEXTS.replace("PORT", str(free_port())), seed=0)
    with LocalCluster(kits, tables) as cluster:
        with ul.Federation.connect(kits[ACTIVE], resume=True) as federation:
            federation.train()
            assert federation.evaluate().accuracy > 0.6
        cluster.stop()
    run = ("--federation", kits[ACTIVE])
    command("forget", *run, "--label", "fraud")
    command("audit", *run, "--demand", "bottoms")
    for verb in ("commit", "purge", "certificate"):
        command(verb, *run)
    with ul.Federation.connect(kits[ACTIVE]) as federation:
        assert federation.labels == ("card", "loan")
        home = federation.folder
    assert "Replayed bit for bit" in command(
        "verify", home / "certificate.json", "--run", home, "--replay", home
    )
