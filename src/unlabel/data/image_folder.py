"""A folder of images, sorted into folders by label, in any size and format that people publish.

Every image is squeezed to a square of the same size. Where all of them are grey, they have one
channel. Sixteen-bit images keep their upper eight bits.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from unlabel.data.dataset import SOURCES, Array, Dataset, Pictures, Watch, watch_nothing
from unlabel.data.duplicates import without_repeats
from unlabel.data.folders import find_files
from unlabel.data.prepared import own_copy, prepare
from unlabel.errors import DataError, why

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".gif", ".webp")
#: The decoders behind these endings; others that Pillow has start programs or run scripts.
FORMATS = ("PNG", "JPEG", "BMP", "TIFF", "GIF", "WEBP")
#: Part of the name of what is cached: raise it when the same file becomes other pixels.
EDITION = 1


def load_images(
    folder: Path,
    pictures: Pictures,
    watch: Watch = watch_nothing,
    *,
    name: str = "images",
    inside: str = "",
    labels: Sequence[str] = (),
    at: str = "pass the folder that holds a folder of images for each label",
) -> Dataset:
    """Read the images of a folder; `inside`, `labels` and `at` are those of `find_files`."""
    found = find_files(folder, ENDINGS, inside=inside, labels=labels, at=at)
    channels = 1 if pictures.colour == "grey" else 3
    parts = prepare(
        name,
        found,
        lambda path: read_image(path, pictures.size, channels),
        {**asdict(pictures), "views": 0, "edition": EDITION},
        watch,
    )
    x = parts.x
    if pictures.colour == "auto" and (x == x[:, :1]).all():
        x = x[:, :1]
    return without_repeats(Dataset(name, x, parts.y, found.labels, test=parts.test))


def read_image(path: Path, size: int, channels: int) -> Array:
    """Return the image as [channels, size, size] uint8.

    A pixel is the mean of what it covers; an image that is too small is drawn larger, smoothly.
    """
    pillow = _pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd metadata, which nobody looks at here
            warnings.simplefilter("error", pillow.DecompressionBombWarning)
            with pillow.open(path, formats=FORMATS) as image:
                whole = _eight_bits(image).convert("L" if channels == 1 else "RGB")
                smaller = min(whole.size) >= size
                filters = pillow.Resampling
                square = whole.resize((size, size), filters.BOX if smaller else filters.BILINEAR)
    except Exception as error:  # a damaged image fails in a dozen ways, as its decoder does
        raise DataError(
            f"File '{path}' is not a whole image ({why(error)}): get it again or leave it out."
        ) from error
    return np.asarray(square).reshape(size, size, channels).transpose(2, 0, 1)


def _eight_bits(image: Image) -> Image:
    """Return an image of at most eight bits a channel; more would be cut off at white."""
    if image.mode.startswith("I;16"):
        whole: Image = _pillow().fromarray((np.asarray(image) >> 8).astype(np.uint8))
        return whole
    if image.mode in ("I", "F"):
        raise ValueError(f"pixels of mode '{image.mode}' have no largest value")
    return image


def _pillow() -> ModuleType:
    try:
        from PIL import Image
    except ImportError as error:
        raise DataError(
            "Pillow, which reads images, is not installed: run `pip install unlabel[images]`."
        ) from error
    return Image


def draw(folder: Path | None, pictures: Pictures, watch: Watch) -> Dataset:
    """Read any folder of images."""
    if folder is None:
        raise DataError(
            "Expected a folder of images, with a folder for each label in it: pass it with "
            "`--folder`."
        )
    return load_images(folder, pictures, watch)


SOURCES.add(
    "images",
    own_copy("any folder of images with a folder for each label", draw),
)
