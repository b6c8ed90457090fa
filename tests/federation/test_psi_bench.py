"""The bench of private set intersection in a tiny setting."""

from __future__ import annotations

import json

import pytest
from unlabel_bench.registry import BENCHES
from unlabel_bench.speed.psi import PsiSettings

from unlabel.align import psi
from unlabel.errors import SettingsError, TrainingError


def test_both_ways_are_timed_and_find_the_same() -> None:
    bench = BENCHES.get("psi")
    said: list[str] = []
    found = bench.run(PsiSettings(size=301, repeats=2), said.append)
    assert (found["size"], found["common"]) == (301, 151)
    assert len(found["ratios"]) == 2
    assert found["ratio"] > 0
    assert set(found["cpu_seconds"]) == {"cores", "plain"}
    assert found["bytes_sent"] == 3 * 301 * 33
    assert found["peak_memory_mib"] > 50
    assert "masking ids: 301 of 301" in said
    assert ["ids of each side", "301"] in bench.table(found)
    json.dumps(found)


def test_the_plain_library_can_be_left_out() -> None:
    bench = BENCHES.get("psi")
    found = bench.run(PsiSettings(size=10, plain=False), lambda _: None)
    assert found["ratio"] is None
    assert "ratio" not in [line[0] for line in bench.table(found)]


def test_a_wrong_intersection_is_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    right = psi.Receiver.common
    monkeypatch.setattr(psi.Receiver, "common", lambda *given: right(*given)[1:])
    with pytest.raises(TrainingError, match="Expected 5 common ids, found 4"):
        BENCHES.get("psi").run(PsiSettings(size=10), lambda _: None)


def test_settings_that_cannot_be_are_refused() -> None:
    with pytest.raises(SettingsError, match="`size`"):
        PsiSettings(size=1)
