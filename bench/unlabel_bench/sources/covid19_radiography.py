"""COVID-19 Radiography: X-rays of chests with four findings, from the user's folder."""

from __future__ import annotations

from pathlib import Path

from unlabel.config import Pictures
from unlabel.data.dataset import SOURCES, Dataset, folder_source
from unlabel.data.images import ENDINGS, load_images
from unlabel.progress import Watch
from unlabel_bench.published import Published

INSIDE = "COVID-19_Radiography_Dataset"
OFFICIAL = Published(
    "covid19-radiography",
    "download the 'COVID-19 Radiography Database' of Qatar University and the University of Dhaka "
    f"from Kaggle, unpack it, and pass the folder {INSIDE} with `--folder`",
    inside=INSIDE,
    labels=("COVID", "Lung_Opacity", "Normal", "Viral Pneumonia"),
)


def draw(folder: Path | None, pictures: Pictures, watch: Watch) -> Dataset:
    """Read the official folders LABEL/images; some X-rays are stored as colours, all grey."""
    files = OFFICIAL.files(folder, ENDINGS)
    return load_images(OFFICIAL.name, files, pictures.grey(), watch)


SOURCES.add(
    OFFICIAL.name,
    folder_source("X-rays of chests, 4 labels, about 21000 grey images, no test part", draw),
)
