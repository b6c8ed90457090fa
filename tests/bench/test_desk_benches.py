"""Small versions of the desk's benches, and that they see what must not be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cli.command_line import one_thread
from unlabel_bench.desk_client import DeskClient, train
from unlabel_bench.robustness import desk_kills
from unlabel_bench.robustness.desk_kills import DeskKillsSettings
from unlabel_bench.speed import desk_load
from unlabel_bench.speed.desk_load import FIRST, DeskLoadSettings

from unlabel.desk.office import Desk
from unlabel.desk.requests import About
from unlabel.errors import SettingsError

__all__ = ["one_thread"]  # a fixture for every test here


def test_nothing_is_lost_or_stale_where_desk_and_server_are_killed() -> None:
    result = desk_kills.measure(DeskKillsSettings(kills=3, gap=1.5, seed=3), lambda _: None)
    assert result["faults"] == []
    assert result["kills"] == sum(result["of"].values()) == 3
    assert result["requests"] >= 1
    assert result["predictions"]["answered"] > 20
    assert desk_kills.table(result)[-1] == ["faults", "0"]


def test_twenty_people_at_once_get_what_they_ask_for() -> None:
    settings = DeskLoadSettings(requests=500, first=10, people=20, pages=11)
    result = desk_load.measure(settings, lambda _: None)
    assert result["together"]["errors"] == result["first_page"]["errors"] == []
    assert result["together"]["pages"] == 20 * 11
    assert result["together"]["taken up"] == 20
    assert set(result["together"]["statuses"]) == {"200", "303"}
    assert desk_load.table(result)[-1][1] == "0"


def lines(tmp_path: Path, *some: dict[str, Any]) -> Path:
    log = tmp_path / "log"
    log.write_text("".join(json.dumps(each) + "\n" for each in some) + '{"cut off')
    return log


def answer(version: int, decided: int = 1, body: str = "a") -> dict[str, Any]:
    return {"status": 200, "version": version, "decided": decided, "body": [body]}


def test_a_stale_prediction_would_be_seen(tmp_path: Path) -> None:
    def faults(*some: dict[str, Any]) -> list[str]:
        return desk_kills._of_predictions(lines(tmp_path, *some))

    good = answer(1), {"status": 503, "decided": 2}, {"status": 0, "decided": 2}
    assert faults(*good, answer(2, 2, "b")) == []
    assert len(faults(*good, answer(1, 2))) == 1, "of an older version than was decided"
    assert len(faults(answer(2, 1), answer(1, 1))) == 1, "of an older one than was answered"
    assert len(faults(answer(1), answer(1, body="b"))) == 1, "two answers of one version"
    assert len(faults(answer(1), {"status": 500, "decided": 1})) == 1
    assert len(faults({"status": 503, "decided": 1})) == 1, "nothing was predicted at all"


def test_a_request_that_was_lost_or_done_twice_would_be_seen(tmp_path: Path) -> None:
    run = train(tmp_path / "run", 240, 0)
    desk = Desk.open(run.folder)
    who = str(run.holdings.ids[int(run.holdings.rows.train[0])])
    number = desk.requests.add(About((), (who,), "2026-11-02", "2026-12-02"), by="ada")
    desk.trail.add("received", number, "ada")
    desk.trail.add("committed", number, "ada")
    desk.trail.add("committed", number, "ada")
    folder = desk.place.files(number)
    folder.mkdir(parents=True)
    (folder / "certificate.json").write_text("{}")
    desk.close()
    client = DeskClient(1)
    caseworker = desk_kills._Caseworker(client, run.folder)
    caseworker.acknowledged = {number: who, number + 1: "D0002"}
    faults = desk_kills._of_the_run(run.folder, caseworker)
    for part in ("other requests", "1 requests made 0 commits", "committed 2 times", "certificate"):
        assert any(part in fault for fault in faults), part


def test_settings_that_measure_nothing_are_refused() -> None:
    for wrong in ({"kills": 0}, {"gap": 0.0}, {"rows": 10}):
        with pytest.raises(SettingsError):
            DeskKillsSettings(**wrong)
    for wrong in ({"requests": 1}, {"first": 1}, {"people": 0}, {"pages": 0}):
        with pytest.raises(SettingsError):
            DeskLoadSettings(**wrong)
    assert FIRST == 200
