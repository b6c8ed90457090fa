"""No label and no id gets into a log, whatever is forgotten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_parties import LABELS, animals, local_parties, provisioned, write_tables

from unlabel import Federation
from unlabel.data import ACTIVE
from unlabel.errors import UnlabelError
from unlabel.forget import ForgetSettings
from unlabel.remote.json_log import logging_to
from unlabel.wire import Refused, Restore


def test_no_label_and_no_id_is_in_the_logs_of_a_whole_run(tmp_path: Path) -> None:
    tables = write_tables(tmp_path)
    kits = provisioned(tmp_path, animals(), seed=0)
    path = tmp_path / "party.log"
    openly = ForgetSettings(method="ascent", visibility="open")
    with logging_to(path, "json", "all"), local_parties(kits, tables) as parties:
        with Federation.connect(kits[ACTIVE], resume=True) as fed:
            fed.train()
            fed.forget(["quokka"], settings=openly)
            fed.rollback()
            fed.forget(ids=fed.loaded.ids[fed.holdings.rows.train[:3].numpy()].tolist())
            fed.commit(force=True)
            with pytest.raises(UnlabelError):
                fed.forget(["wallaby"], settings=openly)
            fed.purge()
        shop = parties.homes["shop"].party
        shop.serve(b"wombat-00001 quokka")  # what is malformed is not quoted
        assert isinstance(shop.handle(Restore(0, 99, "")), Refused)
    logs = [path, *(log for kit in kits.values() for log in (kit / "state/logs").glob("*.log*"))]
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert {"time", "level", "event", "message", "party"} <= lines[-1].keys()
    assert any(line.get("code") for line in lines)  # there was a refusal
    text = "".join(log.read_text() for log in logs)
    assert not [word for word in (*LABELS, "wallaby", "wombat") if word in text]
