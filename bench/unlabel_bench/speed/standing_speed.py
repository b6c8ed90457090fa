"""How long `status` and `rollback` take on large tables, beside opening the run with its tables."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unlabel.config import ForgetSettings, expect
from unlabel.errors import UnlabelError
from unlabel.federation import Federation
from unlabel_bench import markdown
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.speed.audit_speed import made_table

#: What a process runs, by verb and way: the folder of the run is its argument.
PROGRAMS = {
    ("status", "tables"): "Federation.open(run, recovering=True, resume=True).status()",
    ("status", "alone"): "Federation.status_of(run)",
    ("rollback", "tables"): "Federation.open(run).rollback()",
    ("rollback", "alone"): "Federation.rollback_of(run)",
    ("neither", "start"): "",
}


@dataclass(frozen=True)
class StandingSpeedSettings:
    """Settings of the bench.

    rows     of the tables
    columns  of both parties together
    repeats  of each verb each way, in turns
    seed     of the table and the training
    run      folder of the run, which is made where there is none; a temporary one if empty
    page     Markdown file to write the table into
    """

    rows: int = 1_000_000
    columns: int = 10
    repeats: int = 3
    seed: int = 0
    run: str = ""
    page: str = ""

    def __post_init__(self) -> None:
        expect("rows", self.rows, self.rows >= 100, "at least 100")
        fits = self.columns >= 2 and self.columns % 2 == 0
        expect("columns", self.columns, fits, "an even number, at least 2")
        expect("repeats", self.repeats, self.repeats >= 1, "at least 1")


def measure(settings: StandingSpeedSettings, say: Say) -> Result:
    """Time each verb with and without tables, in turns, each time in a process of its own."""
    seconds: dict[str, list[float]] = {f"{verb} {way}": [] for verb, way in PROGRAMS}
    with tempfile.TemporaryDirectory() as place:
        folder, work = Path(settings.run or f"{place}/run"), Path(place) / "work"
        if not folder.exists():
            say(f"{settings.rows:,} rows: training")
            _train(settings, folder)
        load = os.getloadavg()[0]
        for number in range(settings.repeats):
            say(f"turn {number + 1} of {settings.repeats}")
            for (verb, way), act in PROGRAMS.items():
                shutil.copytree(folder, work)
                seconds[f"{verb} {way}"].append(_timed(act, work))
                shutil.rmtree(work)
    return {"seconds": seconds, "load": load}


def _train(settings: StandingSpeedSettings, folder: Path) -> None:
    """Train a run of one epoch, and stage a hidden request in it."""
    federation = Federation.from_frames(
        made_table(settings.rows, settings.seed, settings.columns // 2),
        label="kind",
        folder=folder,
        epochs=1,
        batch=min(1024, settings.rows // 4),
        seed=settings.seed,
    )
    federation.train()
    federation.forget(["kind 2"], settings=ForgetSettings(measure_drift=False))


def _timed(act: str, run: Path) -> float:
    program = f"import sys; from unlabel import Federation; run = sys.argv[1]; {act}"
    began = time.perf_counter()
    command = [sys.executable, "-c", program, str(run)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - began
    if done.returncode:
        raise UnlabelError(f"'{act}' failed: {done.stderr[-2000:]}")
    return seconds


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return medians and their ratio as rows for people."""
    middle = {name: statistics.median(times) for name, times in result["seconds"].items()}
    lines = [["verb", "with tables, s", "without, s", "ratio", "ratio beyond the start"]]
    start = middle["neither start"]
    for verb in ("status", "rollback"):
        full, alone = middle[f"{verb} tables"], middle[f"{verb} alone"]
        beyond = (full - start) / max(alone - start, 1e-9)
        lines.append([verb, f"{full:.1f}", f"{alone:.1f}", f"{full / alone:.1f}", f"{beyond:.1f}"])
    return lines


def page(result: Result) -> str:
    """Return the table with what was measured."""
    settings, start = result["settings"], statistics.median(result["seconds"]["neither start"])
    return markdown.page(
        "# `status` and `rollback` of large tables",
        f"Medians of {settings['repeats']} processes each, in turns, on copies of one run in a "
        f"folder: a table of two parties with {settings['columns']} columns and "
        f"{settings['rows']:,} rows, trained for an epoch, with a label forgotten by `hidden` and "
        f"staged. With tables is `Federation.open`, as every other verb opens a run. Of each time "
        f"{start:.1f} s are the start of Python and its libraries, which the last column leaves "
        f"out. Load before: {result['load']:.1f} on {os.cpu_count()} cores; only ratios carry "
        f"further.",
        markdown.table(table(result)),
    )


BENCHES.add(
    "standing-speed",
    Bench(
        "seconds of status and rollback of a large run, with and without its tables",
        StandingSpeedSettings,
        measure,
        table,
        page,
    ),
)
