"""Fashion-MNIST: pictures of clothes in the shape of MNIST."""

from __future__ import annotations

from pathlib import Path

from unlabel.data.dataset import SOURCES, Dataset, Source
from unlabel.data.fetch import Cached, debian_package
from unlabel.data.idx import TEST, TRAIN, read_idx_folder

PACKAGE = "dataset-fashion-mnist"
INSTALLED = Path("/usr/share/datasets/fashion-mnist")  # where the Debian package puts its files
LABELS = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
CACHED = Cached(
    "fashion-mnist",
    # Debian strips name and time from the gzip headers. With these put back, all four files this
    # was computed from have the published md5 sums, so that their content is the authors'.
    sha256="fbbdd44188cc649b4dfebdd5bbfbc656f322d0ce4b14d13bbc33ec3956056d82",
    by_hand=f"put {', '.join(TRAIN + TEST)} (plain or .gz) in a folder and pass it with `--folder`",
)


def load(folder: Path | None = None) -> Dataset:
    """Read the four official files from the folder, the cached copy, or the installed package."""
    if folder is not None:
        parts = read_idx_folder(folder)
    elif INSTALLED.is_dir() and not CACHED.ready():
        parts = CACHED.check(read_idx_folder(INSTALLED))
    else:
        parts = CACHED.read()
    return Dataset("fashion-mnist", parts.x, parts.y, LABELS, test=parts.test)


def fetch() -> Path:
    """Bring the dataset into the cache from the Debian package, installed or downloaded."""
    if INSTALLED.is_dir():
        return CACHED.keep(read_idx_folder(INSTALLED))
    inside = str(INSTALLED.relative_to("/"))
    with debian_package(PACKAGE, inside, CACHED.by_hand) as folder:
        return CACHED.keep(read_idx_folder(folder))


def ready() -> bool:
    """Return whether the dataset is cached or installed."""
    return CACHED.ready() or INSTALLED.is_dir()


SOURCES.add(
    "fashion-mnist",
    Source(
        about="clothes, 10 labels, 60000 + 10000 grey images of 28x28",
        load=load,
        fetch=fetch,
        ready=ready,
    ),
)
