"""Bottoms made without labels by parties in processes of their own, over mutual TLS."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pandas as pd
import torch
from federation.course import KEY, weights
from federation.without_labels import (
    LABELS,
    NEW,
    PARTIES,
    PASSIVE,
    base_of,
    files_of,
    homes_in,
    set_up,
    together,
)
from typer.testing import CliRunner

import unlabel as ul
from unlabel.cli.main import app
from unlabel.data import ACTIVE
from unlabel.forget import ForgetSettings
from unlabel.remote.local_cluster import LocalCluster, free_port

SETTINGS = ForgetSettings(key=KEY)


def command(*words: object) -> str:
    """Run a command, which must succeed; return what it prints."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return done.output


def test_a_blind_federation_forgets_while_nobody_is_there(tmp_path: Path) -> None:
    kits = set_up(tmp_path, "blind", port=free_port())
    tables = {name: tmp_path / f"{name}.csv" for name in PARTIES}
    homes = homes_in(tmp_path)
    with LocalCluster(kits, tables) as cluster:
        with ul.Federation.connect(kits[ACTIVE], resume=True) as federation:
            federation.train()
            assert federation.client.sessions == 1
        pd.DataFrame({"id": NEW}).to_csv(tmp_path / "new.csv", index=False)
        with ul.Federation.connect(kits[ACTIVE]) as federation:
            federation.evaluate()
            assert federation.client.sessions == 0
            predictions = federation.predict(tables={ACTIVE: tmp_path / "new.csv"})
            assert federation.client.sessions == 1
        assert 10 < len(predictions.ids) <= len(NEW)
        cluster.stop()
        before = {name: files_of(kits[name]) for name in PASSIVE}
        run = ("--federation", kits[ACTIVE])
        command("forget", *run, "--label", LABELS[1])
        command("audit", *run)
        command("commit", *run, "--force")
        with ul.Federation.connect(kits[ACTIVE]) as federation:
            person = str(federation.holdings.ids[0])
        command("forget", *run, "--id", person)
        command("commit", *run)
        command("purge", *run)
        command("certificate", *run)
        home = homes[ACTIVE].parent
        command("verify", home / "certificate.json", "--run", home, "--replay", home)
        command("status", *run)
        assert {name: files_of(kits[name]) for name in PASSIVE} == before

        local = ul.Federation.create(together(tmp_path), tmp_path / "local")
        local.train()
        local.forget([LABELS[1]], settings=SETTINGS).commit(force=True)
        local.forget(ids=[person], settings=SETTINGS).commit(force=True)
        there, here = (weights({ACTIVE: home}) for home in (homes[ACTIVE], local.folder / ACTIVE))
        assert there[ACTIVE].keys() == here[ACTIVE].keys()
        assert all(torch.equal(there[ACTIVE][name], value) for name, value in here[ACTIVE].items())


def test_a_party_killed_while_bottoms_are_made_changes_no_weight(tmp_path: Path) -> None:
    contrast = "{objective: contrast, epochs: 12, batch: 150}"
    train = "{epochs: 2, batch: 128, lr: 0.1}"
    kits = set_up(
        tmp_path, "tuned", label_free=contrast, train=train, port=free_port(), timeout=5.0
    )
    tables, homes = {name: tmp_path / f"{name}.csv" for name in PARTIES}, homes_in(tmp_path)
    kept = homes[ACTIVE] / "label-free"
    with LocalCluster(kits, tables) as cluster:

        def kill() -> None:
            while not any(kept.glob("versions/00000[4-9].json")):
                time.sleep(0.01)
            os.kill(cluster.processes["shop"].pid, signal.SIGKILL)
            cluster.processes["shop"].wait()
            cluster.start("shop")

        with ul.Federation.connect(kits[ACTIVE], resume=True) as federation:
            killer = threading.Thread(target=kill, daemon=True)
            killer.start()
            federation.train()
            killer.join()
            assert len(federation.losses) >= 1
            federation.forget([LABELS[1]], settings=SETTINGS)
            federation.commit(force=True)
            federation.purge()
    local = ul.Federation.create(together(tmp_path), tmp_path / "local")
    local.train()
    local.forget([LABELS[1]], settings=SETTINGS).commit(force=True)
    expected = {name: local.folder / name for name in PARTIES}
    for name, tensors in weights(expected).items():
        there = weights(homes)[name]
        assert there.keys() == tensors.keys()
        assert all(torch.equal(there[key], value) for key, value in tensors.items()), name
    for name in PASSIVE:  # a purge leaves what was made without labels
        there = base_of(homes[name])
        assert all(torch.equal(there[k], v) for k, v in base_of(expected[name]).items())
