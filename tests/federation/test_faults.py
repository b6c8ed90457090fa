"""Processes of a federation that are killed: it notices, returns, and ends in the same weights."""

from __future__ import annotations

from typing import Any

import pytest
from stress.faults import KINDS, FaultSettings, table
from stress.faults import measure as run

from unlabel.errors import SettingsError

#: A seed whose ten kills hit every kind of process and every verb.
SEED = 9


def test_a_party_that_is_killed_while_all_train_changes_no_weight() -> None:
    found = run(FaultSettings(kills=1, epochs=5, kinds=("party",), until="train"), lambda _: None)
    (kill,) = found["kills"]
    assert (kill["verb"], kill["kind"]) == ("train", "party")
    assert found["losses"] == 1
    assert kill["recovered"] is not None
    assert found["wrong"] == []


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"until": "audit"}, "`until`"),
        ({"kinds": ("editor",)}, "editor"),
    ],
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        run(FaultSettings(**wrong), lambda _: None)


@pytest.mark.long
def test_ten_kills_change_nothing_but_the_time_it_takes() -> None:
    settings = FaultSettings(kills=10, seed=SEED, epochs=8, timeout=5.0)
    said: list[str] = []
    found = run(settings, said.append)
    kills = found["kills"]
    assert len(kills) == 10
    assert {kill["verb"] for kill in kills} == {"train", "forget", "commit", "purge"}
    assert {kill["kind"] for kill in kills} == set(KINDS["direct"])
    # Weights of every party, to the last bit, and one version for all.
    assert found["wrong"] == []
    # A loss is noticed within a call; one that comes between two commands is met by the next.
    assert found["losses"] >= 4
    assert found["noticed_most"] <= settings.timeout + 3.0
    assert found["recovered_most"] <= 60.0
    assert len(table(found)) == len(KINDS["direct"]) + 2
