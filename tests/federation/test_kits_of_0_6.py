"""A federation that unlabel 0.6.0 trained goes on in processes of its own, over mutual TLS."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from cli.command_line import unlabel
from compat.places import PRINTED, put

from unlabel.remote.local_cluster import LocalCluster

#: It stands in the agreement of all parties, and so cannot be another one.
PORT = 28617


@pytest.mark.long
def test_kits_of_0_6_start_and_forget_their_next_label(tmp_path: Path) -> None:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("localhost", PORT))
        except OSError:
            pytest.skip(f"port {PORT} is in use")
    folder = put("kits", tmp_path)
    if unlabel("federation", "show", folder / "shop", "--json").json["problem"] is not None:
        pytest.skip("the certificates of these kits ended in 2036")
    kits = {name: folder / name for name in ("active", "shop")}
    tables = {"active": tmp_path / "tables" / "bank.csv", "shop": tmp_path / "tables" / "shop.csv"}
    at_active = ("--federation", kits["active"], "--json")
    printed = PRINTED["federation"]
    with LocalCluster(kits, tables):
        found = unlabel("evaluate", *at_active).json
        assert found["forgotten_labels"] == ["silver"]
        assert found["per_label_accuracy"] == pytest.approx(
            printed["evaluate"]["per_label_accuracy"], abs=1e-6
        )
        gold = ("--label", "gold", "--any-public", "--commit")
        assert unlabel("forget", *gold, *at_active).json["committed"]
        status = unlabel("status", *at_active).json
    assert status["together"]
    assert status["forgotten_labels"] == ["gold", "silver"]
    for party, stood in printed["status"]["parties"].items():
        assert status["parties"][party]["versions"] == [*stood["versions"], stood["version"] + 1]
