"""COVID-19 Radiography: X-rays as grey pictures of 64x64, with a test part drawn by label."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np

from unlabel.data.dataset import Array
from unlabel.data.images import import_extra
from unlabel.errors import DataError, why
from unlabel.progress import Watch
from unlabel_bench.paper_data.split import count_repeats, draw_test, keys_of, write_arrays
from unlabel_bench.paper_data.tree import Tree
from unlabel_bench.sources.covid19_radiography import INSIDE, OFFICIAL

SIZE = 64
TEST_SHARE = 0.2


def convert(tree: Tree, out: Path, watch: Watch) -> dict[str, Any]:
    """Write covid19_64.npz."""
    names = [
        (name, label)
        for label, folder in enumerate(OFFICIAL.labels)
        for name in tree.names(f"data/{INSIDE}/{folder}/images", ".png")
    ]
    x = np.empty((len(names), SIZE, SIZE), dtype=np.uint8)
    y = np.array([label for _, label in names])
    modes: dict[str, int] = {}
    files = []
    for row, (name, data) in enumerate(tree.read(name for name, _ in names)):
        if data is None:
            raise DataError(f"The content of '{name}' is absent from '{tree.root}': get it whole.")
        x[row], mode = read_grey(data, SIZE, f"File '{name}'")
        modes[mode] = modes.get(mode, 0) + 1
        files.append(hashlib.sha256(data).digest())
        watch(row + 1, len(names), "X-rays")
    keys = keys_of(x)
    test = draw_test(keys, y, TEST_SHARE)
    written = write_arrays(out / f"covid19_{SIZE}.npz", x, y, test, OFFICIAL.labels)
    return {
        **written,
        "modes": modes,
        "duplicates": count_repeats(keys, y),
        "equal_files": count_repeats(files, y),
    }


def read_grey(data: bytes, size: int, where: str) -> tuple[Array, str]:
    """Return a PNG file as [size, size] uint8, a pixel the mean of what it covers, and its mode."""
    pillow = import_extra("PIL.Image", "images")
    try:
        with pillow.open(io.BytesIO(data), formats=("PNG",)) as image:
            square = image.convert("L").resize((size, size), pillow.Resampling.BOX)
            return np.asarray(square), image.mode
    except Exception as error:  # a damaged image fails in a dozen ways, as its decoder does
        raise DataError(f"{where} is not a whole image ({why(error)}): get it again.") from error
