"""How long an audit takes, and how much memory, by the number of rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unlabel.config import ForgetSettings, expect
from unlabel.data.dataset import Array
from unlabel.errors import UnlabelError
from unlabel.federation import Federation
from unlabel_bench import markdown
from unlabel_bench.registry import BENCHES, Bench, Result, Say
from unlabel_bench.speed.audited import PHASES

#: Seconds and bytes that an audit of 1,000,000 rows may take.
GOAL_SECONDS, GOAL_BYTES = 60.0, 2 * 10**9
#: Of the table: labels, columns of each of the two parties, how far apart labels lie.
LABELS, COLUMNS, APART = 6, 12, 0.6


@dataclass(frozen=True)
class AuditSpeedSettings:
    """Settings of the bench.

    rows   numbers of rows to measure
    batch  rows a step of the training, which is of one epoch: it is not what is measured, but tops
           are fitted anew with as many steps as it had, up to 10,000
    seed   of the table and the training
    page   Markdown file to write the table into
    """

    rows: tuple[int, ...] = (10_000, 100_000, 300_000, 1_000_000)
    batch: int = 64
    seed: int = 0
    page: str = ""

    def __post_init__(self) -> None:
        expect("rows", self.rows, min(self.rows, default=0) >= 100, "at least 100 each")


def measure(settings: AuditSpeedSettings, say: Say) -> Result:
    """Audit a forgotten label of each table, in a process of its own."""
    return {"audits": [_audit(settings, rows, say) for rows in settings.rows]}


def made_table(rows: int, seed: int, columns: int = COLUMNS) -> dict[str, dict[str, Array]]:
    """Return a table of two parties: x = centre of the label + noise, all normal.

    columns  of each
    """
    random = np.random.default_rng(seed)
    label = random.integers(0, LABELS, rows)
    centres = APART * random.normal(size=(LABELS, 2 * columns))
    x = (centres[label] + random.normal(size=(rows, 2 * columns))).astype(np.float32)
    ids = np.char.add("p", np.arange(rows).astype(str))
    parts = {"bank": x[:, :columns], "shop": x[:, columns:]}
    frames = {party: {"id": ids, "x": part} for party, part in parts.items()}
    frames["bank"]["kind"] = np.array([f"kind {n}" for n in range(LABELS)])[label]
    return frames


def _audit(settings: AuditSpeedSettings, rows: int, say: Say) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        say(f"{rows:,} rows: training")
        federation = Federation.from_frames(
            made_table(rows, settings.seed),
            label="kind",
            folder=folder,
            epochs=1,
            batch=settings.batch,
            seed=settings.seed,
        )
        federation.train()
        federation.forget(["kind 2"], settings=ForgetSettings(measure_drift=False))
        del federation
        say(f"{rows:,} rows: auditing")
        load, began = os.getloadavg()[0], time.perf_counter()
        command = [sys.executable, "-m", "unlabel_bench.speed.audited", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - began
    if done.returncode:
        raise UnlabelError(f"The audit of {rows:,} rows failed: {done.stderr[-2000:]}")
    reported = json.loads(done.stdout.splitlines()[-1])
    return {"rows": rows, "seconds": seconds, "load": load, **reported}


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return seconds and memory as rows for people."""
    lines = [["rows", "looked at", "seconds", "of a core", "longest silence", "GB", "load"]]
    for each in result["audits"]:
        figures = [f"{each[name]:.1f}" for name in ("seconds", "cpu", "longest")]
        memory, load = f"{each['peak_bytes'] / 1e9:.2f}", f"{each['load']:.1f}"
        seen = sum(each["seen"].values())
        lines.append([f"{each['rows']:,}", f"{seen:,}", *figures, memory, load])
    return lines


def _phases(result: dict[str, Any]) -> list[list[str]]:
    return [
        ["rows", *PHASES],
        *(
            [f"{each['rows']:,}", *(f"{each['phases'][phase]:.1f}" for phase in PHASES)]
            for each in result["audits"]
        ),
    ]


def page(result: Result) -> str:
    """Return the table, and whether the goals are reached."""
    largest = max(result["audits"], key=lambda each: int(each["rows"]))
    goals = {
        f"under {GOAL_SECONDS:g} s": largest["seconds"] < GOAL_SECONDS,
        f"under {GOAL_BYTES / 1e9:g} GB": largest["peak_bytes"] < GOAL_BYTES,
    }
    words = [f"{goal} {'reached' if held else '**missed**'}" for goal, held in goals.items()]
    return markdown.page(
        "# How long an audit takes",
        "Seconds of a process that opens a run and audits a label forgotten by `hidden`, without "
        "retrained models: a table of two parties with 12 columns each and 6 labels, mlp bottoms, "
        f"one epoch in batches of {result['settings']['batch']}. Phases: start (libraries), open "
        "(tables, ids, labels), look (embeddings before and after), tops (seven fitted anew), "
        "measures, pictures, attacks, write. The longest silence is the longest time without a "
        "report of progress once libraries are imported. Rows looked at are training and test rows "
        "of a sample of 100,000 rows at most. Of a core: seconds that the audit "
        "itself computed, over all cores. Load: processes that wanted a core before it began.",
        markdown.table(table(result)),
        "Seconds of each phase:",
        markdown.table(_phases(result)),
        f"Goals for {largest['rows']:,} rows on 2 cores: {', '.join(words)}. Seconds are those of "
        "one machine, with the load of others named; ratios between lines carry further.",
    )


BENCHES.add(
    "audit-speed",
    Bench(
        "seconds and memory of an audit by the number of rows",
        AuditSpeedSettings,
        measure,
        table,
        page,
    ),
)
