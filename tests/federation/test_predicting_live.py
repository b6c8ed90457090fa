"""Predictions while a party is really down: processes, mutual TLS, and a party that was ended."""

from __future__ import annotations

import contextlib
import signal
import socket
import time
from pathlib import Path

import pytest
from federation.small_houses import PARTIES, person, write_tables

from unlabel import Federation
from unlabel.data import ACTIVE
from unlabel.operate import courier
from unlabel.operate.neighbours import Neighbours, free_port
from unlabel.operate.provision import provision


def wait_for(port: int) -> None:
    """Wait until the engine's server listens."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("localhost", port), 1):
            return
        time.sleep(0.2)


@pytest.mark.long
def test_new_people_are_predicted_without_a_party_that_was_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The engine lists an ended party for a while, so a job with it is tried first.
    monkeypatch.setattr(courier, "JOB_STARTS", 25.0)
    monkeypatch.setattr(courier, "SHORT_PATIENCE", 5.0)
    port = free_port()
    file = tmp_path / "federation.yaml"
    file.write_text(
        f"name: down\n"
        f"server: {{host: localhost, port: {port}}}\n"
        f"active: {{label: animal}}\n"
        f"passive: [{{name: shop}}, {{name: loan}}]\n"
        f"model: {{bottom: mlp}}\n"
        f"train: {{epochs: 1, batch: 32}}\n"
        f"predict: {{missing: without}}\n",
        encoding="utf-8",
    )
    made = provision(file, tmp_path / "kits")
    new = tmp_path / "new.csv"
    new.write_text("\n".join(["id", *map(person, range(30)), "stranger"]) + "\n", encoding="utf-8")
    kits = {name: made[name] for name in PARTIES}
    with Neighbours(kits, write_tables(tmp_path)) as neighbours:
        wait_for(port)
        with Federation.connect(kits[ACTIVE], resume=True) as federation:
            federation.with_recovery(federation.train)
        loan = neighbours.processes["loan"]
        loan.send_signal(signal.SIGTERM)
        loan.wait(timeout=30)
        with Federation.connect(kits[ACTIVE], fewer=True) as federation:
            found = federation.with_recovery(lambda: federation.predict(tables={ACTIVE: new}))
    assert found.without == ("loan",)
    assert 1 <= found.unknown < 10
    assert len(found.ids) == 31 - found.unknown
    assert "stranger" not in found.ids.tolist()
