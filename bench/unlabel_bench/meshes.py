"""Surfaces of objects in `.off` files, the text format of ModelNet.

    OFF                 the counts may stand on this line too, even glued to it: OFF490 518 0
    V F E               how many vertices, faces and edges; the edges are not looked at
    x y z               V lines; what follows on the line (colours, normals) is not looked at
    n a b c ...         F lines of n vertices by number, from 0; colours may follow

Blank lines and what follows a `#` do not count.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from unlabel.data.dataset import Array
from unlabel.data.folders import reading
from unlabel.errors import DataError

HEADER = re.compile(r"(?:ST)?C?N?OFF(?![A-Za-z])")
COUNT = re.compile(r"\d{1,12}")
AGAIN = "get the file again"

#: A line of the file and its number.
Line = tuple[int, str]


@dataclass(frozen=True)
class Mesh:
    """A surface of triangles.

    vertices  [V, 3] float64
    faces     [F, 3] int64, the vertices of each triangle by number
    """

    vertices: Array
    faces: Array


def read_off(path: Path) -> Mesh:
    """Read a file; where it is damaged, say in which line."""
    with reading(path):
        text = path.read_text(encoding="ascii", errors="replace")
    return parse_off(text, f"File '{path}'")


def parse_off(text: str, where: str) -> Mesh:
    """Read the text of a file that is called `where` in errors.

    >>> square = "OFF4 1 0\\n0 0 0\\n1 0 0\\n1 1 0\\n0 1 0\\n4 0 1 2 3\\n"
    >>> parse_off(square, "a square").faces.tolist()
    [[0, 1, 2], [0, 2, 3]]
    """
    lines = [
        (number, kept)
        for number, line in enumerate(text.split("\n"), start=1)
        if (kept := line.partition("#")[0].strip())
    ]
    header = HEADER.match(lines[0][1]) if lines else None
    if header is None:
        start = f"'{lines[0][1][:40]}' in line {lines[0][0]}" if lines else "nothing"
        raise DataError(f"{where}: expected it to begin with 'OFF' but got {start}: {AGAIN}.")
    rest = lines[0][1][header.end() :].strip()
    lines = [(lines[0][0], rest), *lines[1:]] if rest else lines[1:]
    vertices, faces = _counts(lines, where)
    lines = lines[1:]
    # Before memory is taken: a damaged count can be any number.
    if vertices + faces > len(lines):
        raise DataError(
            f"{where}: expected {vertices} vertices and {faces} faces, a line each, but the file "
            f"ends after {len(lines)} of these {vertices + faces} lines: {AGAIN}."
        )
    points = _points(lines[:vertices], where)
    return Mesh(points, _triangles(lines[vertices : vertices + faces], vertices, where))


def _counts(lines: Sequence[Line], where: str) -> tuple[int, int]:
    number, line = lines[0] if lines else (1, "")
    words = line.split()
    if len(words) not in (2, 3) or not all(COUNT.fullmatch(w) for w in words):
        raise DataError(
            f"{where}, line {number}: expected the numbers of vertices, faces and edges but got "
            f"'{line[:40]}': {AGAIN}."
        )
    vertices, faces = int(words[0]), int(words[1])
    if vertices < 3 or faces < 1:
        raise DataError(
            f"{where}, line {number}: expected at least 3 vertices and a face but got {vertices} "
            f"and {faces}: leave the file out."
        )
    return vertices, faces


def _points(lines: Sequence[Line], where: str) -> Array:
    plain = _numbers(lines, 3, np.float64)
    if plain is not None and np.isfinite(plain).all():
        return plain
    points = []
    for number, line in lines:
        try:
            point = [float(word) for word in line.split()[:3]]
        except ValueError:
            point = []
        if len(point) != 3 or not np.isfinite(point).all():
            raise DataError(
                f"{where}, line {number}: expected three finite coordinates of a vertex but got "
                f"'{line[:40]}': {AGAIN}."
            )
        points.append(point)
    return np.array(points, dtype=np.float64)


def _triangles(lines: Sequence[Line], vertices: int, where: str) -> Array:
    """Return triangles: (v0, vi, vi+1) of a polygon v0 .. vn-1, as its corners fan out from v0."""
    plain = _numbers(lines, 4, np.int64)
    if plain is not None and (plain[:, 0] == 3).all():
        corners_of = plain[:, 1:]
        if corners_of.min() >= 0 and corners_of.max() < vertices:
            return corners_of
    triangles: list[list[int]] = []
    for number, line in lines:
        try:
            count, *rest = (int(word) for word in line.split()[: 1 + int(line.split()[0])])
        except ValueError:
            count, rest = 0, []
        if not 1 <= count == len(rest) or min(rest) < 0 or max(rest) >= vertices:
            raise DataError(
                f"{where}, line {number}: expected a face as its number of vertices and so many "
                f"numbers from 0 to {vertices - 1} but got '{line[:40]}': {AGAIN}."
            )
        # A face of one or two corners is a point or an edge, of which nothing is seen.
        triangles += [[rest[0], *pair] for pair in pairwise(rest[1:])]
    if not triangles:
        raise DataError(f"{where}: expected a face of three corners or more: leave the file out.")
    return np.array(triangles, dtype=np.int64)


def _numbers(lines: Sequence[Line], width: int, kind: type[np.generic]) -> Array | None:
    """Return the numbers of lines that hold `width` of them each, None where it is not so simple.

    Nearly all files are of this kind and are read several times as quickly in one go.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy takes 3.0 for a 3, and warns
            numbers = np.loadtxt([line for _, line in lines], dtype=kind, comments=None, ndmin=2)
    except (ValueError, DeprecationWarning):
        return None
    return numbers if numbers.shape[1] == width else None
