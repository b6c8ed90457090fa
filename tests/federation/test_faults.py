"""Processes of a federation that are killed: it notices, returns, and ends in the same weights."""

from __future__ import annotations

from unlabel.bench.faults import KINDS, FaultSettings, run, table

#: A seed whose ten kills hit every kind of process and every verb.
SEED = 9


def test_ten_kills_change_nothing_but_the_time_it_takes() -> None:
    settings = FaultSettings(kills=10, seed=SEED, epochs=8, timeout=5.0)
    said: list[str] = []
    found = run(settings, said.append)
    kills = found["kills"]
    assert len(kills) == 10
    assert {kill["verb"] for kill in kills} == {"train", "forget", "commit", "purge"}
    assert {kill["kind"] for kill in kills} == set(KINDS)
    # Weights of every party, to the last bit, and one version for all.
    assert found["wrong"] == []
    # A loss is noticed within a call; one that comes between two commands is met by the next.
    assert found["losses"] >= 4
    assert found["noticed_most"] <= settings.timeout + 3.0
    assert found["recovered_most"] <= 60.0
    assert len(table(found)) == len(KINDS) + 2
