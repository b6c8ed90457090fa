"""Grids of voxels, as six depth views along their axes.

Along each of the three axes a grid is looked at from its low end and from its high end. A pixel is

    255 (1 - h / D)     where h voxels are empty before the first full one, of D in the line
    0                   where all are empty

so nearer is brighter. The views come in the order axis 0 low, axis 0 high, axis 1 low, and so on;
rows and columns of each are the two other axes in their order, the same for both ends.
"""

from __future__ import annotations

import math

import numpy as np

from unlabel.data.dataset import Array
from unlabel.errors import DataError

#: Grids that are unpacked at a time, to keep the memory of millions of voxels small.
CHUNK = 256


def depth_views(grids: Array) -> Array:
    """Return [N, 6, D, D] uint8 of grids [N, D, D, D], in which any number but 0 is full.

    >>> grid = np.zeros((1, 3, 3, 3), dtype=bool)
    >>> grid[0, 1, 0, 2] = True
    >>> depth_views(grid)[0, :, :, 2].max(axis=1)
    array([170, 170, 255,  85,   0,   0], dtype=uint8)
    """
    side = grids.shape[1]
    full = grids != 0
    views = []
    for axis in (1, 2, 3):
        for seen in (full, np.flip(full, axis)):
            light = np.rint(255 * (1 - seen.argmax(axis) / side))
            views.append(np.where(seen.any(axis), light, 0).astype(np.uint8))
    return np.stack(views, axis=1)


def views_of_voxels(voxels: Array, side: Array | None, where: str) -> Array:
    """Return the depth views of grids [N, D, D, D], or of packed bits [N, ceil(D^3 / 8)].

    side   D, where the bits are packed; None where they are not
    where  what the array is called in an error
    """
    whole = voxels.ndim == 4 and len(set(voxels.shape[1:])) == 1
    if side is None and not (whole and voxels.dtype.kind in "bu"):
        raise DataError(
            f"{where}: expected grids [N, D, D, D] of bool or uint8, or bits packed by "
            f"numpy.packbits with 'side' to say what D is, but got {voxels.dtype} of shape "
            f"{list(voxels.shape)}."
        )
    if len(voxels) == 0 or 0 in voxels.shape:
        raise DataError(f"{where} is empty, of shape {list(voxels.shape)}: give it rows.")
    if side is not None and not (side.ndim == 0 and side.dtype.kind in "iu" and 2 <= side <= 1024):
        raise DataError(
            f"{where}: expected 'side' to be a number from 2 to 1024 but got {str(side)[:40]}."
        )
    length = 0 if side is None else int(side)
    width = math.ceil(length**3 / 8)
    if length and (voxels.dtype != np.uint8 or voxels.shape[1:] != (width,)):
        raise DataError(
            f"{where}: expected uint8 of shape [N, {width}], the packed bits of grids with a side "
            f"of {length}, but got {voxels.dtype} of shape {list(voxels.shape)}."
        )
    views = []
    for start in range(0, len(voxels), CHUNK):
        grids = voxels[start : start + CHUNK]
        if length:
            bits = np.unpackbits(grids, axis=1, count=length**3)
            grids = bits.reshape(-1, length, length, length)
        views.append(depth_views(grids))
    return np.concatenate(views)
