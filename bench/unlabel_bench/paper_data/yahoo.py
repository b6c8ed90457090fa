"""Yahoo! Answers from a sample of 5,000 rows: each text once, with a test part drawn by label."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import numpy as np

from unlabel.errors import DataError
from unlabel.files import write_atomically
from unlabel.progress import Watch
from unlabel_bench.paper_data.split import count_labels, count_repeats, draw_test
from unlabel_bench.paper_data.tree import Tree
from unlabel_bench.sources.yahoo_answers import CLASSES, join_fields

SAMPLE = "dataset/yahoo/test.csv"
TEST_SHARE = 0.2


def convert(tree: Tree, out: Path, watch: Watch) -> dict[str, Any]:
    """Write yahoo_train.csv.gz and yahoo_test.csv.gz with the columns label and text."""
    rows = read_rows(tree.read_whole(SAMPLE), f"File '{SAMPLE}'")
    repeats = count_repeats([text.encode() for _, text in rows], np.array([y for y, _ in rows]))
    labels_of: dict[str, set[int]] = {}
    for label, text in rows:
        labels_of.setdefault(text, set()).add(label)
    # What people filed under two topics has no label that a test could go by.
    kept = [(min(labels), text) for text, labels in labels_of.items() if len(labels) == 1]
    y = np.array([label for label, _ in kept])
    test = draw_test([text.encode() for _, text in kept], y, TEST_SHARE)
    sizes = {}
    for part, mask in (("train", ~test), ("test", test)):
        name = f"yahoo_{part}.csv.gz"
        sizes[name] = _write(out / name, [kept[row] for row in np.flatnonzero(mask)])
    watch(len(rows), len(rows), "texts")
    return {
        "files": sizes,
        "rows": len(rows),
        "train": int((~test).sum()),
        "test": int(test.sum()),
        "labels": count_labels(y, test, [str(label) for label in range(CLASSES)]),
        "duplicates": repeats,
        "of_two_labels": len(labels_of) - len(kept),
    }


def read_rows(data: bytes, where: str) -> list[tuple[int, str]]:
    """Return the label and the text of each line `label<TAB>text` that has a text."""
    rows = []
    for number, line in enumerate(data.decode("utf-8-sig").split("\n"), start=1):
        label, tab, text = line.rstrip("\r").partition("\t")
        if not line.strip():
            continue
        if not tab or not label.isdecimal() or int(label) >= CLASSES:
            raise DataError(
                f"{where}, line {number}: expected a label from 0 to {CLASSES - 1}, a tab and a "
                f"text but got '{line[:40]}'."
            )
        if joined := join_fields([text]):
            rows.append((int(label), joined))
    return rows


def _write(path: Path, rows: list[tuple[int, str]]) -> int:
    """Write a compressed CSV file that holds no time of writing; return its size."""
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["label", "text"])
    lines.writerows(rows)
    data = gzip.compress(text.getvalue().encode(), mtime=0)
    write_atomically(path, data)
    return len(data)
