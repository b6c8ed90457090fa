"""The bench of an audit's time and memory, on a table of a few rows."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from unlabel_bench.speed.audit_speed import AuditSpeedSettings, made_table, measure, page, table
from unlabel_bench.speed.audited import PHASES, Clock

from unlabel.errors import SettingsError


def test_an_audit_is_timed_in_a_process_of_its_own_phase_by_phase() -> None:
    settings = AuditSpeedSettings(rows=(300,))
    result = measure(settings, lambda _: None)
    (audit,) = result["audits"]
    assert audit["rows"] == 300
    assert list(audit["phases"]) == list(PHASES)
    assert all(seconds > 0 for seconds in audit["phases"].values())
    assert sum(audit["phases"].values()) <= audit["seconds"]
    assert 10**8 < audit["peak_bytes"] < 10**10
    assert table(result)[1][0] == "300"
    assert "under 60 s reached" in page({**result, "settings": asdict(settings)})


def test_time_belongs_to_the_phase_of_the_last_note(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter((0.0, 1.0, 3.0, 6.0, 10.0))
    monkeypatch.setattr("time.perf_counter", lambda: next(seconds))
    clock = Clock()
    for note in ("reading the data", "fitting 7 tops anew", "echo of mask"):
        clock.watch(0, 1, note)
    clock.enter("write")
    found = {phase: clock.seconds[phase] for phase in ("start", "open", "tops", "measures")}
    assert found == {"start": 1.0, "open": 2.0, "tops": 3.0, "measures": 4.0}
    assert clock.longest == 4.0


def test_its_table_is_the_same_every_time_and_too_few_rows_are_refused() -> None:
    first, second = made_table(200, 0), made_table(200, 0)
    assert (first["bank"]["x"] == second["bank"]["x"]).all()
    assert len(set(first["bank"]["kind"])) == 6
    with pytest.raises(SettingsError):
        AuditSpeedSettings(rows=(50,))
