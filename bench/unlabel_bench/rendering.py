"""Pictures of an object from cameras that stand evenly around it.

The object lies with the centroid of its surface in the origin, scaled so that its farthest corner
has distance 1; z is up. Camera k of K looks at the origin from

    d_k = (cos e cos a_k, cos e sin a_k, sin e),   a_k = 2 pi k / K,   e = 30 degrees

without perspective, on the square [-1, 1] x [-1, 1] that every object fits in. So view k is view 0
of the object turned by -a_k about z. A pixel is the mean of `RAYS` x `RAYS` rays, each worth

    AMBIENT + (1 - AMBIENT) |n . d_k|     where it meets the surface, whose normal there is n
    0                                     where it meets nothing

which is as bright as a lamp on the camera makes it. Normals count by their size alone, because the
faces of downloaded objects point inwards as often as outwards.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unlabel.config import Pictures
from unlabel.data.cache import read_files
from unlabel.data.dataset import Array, Dataset
from unlabel.data.duplicates import note_repeats
from unlabel.data.images import import_extra
from unlabel.errors import DataError, SettingsError
from unlabel.progress import Watch
from unlabel_bench.meshes import Mesh, read_off
from unlabel_bench.published import Published

ELEVATION = np.pi / 6
AMBIENT = 0.2
#: Rays along each side of a pixel.
RAYS = 2
#: Where the rays start, well outside the unit sphere.
DISTANCE = 2.0
#: Views where nobody says how many parties there are, and the most there may be.
VIEWS, MOST_VIEWS = 2, 64
#: Part of the name of what is cached: raise it when the same mesh becomes other pixels.
EDITION = 1


def load_meshes(
    folder: Path | None, pictures: Pictures, watch: Watch, published: Published
) -> Dataset:
    """Draw the meshes of a folder, each from as many cameras as there are views."""
    views = pictures.views or VIEWS
    if views > MOST_VIEWS:
        raise SettingsError(f"Expected at most {MOST_VIEWS} views of a mesh but got {views}.")
    files = published.files(folder, (".off",))
    parts = read_files(
        published.name,
        files,
        lambda path: render_views(read_off(path), views, pictures.size, f"File '{path}'"),
        {"views": views, "size": pictures.size, "edition": EDITION},
        watch,
    )
    dataset = Dataset(published.name, parts.x, parts.y, files.labels, "views", test=parts.test)
    return note_repeats(dataset, "raise `pictures.size`, or take these files out")


def render_views(mesh: Mesh, views: int, size: int, where: str = "A mesh") -> Array:
    """Return [views, size, size] uint8: what each camera sees, with row 0 at the top.

    where  what the mesh is called in an error
    """
    surfaces = import_extra("embreex.mesh_construction", "meshes")
    scenes = import_extra("embreex.rtcore_scene", "meshes")
    vertices = normalise(mesh, where)
    corners = vertices[mesh.faces]
    normals = _across(corners)
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    normals /= np.where(lengths > 0, lengths, 1)
    scene = scenes.EmbreeScene(robust=True)
    surfaces.TriangleMesh(scene, vertices.astype(np.float32), mesh.faces.astype(np.int32))
    pictures = np.empty((views, size, size), dtype=np.uint8)
    for view in range(views):
        toward, right, up = camera(view, views)
        origins = _origins(size * RAYS, toward, right, up).astype(np.float32)
        directions = np.tile(-toward.astype(np.float32), (len(origins), 1))
        met = scene.run(origins, directions)
        light = AMBIENT + (1 - AMBIENT) * np.abs(normals[met] @ toward)
        light[met < 0] = 0
        pixels = light.reshape(size, RAYS, size, RAYS).mean(axis=(1, 3))
        pictures[view] = np.rint(255 * pixels)
    return pictures


def camera(view: int, views: int) -> tuple[Array, Array, Array]:
    """Return the directions of a camera: toward it from the object, to its right, and up.

    >>> toward, right, up = camera(0, 4)
    >>> bool(np.allclose(np.cross(right, up), toward))
    True
    """
    angle = 2 * np.pi * view / views
    level = np.array([np.cos(angle), np.sin(angle), 0.0])
    toward = np.cos(ELEVATION) * level + np.array([0.0, 0.0, np.sin(ELEVATION)])
    right = np.array([-np.sin(angle), np.cos(angle), 0.0])
    return toward, right, np.cross(toward, right)


def normalise(mesh: Mesh, where: str = "A mesh") -> Array:
    """Return the vertices with the surface's centroid in the origin and the farthest one at 1.

    The centroid is sum A_i c_i / sum A_i over triangles of area A_i and centre c_i, which does not
    depend on how finely a part of the surface is cut up.
    """
    corners = mesh.vertices[mesh.faces]
    with np.errstate(over="ignore", invalid="ignore"):  # reported below
        areas = np.linalg.norm(_across(corners), axis=1)
    if not 0 < areas.sum() < np.inf:
        raise DataError(
            f"{where}: expected triangles with an area that can be computed but they are all "
            f"empty, or beyond all bounds: leave it out."
        )
    centred = mesh.vertices - np.average(corners.mean(axis=1), axis=0, weights=areas)
    # A vertex that no face uses is not seen and must not make the rest small.
    farthest = np.linalg.norm(centred[np.unique(mesh.faces)], axis=1).max()
    return np.asarray(centred / farthest)


def _across(corners: Array) -> Array:
    """Return (b - a) x (c - a) of triangles a, b, c: their normals, twice as long as their area."""
    return np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])


def _origins(side: int, toward: Array, right: Array, up: Array) -> Array:
    """Return where the side x side rays start, row by row from the top left."""
    steps = (np.arange(side) + 0.5) * 2 / side - 1
    rows, columns = np.meshgrid(-steps, steps, indexing="ij")
    on_screen = rows[..., None] * up + columns[..., None] * right
    return np.asarray((DISTANCE * toward + on_screen).reshape(-1, 3))
