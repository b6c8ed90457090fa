"""The bench of `status` and `rollback` with and without tables, on tables of a few rows."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
from unlabel_bench.speed.standing_speed import (
    PROGRAMS,
    StandingSpeedSettings,
    measure,
    page,
    table,
)

from unlabel import Federation
from unlabel.errors import SettingsError


@pytest.mark.long
def test_each_verb_is_timed_both_ways_on_a_copy_of_the_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    settings = StandingSpeedSettings(rows=600, columns=4, repeats=1, run=str(run))
    result = measure(settings, lambda _: None)
    assert list(result["seconds"]) == [f"{verb} {way}" for verb, way in PROGRAMS]
    assert all(len(times) == 1 and times[0] > 0 for times in result["seconds"].values())
    assert Federation.status_of(run).staged  # the rollbacks were of copies
    assert [row[0] for row in table(result)[1:]] == ["status", "rollback"]
    assert "600 rows" in page({**result, "settings": asdict(settings)})


def test_figures_are_medians_and_the_start_is_left_out_of_the_last_one() -> None:
    seconds = {
        "status tables": [9.0, 11.0, 10.0],
        "status alone": [2.0, 3.0, 2.0],
        "rollback tables": [13.0],
        "rollback alone": [4.0],
        "neither start": [1.0],
    }
    status, rollback = table({"seconds": seconds})[1:]
    assert status == ["status", "10.0", "2.0", "5.0", "9.0"]
    assert rollback == ["rollback", "13.0", "4.0", "3.2", "4.0"]


def test_tables_that_two_parties_cannot_share_are_refused() -> None:
    with pytest.raises(SettingsError, match="columns"):
        StandingSpeedSettings(columns=3)
