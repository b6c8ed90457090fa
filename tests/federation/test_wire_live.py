"""`unlabel bench wire` over a real federation, in few calls."""

from __future__ import annotations

import json

import pytest
from unlabel_bench.speed.wire import WireSettings
from unlabel_bench.speed.wire import measure as run

from unlabel.remote.rules import ALLOWED


@pytest.mark.long
def test_ours_and_the_bare_call_are_timed_in_one_job_and_parties_answer_side_by_side() -> None:
    settings = WireSettings(
        sizes=(64,), parties=(1, 2), calls=6, block=3, think=300, data=(), seeds=1
    )
    found = run(settings, lambda _: None)
    (trip,) = found["round_trips"]
    assert (trip["parties"], trip["calls"]) == (2, 6)
    assert 65536 < trip["message_bytes"] < 66000
    assert trip["ratio"] == pytest.approx(trip["ours"]["median_ms"] / trip["bare"]["median_ms"])
    one, two = found["thinking"]
    assert one["median_ms"] >= 300
    assert two["median_ms"] < 600  # the slowest party, not the sum
    assert all(line["processor_ms"] > 0 for line in found["by_parties"])
    assert all(line["bare_ms"] > 0 for line in found["by_parties"])
    assert two["bare_ms"] is None
    json.dumps(found)


def test_no_kit_allows_the_classes_of_the_bench_by_itself() -> None:
    assert not any("bare" in name for names in ALLOWED.values() for name in names)
