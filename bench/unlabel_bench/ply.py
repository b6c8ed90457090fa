"""Surfaces of objects in `.ply` files, in the binary form of little-endian numbers.

ply                                     the header, in lines of text
format binary_little_endian 1.0
element vertex V
property float x                        and y, z; others may stand beside them
element face F
property list uchar int vertex_indices
end_header
V vertices, then F triangles            a 3 and three numbers of vertices from 0: 13 bytes
"""

from __future__ import annotations

import numpy as np

from unlabel.data.dataset import Array
from unlabel.errors import DataError
from unlabel_bench.meshes import Mesh

FORMAT = "format binary_little_endian 1.0"
END = b"end_header\n"
SCALARS = {
    name: form
    for names, form in (
        (("char", "int8"), "<i1"),
        (("uchar", "uint8"), "<u1"),
        (("short", "int16"), "<i2"),
        (("ushort", "uint16"), "<u2"),
        (("int", "int32"), "<i4"),
        (("uint", "uint32"), "<u4"),
        (("float", "float32"), "<f4"),
        (("double", "float64"), "<f8"),
    )
    for name in names
}
TRIANGLES = ("list uchar int", "list uint8 int32", "list uchar uint", "list uint8 uint32")
TRIANGLE = np.dtype([("corners", "u1"), ("vertices", "<i4", 3)])


def parse_ply(data: bytes, where: str) -> Mesh:
    """Read the bytes of a file that is called `where` in errors."""
    header, end, body = data.partition(END)
    lines = [line.strip() for line in header.decode("ascii", errors="replace").split("\n")]
    if lines[:2] != ["ply", FORMAT] or not end:
        raise DataError(f"{where}: expected 'ply' and '{FORMAT}' but got '{lines[0][:40]}'.")
    counts: dict[str, int] = {}
    properties: dict[str, list[tuple[str, str]]] = {}
    for line in lines[2:]:
        kind, _, rest = line.partition(" ")
        if kind == "element":
            name, _, count = rest.partition(" ")
            counts[name] = int(count) if count.isdecimal() else 0
            properties[name] = []
        elif kind == "property" and properties:
            form, _, name = rest.rpartition(" ")
            properties[list(properties)[-1]].append((name, form))
    if list(counts) != ["vertex", "face"] or min(counts.values()) < 1:
        raise DataError(f"{where}: expected vertices, then faces, some of each, but got {counts}.")
    vertices = _vertices(body, counts["vertex"], properties["vertex"], where)
    rest_of_body = body[vertices.nbytes :]
    faces = _faces(rest_of_body, counts["face"], properties["face"], len(vertices), where)
    points = np.stack([vertices[axis] for axis in "xyz"], axis=1).astype(np.float64)
    if not np.isfinite(points).all():
        raise DataError(f"{where}: expected finite coordinates: get the file again.")
    return Mesh(points, faces)


def _vertices(body: bytes, count: int, properties: list[tuple[str, str]], where: str) -> Array:
    forms = dict(properties)
    if not {"x", "y", "z"} <= set(forms) or not set(forms.values()) <= set(SCALARS):
        raise DataError(f"{where}: expected vertices with x, y and z but got {forms}.")
    dtype = np.dtype([(name, SCALARS[form]) for name, form in properties])
    _expect(body, count * dtype.itemsize, where)
    return np.frombuffer(body, dtype, count)


def _faces(
    body: bytes, count: int, properties: list[tuple[str, str]], vertices: int, where: str
) -> Array:
    if [form for _, form in properties if form in TRIANGLES] != [form for _, form in properties]:
        raise DataError(f"{where}: expected faces as 'list uchar int' but got {properties}.")
    _expect(body, count * TRIANGLE.itemsize, where)
    faces = np.frombuffer(body, TRIANGLE, count)
    numbers = faces["vertices"].astype(np.int64)
    if (faces["corners"] != 3).any() or numbers.min() < 0 or numbers.max() >= vertices:
        raise DataError(f"{where}: expected triangles of vertices 0 to {vertices - 1} alone.")
    return numbers


def _expect(body: bytes, size: int, where: str) -> None:
    """Look before memory is taken: a damaged count can be any number."""
    if len(body) < size:
        raise DataError(f"{where}: expected {size} more bytes but there are {len(body)}.")
