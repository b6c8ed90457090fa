"""Predictions are served between organisations: commands have their turn, who is down is named."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from federation.test_predicting_live import wait_for
from serve.served import Client, Reply, serving
from small_parties import animals, person, provisioned, write_tables

from unlabel import Federation
from unlabel.data import ACTIVE
from unlabel.forget import ForgetSettings
from unlabel.forget.methods.renormalise import Renormalise
from unlabel.remote import client
from unlabel.remote.local_cluster import LocalCluster, free_port

IDS = [person(number) for number in range(40)]


def until(client: Client, wanted: Callable[[Reply], bool]) -> Reply:
    """Ask until an answer is as wanted."""
    deadline = time.monotonic() + 120
    while True:
        reply = client.ask({"ids": IDS})
        if wanted(reply):
            return reply
        assert time.monotonic() < deadline, reply
        time.sleep(0.05)


@pytest.mark.parametrize("kind", ["supervised", pytest.param("blind", marks=pytest.mark.long)])
def test_answers_pause_for_commands_and_are_of_the_decided_version(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "SHORT_PATIENCE", 3.0)
    port = free_port()
    train = "epochs: 1, batch: 32" if kind == "supervised" else "test: 0.2"
    text = animals(train=train, port=port, more=f"bottoms: {kind}\n")
    kits = provisioned(tmp_path, text, seed=0)
    kit = kits[ACTIVE]
    method = Renormalise(steps=1) if kind == "supervised" else None
    with LocalCluster(kits, write_tables(tmp_path)) as cluster:
        wait_for(port)
        with Federation.connect(kit, resume=True) as federation:
            federation.train()
            label = federation.labels[0]
        replies: list[Reply] = []
        with serving(Federation.connect(kit, recovering=True)) as served:
            before = until(served, lambda reply: reply.status == 200)
            assert label in before.body["labels"]
            done = threading.Event()

            def hammer() -> None:
                while not done.is_set():
                    replies.append(served.ask({"ids": IDS}))

            clients = threading.Thread(target=hammer)
            clients.start()
            try:
                with Federation.connect(kit) as federation:
                    federation.forget([label], settings=ForgetSettings(method=method))
                    federation.commit(force=True)
                    federation.purge()
                    newest = federation.version
            finally:
                done.set()
                clients.join()
            after = until(served, lambda reply: reply.status == 200)
            assert (after.body["version"], label in after.body["labels"]) == (newest, False)
            if kind == "supervised":
                cluster.processes["loan"].send_signal(signal.SIGTERM)
                cluster.processes["loan"].wait(timeout=60)
                down = until(served, lambda reply: reply.status != 200)
                assert (down.status, down.code) == (503, "party-lost")
                assert "loan" in down.body["error"]["message"]
        versions = [reply.body["version"] for reply in replies if reply.status == 200]
        assert versions == sorted(versions)
        paused = {reply.code for reply in replies if reply.status != 200}
        assert paused <= {"in-use", "deciding", "interrupted"}
        assert kind == "blind" or "in-use" in paused
