"""Fashion-MNIST: pictures of clothes in the shape of MNIST."""

from __future__ import annotations

from pathlib import Path

from unlabel.data.cache import Cached
from unlabel.data.dataset import SOURCES, Dataset, Source
from unlabel.data.fetch import from_debian, from_openml
from unlabel.data.idx import BY_HAND, read_idx_folder

PACKAGE = "dataset-fashion-mnist"
INSTALLED = Path("/usr/share/datasets/fashion-mnist")  # where the Debian package puts its files
LABELS = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
CACHED = Cached(
    "fashion-mnist",
    # Debian strips name and time from the gzip headers. With these put back, all four files this
    # was computed from have the published md5 sums, so that their content is the authors'.
    sha256="fbbdd44188cc649b4dfebdd5bbfbc656f322d0ce4b14d13bbc33ec3956056d82",
    by_hand=BY_HAND,
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
    """Bring the dataset into the cache: the installed package, OpenML, or the Debian package."""
    if INSTALLED.is_dir():
        return CACHED.fetch(lambda: read_idx_folder(INSTALLED))
    inside = str(INSTALLED.relative_to("/"))
    return CACHED.fetch(
        lambda: from_openml("Fashion-MNIST", 1, train=60_000, shape=(1, 28, 28)),
        lambda: from_debian(PACKAGE, inside, read_idx_folder),
    )


ABOUT = "clothes, 10 labels, 60000 + 10000 grey images of 28x28"
SOURCES.add(
    "fashion-mnist", Source(ABOUT, load, fetch, lambda: CACHED.ready() or INSTALLED.is_dir())
)
