"""ModelNet40 as two pictures of each mesh, from opposite sides; the official split.

The cameras are those of `unlabel_bench.rendering`, so that a mesh gives the pixels that the
dataset `modelnet40` with two views gives of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from unlabel.data.duplicates import find_repeats
from unlabel.errors import DataError
from unlabel.progress import Watch
from unlabel_bench.paper_data.split import count_repeats, keys_of, write_arrays
from unlabel_bench.paper_data.tree import Tree
from unlabel_bench.ply import parse_ply
from unlabel_bench.rendering import render_views
from unlabel_bench.sources.modelnet import FORTY

INSIDE = "ModelNet40"
SIZE, VIEWS = 32, 2
PARTS = ("train", "test")


def convert(tree: Tree, out: Path, watch: Watch) -> dict[str, Any]:
    """Write modelnet40_views32.npz."""
    names = tree.names(INSIDE, ".ply")
    pictures, labels, tested = [], [], []
    absent: list[str] = []
    refused: list[str] = []
    for done, (name, data) in enumerate(tree.read(names), start=1):
        watch(done, len(names), "meshes")
        label, part = name.split("/")[-3:-1]
        if label not in FORTY or part not in PARTS:
            raise DataError(f"Expected a file LABEL/train or LABEL/test but got '{name}'.")
        if data is None:
            absent.append(name)
            continue
        try:
            mesh = parse_ply(data, f"File '{name}'")
            pictures.append(render_views(mesh, VIEWS, SIZE, f"File '{name}'"))
        except DataError as error:
            refused.append(str(error))
            continue
        labels.append(FORTY.index(label))
        tested.append(part == "test")
    if not pictures:
        raise DataError(f"'{tree.root}' holds no mesh that can be drawn.")
    x, y, test = np.stack(pictures), np.array(labels), np.array(tested)
    repeats = find_repeats(x, y, np.flatnonzero(test))
    written = write_arrays(
        out / f"modelnet40_views{SIZE}.npz",
        *(x, y, test, FORTY),
        test_in_train=repeats.test_in_train[test],
    )
    return {
        **written,
        "listed": len(names),
        "absent": _by_folder(absent),
        "refused": refused,
        "duplicates": count_repeats(keys_of(x), y),
        "test_in_train": int(repeats.test_in_train.sum()),
    }


def _by_folder(names: list[str]) -> dict[str, int]:
    """Count files by label and part."""
    counts: dict[str, int] = {}
    for name in names:
        folder = "/".join(name.split("/")[-3:-1])
        counts[folder] = counts.get(folder, 0) + 1
    return counts
