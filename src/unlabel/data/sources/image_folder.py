"""Any folder of images, sorted into folders by label."""

from __future__ import annotations

from pathlib import Path

from unlabel.config import Pictures
from unlabel.data.dataset import SOURCES, Dataset, folder_source
from unlabel.data.folders import find_files
from unlabel.data.images import ENDINGS, load_images
from unlabel.progress import Watch

AT = "pass the folder that holds a folder of images for each label with `--folder`"


def draw(folder: Path | None, pictures: Pictures, watch: Watch) -> Dataset:
    """Read the images."""
    return load_images("images", find_files(folder, ENDINGS, "images", AT), pictures, watch)


SOURCES.add("images", folder_source("any folder of images with a folder for each label", draw))
