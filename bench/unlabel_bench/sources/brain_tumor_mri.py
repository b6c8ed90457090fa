"""Brain Tumor MRI: slices of heads with one of three tumours or none, from the user's folder."""

from __future__ import annotations

from pathlib import Path

from unlabel.config import Pictures
from unlabel.data.dataset import SOURCES, Dataset, folder_source
from unlabel.data.images import ENDINGS, load_images
from unlabel.progress import Watch
from unlabel_bench.published import Published

OFFICIAL = Published(
    "brain-tumor-mri",
    "download the 'Brain Tumor MRI Dataset' of Masoud Nickparvar from Kaggle, unpack it, and pass "
    "the folder that holds Training and Testing with `--folder`",
    labels=("glioma", "meningioma", "notumor", "pituitary"),
)


def draw(folder: Path | None, pictures: Pictures, watch: Watch) -> Dataset:
    """Read the official folders; a few files are stored in colour, but what they show is not."""
    files = OFFICIAL.files(folder, ENDINGS)
    return load_images(OFFICIAL.name, files, pictures.grey(), watch)


SOURCES.add(
    OFFICIAL.name,
    folder_source("MRI slices of heads, 4 labels, about 5700 + 1300 grey images", draw),
)
