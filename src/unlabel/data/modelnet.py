"""ModelNet10 and ModelNet40, and any other folder of meshes: objects seen from all around.

Every object is drawn from as many cameras as there are views to give to the parties; see
`rendering`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unlabel.data.dataset import SOURCES, Array, Dataset, Pictures, Watch, watch_nothing
from unlabel.data.duplicates import tell_repeats
from unlabel.data.folders import find_files
from unlabel.data.meshes import read_off
from unlabel.data.prepared import own_copy, prepare
from unlabel.data.rendering import render_views
from unlabel.errors import DataError, SettingsError

#: Views where nobody says how many parties there are.
VIEWS = 2
MOST_VIEWS = 64
#: Part of the name of what is cached: raise it when the same mesh becomes other pixels.
EDITION = 1
ANY = "pass the folder that holds a folder of .off files for each label with `--folder`"
TEN = (
    *("bathtub", "bed", "chair", "desk", "dresser", "monitor", "night_stand", "sofa", "table"),
    "toilet",
)
FORTY = (
    *("airplane", "bathtub", "bed", "bench", "bookshelf", "bottle", "bowl", "car", "chair", "cone"),
    *("cup", "curtain", "desk", "door", "dresser", "flower_pot", "glass_box", "guitar"),
    *("keyboard", "lamp", "laptop", "mantel", "monitor", "night_stand", "person", "piano", "plant"),
    *("radio", "range_hood", "sink", "sofa", "stairs", "stool", "table", "tent", "toilet"),
    *("tv_stand", "vase", "wardrobe", "xbox"),
)


def load_meshes(
    folder: Path,
    pictures: Pictures,
    watch: Watch = watch_nothing,
    *,
    name: str = "meshes",
    inside: str = "",
    labels: Sequence[str] = (),
    at: str = ANY,
) -> Dataset:
    """Draw the meshes of a folder; `inside`, `labels` and `at` are those of `find_files`."""
    views = pictures.views or VIEWS
    if views > MOST_VIEWS:
        raise SettingsError(f"Expected at most {MOST_VIEWS} views of a mesh but got {views}.")
    found = find_files(folder, (".off",), inside=inside, labels=labels, at=at)

    def read(path: Path) -> Array:
        return render_views(read_off(path), views, pictures.size, f"File '{path}'")

    how = {"views": views, "size": pictures.size, "edition": EDITION}
    parts = prepare(name, found, read, how, watch)
    dataset = Dataset(name, parts.x, parts.y, found.labels, "views", test=parts.test)
    return tell_repeats(dataset, "raise `pictures.size`, or take these files out")


def draw(folder: Path | None, pictures: Pictures, watch: Watch) -> Dataset:
    """Draw any folder of meshes."""
    if folder is None:
        raise DataError(f"Expected a folder of meshes: {ANY}.")
    return load_meshes(folder, pictures, watch)


def _add_modelnet(official: str, labels: Sequence[str], about: str) -> None:
    """Register a dataset that unpacks to a folder of its `official` name."""
    where = (
        f"download {official}.zip from the ModelNet page of Princeton University, unpack it, and "
        f"pass the folder {official} with `--folder`"
    )
    name = official.lower()

    def draw_official(folder: Path | None, pictures: Pictures, watch: Watch) -> Dataset:
        if folder is None:
            raise DataError(f"{official} cannot be fetched: {where}.")
        return load_meshes(
            folder, pictures, watch, name=name, inside=official, labels=labels, at=where
        )

    SOURCES.add(name, own_copy(about, draw_official))


SOURCES.add("meshes", own_copy("any folder of .off meshes with a folder for each label", draw))
_add_modelnet("ModelNet10", TEN, "furniture as meshes, 10 labels, 3991 + 908 objects")
_add_modelnet("ModelNet40", FORTY, "things as meshes, 40 labels, 9843 + 2468 objects")
