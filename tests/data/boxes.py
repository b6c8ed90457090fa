"""Boxes as meshes, of which everything can be worked out by hand."""

from __future__ import annotations

from dataclasses import replace

from unlabel_bench.meshes import Mesh, parse_off

#: Each side of a cube as a polygon of four corners of (x, y, z) in 0..1, numbered 4x + 2y + z.
SIDES = ((0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3))


def off_of_box(x: float, y: float, z: float) -> str:
    corners = [f"{a * x} {b * y} {c * z}" for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    faces = [f"4 {' '.join(map(str, side))}" for side in SIDES]
    return "\n".join(["OFF", "8 6 12", *corners, *faces, ""])


def box(x: float = 1, y: float = 1, z: float = 1, at: tuple[float, ...] = (0, 0, 0)) -> Mesh:
    mesh = parse_off(off_of_box(x, y, z), "a box")
    return replace(mesh, vertices=mesh.vertices + at)
