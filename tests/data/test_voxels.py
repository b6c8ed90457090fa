"""Grids of voxels as depth views."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from unlabel.data import load_dataset
from unlabel.data.npz import load_rows
from unlabel.data.voxels import CHUNK, depth_views
from unlabel.errors import DataError

Array = npt.NDArray[Any]
RNG = np.random.default_rng(0)


def save(folder: Path, **arrays: Any) -> Path:
    path = folder / "mine.npz"
    np.savez(path, **arrays)
    return path


def test_a_grid_of_three_was_worked_out_by_hand() -> None:
    grid = np.zeros((1, 3, 3, 3), dtype=np.uint8)
    grid[0, 0, 1, 2] = grid[0, 2, 1, 2] = grid[0, 1, 0, 0] = 1
    first, second, third = 255, 170, 85  # full at once, after one empty voxel, after two
    low_0, high_0, low_1, high_1, low_2, high_2 = depth_views(grid)[0].tolist()
    # Along axis 0, rows are axis 1 and columns axis 2; both ends of the pair are full.
    assert low_0 == [[second, 0, 0], [0, 0, first], [0, 0, 0]]
    assert high_0 == [[second, 0, 0], [0, 0, first], [0, 0, 0]]
    assert low_1 == [[0, 0, second], [first, 0, 0], [0, 0, second]]
    assert high_1 == [[0, 0, second], [third, 0, 0], [0, 0, second]]
    assert low_2 == [[0, third, 0], [first, 0, 0], [0, third, 0]]
    assert high_2 == [[0, first, 0], [third, 0, 0], [0, first, 0]]


def test_views_are_what_walking_along_every_line_finds() -> None:
    grids = RNG.random((4, 5, 5, 5)) < 0.15
    found = depth_views(grids)
    for number, grid in enumerate(grids):
        for axis in range(3):
            for end in (0, 1):
                for i, j in np.ndindex(5, 5):
                    line = np.moveaxis(grid, axis, 0)[:: -1 if end else 1, i, j].tolist()
                    seen = round(255 * (1 - line.index(True) / 5)) if any(line) else 0
                    assert found[number, 2 * axis + end, i, j] == seen


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_of_voxels_holds_six_views(tmp_path: Path, packed: bool) -> None:
    grids = RNG.random((CHUNK + 7, 3, 3, 3)) < 0.5
    held: Any = np.packbits(grids.reshape(len(grids), -1), axis=1) if packed else grids
    side = {"side": 3} if packed else {}
    y = np.arange(len(grids)) % 2
    cut = CHUNK + 2
    path = save(
        tmp_path,
        voxels_train=held[:cut],
        y_train=y[:cut],
        voxels_test=held[cut:],
        y_test=y[cut:],
        **side,
    )
    data = load_dataset(str(path))  # a file of voxels needs no word about views
    assert (data.layout, data.x.shape) == ("views", (CHUNK + 7, 6, 3, 3))
    assert data.x.dtype == np.uint8
    assert np.array_equal(data.x, depth_views(grids))
    assert data.test.tolist() == list(range(cut, CHUNK + 7))
    rows = load_rows(save(tmp_path, voxels=held[:5], **side))
    assert rows is not None
    assert rows[1] == "views"
    assert np.array_equal(rows[0], depth_views(grids[:5]))


FULL = np.ones((4, 3, 3, 3), dtype=bool)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"voxels": FULL[0]}, r"'voxels': .*\[3, 3, 3\]"),
        ({"voxels": FULL[:, :2]}, r"\[4, 2, 3, 3\]"),
        ({"voxels": FULL.astype(float)}, "float64"),
        ({"voxels": FULL[:0]}, r"\[0, 3, 3, 3\]"),
        ({"voxels": FULL, "x": FULL}, "'voxels' and 'x'"),
        ({"voxels": np.zeros((4, 3), np.uint8), "side": 3}, r"\[N, 4\]"),
        ({"voxels": FULL, "side": 3}, "side of 3, .* bool"),
        ({"voxels": np.zeros((4, 4), np.uint8), "side": 1.5}, "'side'"),
        ({"voxels": np.zeros((4, 4), np.uint8), "side": 9999}, "'side' .* 9999"),
        ({"voxels": np.zeros((4, 4), np.uint8), "side": [3]}, "'side'"),
    ],
)
def test_voxels_of_another_shape_are_refused(
    tmp_path: Path, arrays: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        load_dataset(str(save(tmp_path, y=[0, 1, 0, 1], **arrays)))
