"""Any folder of meshes, sorted into folders by label."""

from __future__ import annotations

from pathlib import Path

from unlabel.config import Pictures
from unlabel.data.dataset import SOURCES, Dataset, folder_source
from unlabel.progress import Watch
from unlabel_bench.published import Published
from unlabel_bench.rendering import load_meshes

ANY = Published(
    "meshes", "pass the folder that holds a folder of .off files for each label with `--folder`"
)


def draw(folder: Path | None, pictures: Pictures, watch: Watch) -> Dataset:
    """Draw the meshes."""
    return load_meshes(folder, pictures, watch, ANY)


SOURCES.add("meshes", folder_source("any folder of .off meshes with a folder for each label", draw))
