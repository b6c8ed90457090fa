"""The desk of a federation between organisations: every step over the network, and who is there."""

from __future__ import annotations

import json
import time
from pathlib import Path

from desk.browsers import PASSWORD, browsing, quick_hasher
from federation.test_predicting_live import wait_for
from small_parties import animals, provisioned, write_tables

from unlabel import Federation, verify
from unlabel.data import ACTIVE
from unlabel.desk.accounts import Accounts
from unlabel.desk.office import Desk
from unlabel.remote.local_cluster import LocalCluster, free_port

STEPS = ("plan", "forget", "audit", "commit", "purge", "certify")


def test_a_class_is_forgotten_over_the_network_and_who_is_down_is_named(tmp_path: Path) -> None:
    port = free_port()
    kits = provisioned(tmp_path, animals(train="epochs: 2, batch: 32", port=port), seed=0)
    kit = kits[ACTIVE]
    with LocalCluster(kits, write_tables(tmp_path)) as cluster, browsing() as make:
        wait_for(port)
        with Federation.connect(kit, resume=True) as federation:
            federation.train()
            label = federation.labels[0]
        desk = Desk.open(kit=kit)
        desk.accounts = Accounts(desk.store, hasher=quick_hasher())
        desk.accounts.add("ada", "caseworker", PASSWORD)
        ada = make(desk, "ada")
        ada.receive(kind="labels", labels=[label])
        page = ada.at(1)
        assert page.state() == "planned", page.trouble
        page = ada.do(1, "start", choice="deep")
        assert page.state() == "audited", page.trouble
        page = ada.do(1, "decide", decision="commit", force="on", reason="a test")
        assert page.state() == "committed", page.trouble
        page = ada.do(1, "purge", sure="on")
        assert page.state() == "purged", page.trouble
        page = ada.do(1, "certify")
        assert page.state() == "certified", page.trouble
        parties = [name for name in kits if name != ACTIVE]
        assert sorted(desk.requests.get(1).fact("certificate")["signed"]) == sorted(kits)
        path = desk.place.files(1) / "certificate.json"
        assert verify(path, trust=kit / "agreement.yaml").holds
        page = ada.get("/federation")
        assert page.has("All parties agree")
        assert page.has(f"registered: .*{parties[0]}")
        assert page.has("<dt>agreement</dt>")
        lines = (kit / "state/logs/commands.log").read_text().splitlines()
        events = [each for each in map(json.loads, lines) if each.get("who") == "ada"]
        commands = [each["command"] for each in events if each["event"] == "command"]
        assert commands == [f"desk {verb}" for verb in STEPS]
        down = cluster.processes[parties[0]]
        down.terminate()
        down.wait()
        ada.post("/federation/look")
        while not (page := ada.get("/federation")).has(f"{parties[0]}.{{5,9}}is not connected"):
            assert page.has('id="progress"')
            time.sleep(0.1)
        began = time.monotonic()
        ada.post("/federation/cancel")
        while ada.get("/federation").has('id="progress"'):
            time.sleep(0.1)
        assert time.monotonic() - began < 20.0  # a party that is down is waited for much longer
        assert [entry.event for entry in desk.trail.page(2)] == ["stopped", "stop look"]
        desk.close()
