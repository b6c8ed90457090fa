"""Folders of images in any size and format that people publish.

Every image is squeezed to a square of the same size. Where all of them are grey, they have one
channel. Sixteen-bit images keep their upper eight bits.
"""

from __future__ import annotations

import importlib
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unlabel.config import Pictures
from unlabel.data.cache import read_files
from unlabel.data.dataset import Array, Dataset
from unlabel.data.duplicates import without_repeats
from unlabel.data.folders import LabelledFiles
from unlabel.errors import DataError, why
from unlabel.progress import Watch

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".gif", ".webp")
#: The decoders behind these endings; others that Pillow has start programs or run scripts.
FORMATS = ("PNG", "JPEG", "BMP", "TIFF", "GIF", "WEBP")
#: Part of the name of what is cached: raise it when the same file becomes other pixels.
EDITION = 1


def load_images(name: str, files: LabelledFiles, pictures: Pictures, watch: Watch) -> Dataset:
    """Read the images of a folder as the dataset `name`."""
    channels = 1 if pictures.colour == "grey" else 3
    parts = read_files(
        name,
        files,
        lambda path: read_image(path, pictures.size, channels),
        {**asdict(pictures), "views": 0, "edition": EDITION},
        watch,
    )
    x = parts.x
    if pictures.colour == "auto" and (x == x[:, :1]).all():
        x = x[:, :1]
    return without_repeats(Dataset(name, x, parts.y, files.labels, test=parts.test))


def read_image(path: Path, size: int, channels: int) -> Array:
    """Return the image as [channels, size, size] uint8.

    A pixel is the mean of what it covers; an image that is too small is drawn larger, smoothly.
    """
    pillow = import_extra("PIL.Image", "images")
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
        upper = (np.asarray(image) >> 8).astype(np.uint8)
        whole: Image = import_extra("PIL.Image", "images").fromarray(upper)
        return whole
    if image.mode in ("I", "F"):
        raise ValueError(f"pixels of mode '{image.mode}' have no largest value")
    return image


def import_extra(module: str, extra: str) -> Any:
    """Return a module that an extra of the package installs, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DataError(
            f"'{module.partition('.')[0]}' is not installed: run `pip install unlabel[{extra}]`."
        ) from error
