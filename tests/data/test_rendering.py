"""What a camera sees of a surface."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from data.boxes import box
from unlabel_bench.meshes import Mesh
from unlabel_bench.rendering import AMBIENT, RAYS, camera, normalise, render_views

from unlabel.errors import DataError

Array = npt.NDArray[Any]


def together(*meshes: Mesh) -> Mesh:
    starts = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    faces = [mesh.faces + start for mesh, start in zip(meshes, starts, strict=False)]
    return Mesh(np.concatenate([mesh.vertices for mesh in meshes]), np.concatenate(faces))


def turned(mesh: Mesh, angle: float) -> Mesh:
    """Turn a mesh about z, from x towards y."""
    c, s = np.cos(angle), np.sin(angle)
    turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
    return Mesh(mesh.vertices @ turn.T, mesh.faces)


def brightness(light: float) -> int:
    return round(255 * (AMBIENT + (1 - AMBIENT) * light))


def test_a_cube_shows_the_area_and_the_light_that_were_worked_out_by_hand() -> None:
    # A cube in the unit sphere has sides of 2 / sqrt(3). From 30 degrees above the x axis its
    # front shows cos 30 of its area and its top sin 30, on a screen of area 4.
    picture = render_views(box(), 1, 96)[0]
    cos, sin = np.cos(np.pi / 6), 0.5
    area = (4 / 3) * (cos + sin) / 4
    assert (picture > 0).mean() == pytest.approx(area, abs=0.01)
    assert (picture == brightness(cos)).mean() == pytest.approx((4 / 3) * cos / 4, abs=0.01)
    assert (picture == brightness(sin)).mean() == pytest.approx((4 / 3) * sin / 4, abs=0.01)
    rows = [np.flatnonzero((picture == brightness(light)).any(axis=1)) for light in (sin, cos)]
    assert rows[0].max() < rows[1].min()  # the top is seen above the front
    assert np.array_equal(picture, picture[:, ::-1])


def test_a_ball_is_a_disc_from_everywhere_and_brightest_in_the_middle() -> None:
    polar, around = np.meshgrid(
        np.linspace(0, np.pi, 41), np.arange(80) * np.pi / 40, indexing="ij"
    )
    points = [np.sin(polar) * np.cos(around), np.sin(polar) * np.sin(around), np.cos(polar)]
    number = np.arange(41 * 80).reshape(41, 80)
    corners = [number[:-1], np.roll(number, -1, 1)[:-1], np.roll(number, -1, 1)[1:], number[1:]]
    a, b, c, d = (corner.ravel() for corner in corners)
    ball = Mesh(
        np.stack(points, axis=-1).reshape(-1, 3),
        np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]),
    )
    for picture in render_views(ball, 3, 64):
        covered = picture / 255 > AMBIENT / 2
        assert covered.mean() == pytest.approx(np.pi / 4, abs=0.01)
        assert picture.max() == picture[31:33, 31:33].max() >= 253
        assert picture[0, 0] == 0


def test_right_is_right_and_up_is_up() -> None:
    large = box(2, 2, 2, at=(-1, -1, -1))
    for at, view, side in (
        ((0, 1.5, 0), 0, "right"),  # camera 0 stands on the x axis, with y to its right
        ((1.5, 0, 0), 1, "left"),  # camera 1 of 4 on the y axis
        ((0, 1.5, 0), 2, "left"),
        ((1.5, 0, 0), 3, "right"),
        ((0, 0, 1.5), 0, "up"),
        ((0, 0, -2.5), 2, "down"),
    ):
        picture = render_views(together(large, box(0.5, 0.5, 1, at=at)), 4, 48)[view] > 0
        rows, columns = (np.flatnonzero(picture.any(axis=axis)) for axis in (1, 0))
        # The small box reaches farther from the middle of the large one than its other sides do.
        reach = {
            "left": 23.5 - columns.min(),
            "right": columns.max() - 23.5,
            "up": 23.5 - rows.min(),
            "down": rows.max() - 23.5,
        }
        assert max(reach, key=lambda name: reach[name]) == side, (at, view, reach)


@pytest.mark.parametrize("views", [2, 3, 8])
def test_every_view_is_the_first_of_the_object_turned_the_other_way(views: int) -> None:
    mesh = together(box(3, 1, 1), box(0.5, 2, 0.5, at=(2, 0, 1)))
    pictures = render_views(mesh, views, 32)
    assert len({picture.tobytes() for picture in pictures}) == views
    for view, picture in enumerate(pictures):
        other = render_views(turned(mesh, -2 * np.pi * view / views), 1, 32)[0]
        # A ray that grazes an edge may fall on either side of it by rounding.
        assert (np.abs(picture.astype(int) - other) > 1).mean() < 0.005


def cast(mesh: Mesh, views: int, size: int) -> Array:
    """Draw in the plainest way: every ray against every triangle, by Cramer's rule."""
    corners = normalise(mesh)[mesh.faces]
    first, one, two = corners[:, 0], corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    normals = np.cross(one, two)
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    side = size * RAYS
    pictures = np.zeros((views, side, side))
    for view in range(views):
        toward, right, up = camera(view, views)
        for row in range(side):
            for column in range(side):
                x, y = (column + 0.5) / side * 2 - 1, 1 - (row + 0.5) / side * 2
                start = 2 * toward + x * right + y * up
                # start - t toward = first + u one + v two
                system = np.stack([np.broadcast_to(toward, one.shape), one, two], axis=2)
                t, u, v = np.linalg.solve(system, (start - first)[..., None])[..., 0].T
                met = np.flatnonzero((u >= 0) & (v >= 0) & (u + v <= 1) & (t > 0))
                if len(met):
                    light = abs(normals[met[t[met].argmin()]] @ toward)
                    pictures[view, row, column] = AMBIENT + (1 - AMBIENT) * light
    means = pictures.reshape(views, size, RAYS, size, RAYS).mean(axis=(2, 4))
    return np.asarray(np.rint(255 * means))


def test_the_library_draws_what_the_plainest_arithmetic_draws() -> None:
    rng = np.random.default_rng(0)
    mesh = Mesh(
        rng.normal(size=(12, 3)), rng.permuted(np.tile(np.arange(12), (9, 1)), axis=1)[:, :3]
    )
    assert np.abs(render_views(mesh, 2, 16) - cast(mesh, 2, 16)).max() <= 1


def test_the_centroid_is_that_of_the_surface_and_unused_vertices_do_not_count() -> None:
    mesh = box(2, 2, 2, at=(5, 6, 7))
    # The same surface, one side of it cut up finely, and a vertex far away that no face uses.
    a, b, c = mesh.faces[0]
    middle = mesh.vertices[[a, b, c]].mean(axis=0)
    faces = [*mesh.faces[1:].tolist(), [a, b, 8], [b, c, 8], [c, a, 8]]
    finer = Mesh(np.vstack([mesh.vertices, middle, [1e6, 0, 0]]), np.array(faces))
    for found in (normalise(mesh), normalise(finer)[:8]):
        assert np.allclose(found, (mesh.vertices - [6, 7, 8]) / np.sqrt(3))


@pytest.mark.parametrize(
    "points", [[[0, 0, 0], [1, 1, 1], [2, 2, 2]], [[0, 0, 0], [1e200, 0, 0], [0, 1e200, 0]]]
)
def test_a_mesh_without_a_surface_is_refused(points: list[list[float]]) -> None:
    with pytest.raises(DataError, match="The flat one"):
        render_views(
            Mesh(np.array(points, dtype=float), np.array([[0, 1, 2]])), 2, 8, "The flat one"
        )
