"""A user's own dataset in an `.npz` file.

    x_train, y_train, x_test, y_test   or only the first two, or just x, y
    classes          the name of each label, strings (optional)
    test_in_train    the test rows that stand in the training part too, as a mask or as row
                     numbers: they are left out; an empty list says there are none (optional)

Features are [N, D] for a table, [N, H, W] for grey images, [N, H, W, C] or [N, C, H, W] with
1 or 3 channels for images, and [N, V, H, W] for views. Images and views are uint8.

In place of x, x_train and x_test there may be voxels, voxels_train and voxels_test, which become
six depth views (see `voxels`); `side` then says that their bits are packed, and the grids' side.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from unlabel.data.dataset import Array, Dataset, Layout
from unlabel.data.duplicates import note_repeats
from unlabel.data.voxels import views_of_voxels
from unlabel.errors import DataError

KEYS = ("x_train", "y_train", "x_test", "y_test", "x", "y", "classes", "test_in_train")
VOXELS = ("voxels", "voxels_train", "voxels_test", "side")
CHANNELS = (1, 3)


def load_npz(path: Path, views: bool = False) -> Dataset:
    """Load the file as a dataset; with `views`, [N, V, H, W] is V grey views of an object."""
    where = f"File '{path}'"
    held = read_arrays(path, KEYS + VOXELS)
    views = _draw_voxels(held, where) or views
    x, y, rows = _joined(held, where)
    features, layout = _features(x, views, where)
    numbers, labels = _labels(y, held.get("classes"), where)
    dataset = Dataset(path.stem, features, numbers, labels, layout=layout, test=rows)
    # In a table two people may well be alike, and who marked the test rows has looked already.
    if layout == "table" or "test_in_train" in held:
        return dataset
    return note_repeats(dataset, "mark them in 'test_in_train' to leave them out")


def load_rows(path: Path, views: bool = False) -> tuple[Array, Layout] | None:
    """Read `x` alone, of rows whose labels nobody knows yet; None where there is no `x`."""
    where = f"File '{path}'"
    held = read_arrays(path, ("x", "voxels", "side"))
    views = _draw_voxels(held, where) or views
    x = held.get("x")
    if x is None:
        return None
    if x.size == 0:
        raise DataError(f"{where}: 'x' is empty, of shape {list(x.shape)}: give it rows.")
    return _features(x, views, where)


def _draw_voxels(held: dict[str, Array], where: str) -> bool:
    """Put views in the place of voxels; return whether there were any."""
    side = held.pop("side", None)
    grids = [key for key in VOXELS if key in held]
    for key in grids:
        name = key.replace("voxels", "x")
        if name in held:
            raise DataError(f"{where} has both '{key}' and '{name}': leave one of them out.")
        held[name] = views_of_voxels(held.pop(key), side, f"{where}: '{key}'")
    return bool(grids)


def read_arrays(path: Path, wanted: Iterable[str]) -> dict[str, Array]:
    """Read those of the `wanted` arrays that the file has; objects are never unpickled."""
    if not path.is_file():
        raise DataError(f"File '{path}' does not exist: check the path of the .npz file.")
    try:
        # Opened here, because np.load leaves open what it cannot make sense of.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            held = {key: file[key] for key in wanted if key in file.files}
        if not all(isinstance(array, np.ndarray) for array in held.values()):
            raise TypeError("a member that is no array comes back as its bytes")
    except Exception as error:  # a damaged archive fails in a dozen ways, from zlib to MemoryError
        raise DataError(
            f"File '{path}' is damaged or no .npz file of plain arrays: write it again with "
            f"numpy.savez, as arrays of numbers or strings. Python objects are never loaded."
        ) from error
    return held


def _joined(held: dict[str, Array], where: str) -> tuple[Array, Array, Array]:
    """Return features and labels, training rows first, and the numbers of the test rows."""
    suffix = "_train" if "x_train" in held or "y_train" in held else ""
    x, y = _pair(held, suffix, where)
    if "x_test" not in held and "y_test" not in held:
        if "test_in_train" in held:
            raise DataError(f"{where} has 'test_in_train' but no test part: leave one of them out.")
        return x, y, np.empty(0, dtype=np.int64)
    x_test, y_test = _pair(held, "_test", where)
    if x.shape[1:] != x_test.shape[1:]:
        shapes = f"{list(x.shape[1:])} and {list(x_test.shape[1:])}"
        raise DataError(f"{where}: expected rows of one shape in both parts but got {shapes}.")
    for train, test in ((x, x_test), (y, y_test)):
        if _is_text(train) != _is_text(test):
            kinds = f"{train.dtype} and {test.dtype}"
            raise DataError(f"{where}: expected one type in both parts but got {kinds}.")
    kept = _kept(held.get("test_in_train"), len(x_test), where)
    joined_y = np.concatenate([y, y_test[kept]])
    return np.concatenate([x, x_test[kept]]), joined_y, np.arange(len(y), len(joined_y))


def _pair(held: dict[str, Array], suffix: str, where: str) -> tuple[Array, Array]:
    """Return `x` and `y` of one part, with a label for each row."""
    missing = [key for key in (f"x{suffix}", f"y{suffix}") if key not in held]
    if missing:
        raise DataError(
            f"{where} has no '{missing[0]}': expected x_train and y_train, optionally x_test and "
            f"y_test, or just x and y, but found {', '.join(held) or 'none of them'}."
        )
    x, y = held[f"x{suffix}"], held[f"y{suffix}"]
    if y.ndim != 1 or x.ndim == 0 or len(x) != len(y):
        raise DataError(
            f"{where}: expected one label in 'y{suffix}' for each row of 'x{suffix}' but got "
            f"shapes {list(y.shape)} and {list(x.shape)}."
        )
    if x.size == 0:
        raise DataError(f"{where}: 'x{suffix}' is empty, of shape {list(x.shape)}: give it rows.")
    return x, y


def _kept(marked: Array | None, rows: int, where: str) -> Array:
    """Return a mask of the test rows that are not marked as standing in the training part."""
    kept = np.ones(rows, dtype=bool)
    if marked is None or marked.size == 0:
        return kept
    mask = marked.dtype.kind == "b" and marked.shape == (rows,)
    numbers = marked.dtype.kind in "iu" and marked.ndim == 1
    if not mask and not (numbers and marked.min() >= 0 and marked.max() < rows):
        raise DataError(
            f"{where}: expected 'test_in_train' to be a boolean mask over the {rows} test rows or "
            f"row numbers below {rows}, but got {marked.dtype} of shape {list(marked.shape)}"
            f"{' with numbers outside that range' if numbers else ''}."
        )
    kept[marked] = False
    if not kept.any():
        raise DataError(
            f"{where}: 'test_in_train' marks all {rows} test rows, so none is left to test on: "
            f"leave out the test part to have a share drawn."
        )
    return kept


def _features(x: Array, views: bool, where: str) -> tuple[Array, Layout]:
    if x.ndim == 2 and not views:
        return _table(x, where), "table"
    if x.ndim not in ((4,) if views else (3, 4)):
        expected = "[N, V, H, W]" if views else "[N, D], [N, H, W], [N, H, W, C] or [N, C, H, W]"
        raise DataError(f"{where}: expected {expected} but got shape {list(x.shape)}.")
    if x.dtype != np.uint8:
        raise DataError(f"{where}: expected pixels as uint8 numbers 0..255 but got {x.dtype}.")
    if views:
        return x, "views"
    if x.ndim == 3:
        return x[:, None], "image"
    if x.shape[3] in CHANNELS:
        return np.ascontiguousarray(x.transpose(0, 3, 1, 2)), "image"
    if x.shape[1] in CHANNELS:
        return x, "image"
    raise DataError(
        f"{where}: expected 1 or 3 channels, last or second, but got shape {list(x.shape)}: if "
        f"these are {x.shape[1]} views of an object, load them as views."
    )


def _table(x: Array, where: str) -> Array:
    if x.dtype.kind not in "biuf":
        raise DataError(f"{where}: expected a table of numbers but got {x.dtype}: encode it first.")
    with np.errstate(over="ignore"):  # a number too large for float32 is reported below
        table = x.astype(np.float32)
    bad = np.argwhere(~np.isfinite(table))
    if len(bad):
        row, column = (int(i) for i in bad[0])
        raise DataError(
            f"{where}: expected finite numbers but {len(bad)} are missing, infinite or too large, "
            f"the first in row {row}, column {column}: fill or drop them."
        )
    return table


def _labels(y: Array, classes: Array | None, where: str) -> tuple[Array, tuple[str, ...]]:
    """Number the labels 0 .. C-1 and name each."""
    if not _is_text(y) and y.dtype.kind not in "biu":
        raise DataError(f"{where}: expected labels as integers or strings but got {y.dtype}.")
    values, numbers = np.unique(y, return_inverse=True)
    if len(values) < 2:
        raise DataError(f"{where} has a single label; a classifier needs at least two.")
    if classes is None:
        return numbers.astype(np.int64), tuple(str(value) for value in values)
    names = classes.tolist()
    if not _is_text(classes) or classes.ndim != 1 or len(set(names)) != len(names):
        raise DataError(f"{where}: expected 'classes' to be a list of different strings.")
    known = set(names) if _is_text(y) else set(range(len(names)))
    strange = [value for value in values.tolist() if value not in known]
    if strange:
        raise DataError(
            f"{where}: label '{strange[0]}' is none of the {len(names)} in 'classes': labels must "
            f"be their names or 0..{len(names) - 1}."
        )
    codes = [names.index(value) if _is_text(y) else value for value in values.tolist()]
    return np.array(codes, dtype=np.int64)[numbers], tuple(names)


def _is_text(array: Array) -> bool:
    return array.dtype.kind == "U"
