"""Brain Tumor MRI: slices of heads with one of three tumours or none, from the user's folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from unlabel.data.dataset import SOURCES, Dataset, Pictures, Watch
from unlabel.data.image_folder import load_images
from unlabel.data.prepared import own_copy
from unlabel.errors import DataError

LABELS = ("glioma", "meningioma", "notumor", "pituitary")
WHERE = (
    "download the 'Brain Tumor MRI Dataset' of Masoud Nickparvar from Kaggle, unpack it, and pass "
    "the folder that holds Training and Testing with `--folder`"
)


def draw(folder: Path | None, pictures: Pictures, watch: Watch) -> Dataset:
    """Read the official folders."""
    if folder is None:
        raise DataError(f"Brain Tumor MRI cannot be fetched: {WHERE}.")
    # A few of the files are stored in colour; what they show is not.
    grey = replace(pictures, colour="grey" if pictures.colour == "auto" else pictures.colour)
    return load_images(folder, grey, watch, name="brain-tumor-mri", labels=LABELS, at=WHERE)


SOURCES.add(
    "brain-tumor-mri",
    own_copy("MRI slices of heads, 4 labels, about 5700 + 1300 grey images", draw),
)
