"""Predictions while a party is really down: processes, mutual TLS, and a party that was ended."""

from __future__ import annotations

import contextlib
import signal
import socket
import time
from pathlib import Path

import pytest
from small_parties import animals, person, provisioned, write_tables

from unlabel import Federation
from unlabel.data import ACTIVE
from unlabel.remote import client
from unlabel.remote.local_cluster import LocalCluster, free_port


def wait_for(port: int) -> None:
    """Wait until the hub listens."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("localhost", port), 1):
            return
        time.sleep(0.2)


@pytest.mark.long
def test_new_people_are_predicted_without_a_party_that_was_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "SHORT_PATIENCE", 5.0)
    port = free_port()
    more = "predict: {missing: without}\n"
    kits = provisioned(tmp_path, animals(train="epochs: 1, batch: 32", port=port, more=more))
    new = tmp_path / "new.csv"
    new.write_text("\n".join(["id", *map(person, range(30)), "stranger"]) + "\n", encoding="utf-8")
    with LocalCluster(kits, write_tables(tmp_path)) as cluster:
        wait_for(port)
        with Federation.connect(kits[ACTIVE], resume=True) as federation:
            federation.with_recovery(federation.train)
        loan = cluster.processes["loan"]
        loan.send_signal(signal.SIGTERM)
        loan.wait(timeout=30)
        with Federation.connect(kits[ACTIVE], fewer=True) as federation:
            found = federation.with_recovery(lambda: federation.predict(tables={ACTIVE: new}))
    assert found.without == ("loan",)
    assert 1 <= found.unknown < 10
    assert len(found.ids) == 31 - found.unknown
    assert "stranger" not in found.ids.tolist()
