"""COVID-19 Radiography: X-rays of chests with four findings, from the user's folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from unlabel.data.dataset import SOURCES, Dataset, Pictures, Watch
from unlabel.data.image_folder import load_images
from unlabel.data.prepared import own_copy
from unlabel.errors import DataError

INSIDE = "COVID-19_Radiography_Dataset"
LABELS = ("COVID", "Lung_Opacity", "Normal", "Viral Pneumonia")
WHERE = (
    "download the 'COVID-19 Radiography Database' of Qatar University and the University of Dhaka "
    f"from Kaggle, unpack it, and pass the folder {INSIDE} with `--folder`"
)


def draw(folder: Path | None, pictures: Pictures, watch: Watch) -> Dataset:
    """Read the official folders LABEL/images; the masks beside them are not looked at."""
    if folder is None:
        raise DataError(f"COVID-19 Radiography cannot be fetched: {WHERE}.")
    # Some of the X-rays are stored in colour, all the same in each channel.
    grey = replace(pictures, colour="grey" if pictures.colour == "auto" else pictures.colour)
    return load_images(
        folder, grey, watch, name="covid19-radiography", inside=INSIDE, labels=LABELS, at=WHERE
    )


SOURCES.add(
    "covid19-radiography",
    own_copy("X-rays of chests, 4 labels, about 21000 grey images, no test part", draw),
)
