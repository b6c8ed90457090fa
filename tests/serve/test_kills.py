"""The server and who decides are killed at random times while clients ask; see `kills.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from serve.conftest import MakeRun
from unlabel import Federation

PROGRAM = Path(__file__).parent / "kills.py"


@pytest.mark.parametrize(
    ("kind", "count"),
    [
        ("supervised", 2),
        pytest.param("blind", 60, marks=pytest.mark.long),
        pytest.param("tuned", 60, marks=pytest.mark.long),
        pytest.param("supervised", 80, marks=pytest.mark.long),
    ],
)
def test_no_answer_is_stale_whoever_is_killed(
    kind: str, count: int, a_run: MakeRun, tmp_path: Path
) -> None:
    staged, out = a_run(kind, staged=True), tmp_path / "out.json"
    words = [sys.executable, str(PROGRAM), str(staged), str(count), str(count), str(out)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60 + 30 * count)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(out.read_text())
    print({name: value for name, value in seen.items() if name != "bodies"})
    assert seen["faults"] == []
    assert seen["rounds"] == seen["server"] + seen["decider"] == count
    assert seen["server"] > 0
    assert seen["decider"] > 0
    assert seen["answers"] > 10 * count
    # Every answer of a version was the same; these are the versions, as who trained them has them.
    old, new = (seen["bodies"][str(version)] for version in sorted(map(int, seen["bodies"])))
    run = Federation.open(staged)
    assert old["version"] == run.version
    run.commit(force=True)
    assert new["version"] == run.version
    assert set(old["labels"]) - set(new["labels"]) == {"cedar"}
