"""What large tables cost: seconds and memory of every stage by the number of rows.

Each stage runs in a process of its own, one after the other, so that its peak of memory is its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unlabel.config import expect
from unlabel.errors import UnlabelError
from unlabel_bench import markdown
from unlabel_bench.provenance import place_of
from unlabel_bench.records import Records
from unlabel_bench.registry import BENCHES, Bench, Result, Say

#: Bytes that one party may hold.
GOAL = 8 * 2**30
#: Labels of the table, how far apart they lie, and rows that are made at a time.
LABELS, APART, PIECE = 6, 0.6, 100_000
#: Forms in which a table is read.
FORMS = ("parquet", "feather", "csv")


@dataclass(frozen=True)
class LargeTablesSettings:
    """Settings of the bench.

    rows     numbers of rows to measure
    columns  of both parties together, half of them each
    stages   to measure; none stands for all
    seed     of the table and the training
    folder   where tables are kept and found again; a temporary one if empty
    records  JSONL file of the figures; it is read first, and what is there is not repeated
    page     Markdown file to write the table into
    """

    rows: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    columns: int = 50
    stages: tuple[str, ...] = ()
    seed: int = 0
    folder: str = ""
    records: str = ""
    page: str = ""

    def __post_init__(self) -> None:
        expect("rows", self.rows, min(self.rows, default=0) >= 1000, "at least 1000 each")
        expect("columns", self.columns, self.columns >= 2, "at least 2")


#: The stages in their order, with what each is about: a table's file, or the form of the run.
STAGES = (
    *(("read", f"bank.{form}") for form in FORMS),
    ("match", "shop"),
    ("train", "run"),
    ("forget", ""),
    ("audit", ""),
    ("commit", ""),
    *(("network", verb) for verb in ("train", "forget", "audit", "commit")),
)


def measure(settings: LargeTablesSettings, say: Say) -> Result:
    """Measure every stage of every size that is not recorded yet."""
    recipe = f"{settings.columns} columns, seed {settings.seed}"
    records = Records(settings.records, recipe)
    lines = [line for rows in settings.rows for line in _size(settings, rows, records, say)]
    return {"records": lines, "goal": GOAL}


def make_tables(folder: Path, rows: int, columns: int, seed: int) -> None:
    """Write the tables of both parties, piece by piece: x = centre of the label + noise.

    Nine of ten people are known to both. The last column of each table has texts.
    """
    import pandas as pd
    import pyarrow as pa
    from pyarrow import feather, parquet

    random, half = np.random.default_rng(seed), columns // 2
    centres = APART * random.normal(size=(LABELS, columns))
    for number, start in enumerate(range(0, rows, PIECE)):
        places = np.arange(start, min(rows, start + PIECE))
        label = random.integers(0, LABELS, len(places))
        x = centres[label] + random.normal(size=(len(places), columns))
        tails = {"bank": (places, x[:, :half]), "shop": (places + rows // 10, x[:, half:])}
        for party, (ids, values) in tails.items():
            frame = pd.DataFrame(values, columns=[f"x{n}" for n in range(values.shape[1])])
            last = frame.columns[-1]
            frame[last] = np.array(["low", "middle", "high"])[np.digitize(frame[last], [-1, 1])]
            frame.insert(0, "id", [f"person-{n:09d}" for n in ids])
            if party == "bank":
                frame["kind"] = np.array([f"kind {n}" for n in range(LABELS)])[label]
            frame.to_csv(
                folder / f"{party}.csv",
                mode="w" if not number else "a",
                header=not number,
                index=False,
            )
            parquet.write_table(
                pa.Table.from_pandas(frame, preserve_index=False),
                folder / f"{party}-{number:04d}.part",
            )
    for party in ("bank", "shop"):
        parts = sorted(folder.glob(f"{party}-*.part"))
        whole = pa.concat_tables([parquet.read_table(part) for part in parts])
        parquet.write_table(whole, folder / f"{party}.parquet", row_group_size=PIECE)
        feather.write_feather(whole, folder / f"{party}.feather")
        for part in parts:
            part.unlink()
    (folder / "run.yaml").write_text(
        "active: {table: bank.parquet, label: kind}\n"
        "passive: [{name: shop, table: shop.parquet}]\n"
        "align: {method: plaintext}\n"
        "model: {bottom: mlp}\n"
        f"train: {{epochs: 1, batch: 256, seed: {seed}}}\n"
    )


def _size(
    settings: LargeTablesSettings, rows: int, records: Records, say: Say
) -> Iterator[dict[str, Any]]:
    stages = [each for each in STAGES if not settings.stages or each[0] in settings.stages]
    known = [records.find(rows=rows, stage=stage, about=about) for stage, about in stages]
    if all(line is not None for line in known):
        yield from (line for line in known if line is not None)
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(settings.folder or place) / f"{rows}-{settings.columns}-{settings.seed}"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder / "run", ignore_errors=True)
        if not (folder / "run.yaml").exists():
            say(f"{rows:,} rows: making tables")
            make_tables(folder, rows, settings.columns, settings.seed)
        for stage, about in stages:
            say(f"{rows:,} rows: {stage} {about}".rstrip())
            figures = _measured(stage, folder, about)
            where = place_of(settings, "cpu")
            yield records.add(rows=rows, stage=stage, about=about, **figures, where=where)


def _measured(stage: str, folder: Path, about: str) -> dict[str, Any]:
    load = os.getloadavg()[0]
    command = [sys.executable, "-m", "unlabel_bench.speed.large_stage", stage, str(folder), about]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnlabelError(f"Stage '{stage}' failed: {done.stderr[-2000:]}")
    return {**json.loads(done.stdout.splitlines()[-1]), "load": load}


def table(result: dict[str, Any]) -> list[list[str]]:
    """Return seconds, microseconds a further row and memory as rows for people.

    Microseconds are (c' - c) / (n' - n) of a core, with c seconds at n rows in the line before.
    """
    lines = [
        ["stage", "rows", "seconds of a core", "µs a further row", "GiB", "GiB of the partner"]
    ]
    before: dict[str, Any] = {}
    for each in sorted(result["records"], key=_place):
        partner = each.get("party_peak_bytes")
        slope = ""
        if before and _place(before)[0] == _place(each)[0]:
            slope = f"{1e6 * (each['cpu'] - before['cpu']) / (each['rows'] - before['rows']):.1f}"
        lines.append(
            [
                f"{each['stage']} {each['about']}".rstrip(),
                f"{each['rows']:,}",
                f"{each['cpu']:.1f}",
                slope,
                f"{each['peak_bytes'] / 2**30:.2f}",
                f"{partner / 2**30:.2f}" if partner else "",
            ]
        )
        before = each
    return lines


def _place(line: Mapping[str, Any]) -> tuple[int, int]:
    return STAGES.index((line["stage"], line["about"])), line["rows"]


def page(result: Result) -> str:
    """Return the table, and whether the goal is reached."""
    lines = result["records"]
    most = max(max(each["peak_bytes"], each.get("party_peak_bytes", 0)) for each in lines)
    reached = "reached" if most < GOAL else "**missed**"
    largest = max(each["rows"] for each in lines)
    known = {(each["stage"], each["about"]) for each in lines if each["rows"] == largest}
    missing = [" ".join(each).rstrip() for each in STAGES if each not in known]
    return markdown.page(
        "# Large tables",
        f"Two parties with {result['settings']['columns']} columns together, half of them each, "
        "one of them of texts; nine of ten people are known to both. Every stage runs in a "
        "process of its own: read (one party's table), match (private set intersection of two "
        "processes, over a local socket), train (tables read, matched in the clear, one epoch in "
        "batches of 256), forget (the run opened, one of six labels forgotten), audit (opened; a "
        "sample of 100,000 rows at most), commit (opened; committed and purged), network (the same "
        "verbs over the hub of a federation, the ids matched privately before the first; figures "
        "of the command's process, and of the partner's). Seconds are those "
        "that a process computed, its libraries imported before: with others on the machine the "
        "clock says more about them. Memory is the most that a process held, of which its "
        "libraries take 0.22 GiB. Of the partner: of the other process.",
        markdown.table(table(result)),
        f"Goal of {GOAL / 2**30:g} GiB a party: {reached}, {most / 2**30:.2f} GiB at most."
        + (f" Not recorded at {largest:,} rows: {', '.join(missing)}." if missing else ""),
        f"From {markdown.where(result)}.",
    )


BENCHES.add(
    "large-tables",
    Bench(
        "seconds and memory of each stage by the number of rows",
        LargeTablesSettings,
        measure,
        table,
        page,
    ),
)
