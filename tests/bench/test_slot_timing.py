"""The bench of slots: times that differ are found out, times that do not are not."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from cli.command_line import one_thread
from forget.one_piece import federation
from unlabel_bench.privacy.slot_timing import (
    Seen,
    SlotTimingSettings,
    attacked,
    observe,
    page,
    table,
)
from unlabel_bench.registry import BENCHES

from unlabel.errors import SettingsError
from unlabel.forget import ForgetSettings

__all__ = ["one_thread"]  # a fixture for every test here


def seen(leak: float) -> Seen:
    """Return times of 400 slots in three intervals, the second of which is longer in real ones."""
    draw = np.random.default_rng(3)
    real = draw.permutation(np.arange(400) % 2 == 0)
    intervals = draw.normal(1.0, 0.1, (400, 3))
    intervals[real, 1] += leak
    names = ["answer to Describe", "Commit", "next slot"]
    return Seen(intervals, names, real, np.zeros(400, dtype=np.int64), intervals.max(1))


REFUSED = [{"slots": 39}, {"slots": 42}, {"pace": 0.0}, {"every": 0}, {"at_once": 0.0}]


def test_a_leak_is_found_and_no_leak_is_not() -> None:
    found = attacked(seen(0.2))
    assert found["first_half"]["1: until Commit"] > 0.85
    assert found["auc"]["low"] > 0.85
    assert all(found["others"][name]["low"] > 0.8 for name in list(found["others"])[:2])
    turned = attacked(seen(-0.2))  # what is shorter tells as much
    assert turned["auc"]["low"] > 0.85
    nothing = attacked(seen(0.0))
    assert nothing["auc"]["low"] < 0.5 < nothing["auc"]["high"]
    # Chosen on one half and judged on the other: the luck of the best of many is not reported.
    assert nothing["first_half"][nothing["best"]] > 0.5
    result = {"paces": [{"pace": 0.04, **nothing}, {"pace": 0.0, **found}]}
    assert [row[0] for row in table(result)[1:]] == ["at multiples of 40 ms", "at once"]
    text = page({**result, "settings": asdict(SlotTimingSettings())})
    assert "400 slots each way, 200 of them about a label" in text
    assert f"| {found['best']} |" in text


def test_parties_see_a_slot_and_when_the_next_begins(tmp_path: Path) -> None:
    fed = federation(parties=2, folder=tmp_path, epochs=30, lr=0.1)
    fed.train()
    fed.queue(["ash"])
    slot, moments = observe(fed, ForgetSettings(), pace=0.04, every=1.2)
    assert slot.kept
    # Two parties see 24 messages and answer them, then one of them the first of the next slot.
    assert len(moments) == 2 * 2 * 24 + 1
    assert moments[-1][0] == "next slot"
    # Both slots send their first message a pace after they began.
    assert moments[-1][1] - moments[0][1] > 1.15  # however slow the machine


@pytest.mark.parametrize("settings", REFUSED)
def test_settings_that_measure_nothing_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(SettingsError):
        SlotTimingSettings(**settings)  # type: ignore[arg-type]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:n_quantiles")  # so few slots
def test_slots_are_run_both_ways() -> None:
    paced, at_once = BENCHES.get("slot-timing").run(
        SlotTimingSettings(slots=40, pace=0.01), lambda _: None
    )["paces"]
    assert (paced["slots"], paced["real"]) == (40, 20)
    assert (paced["pace"], at_once["pace"], at_once["late"]["messages"]) == (0.01, 0.0, 0)
    assert paced["work"]["real"]["median"] >= 0.005
