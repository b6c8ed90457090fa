"""CIFAR-100 from files of a hundred clients: all 60,000 images, merged and split by label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from unlabel.data.dataset import Array
from unlabel.errors import DataError
from unlabel.progress import Watch
from unlabel_bench.paper_data.array_pickles import read_dictionary
from unlabel_bench.paper_data.split import count_repeats, draw_test, keys_of, write_arrays
from unlabel_bench.paper_data.tree import Tree

INSIDE = "dataset/Cifar100"
TEST_SHARE = 1 / 6
#: The fine labels in the order of their numbers, which is that of the alphabet.
NAMES = (
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus "
    "butterfly camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch "
    "crab crocodile cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo "
    "keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse "
    "mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy "
    "porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper "
    "snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television "
    "tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm"
)
CLASSES = tuple(NAMES.split())


def convert(tree: Tree, out: Path, watch: Watch) -> dict[str, Any]:
    """Write cifar100.npz."""
    names = tree.names(INSIDE, ".npz")
    pictures, labels = [], []
    for done, (name, data) in enumerate(tree.read(names), start=1):
        if data is None:
            raise DataError(f"The content of '{name}' is absent from '{tree.root}': get it whole.")
        held = read_dictionary(data, "data", f"File '{name}'")
        pictures.append(to_bytes(held["x"], f"File '{name}'"))
        labels.append(held["y"])
        watch(done, len(names), "files of clients")
    x, y = np.concatenate(pictures), np.concatenate(labels).astype(np.int64)
    if y.min() < 0 or y.max() >= len(CLASSES):
        raise DataError(f"Expected labels from 0 to {len(CLASSES) - 1} but got {y.max()}.")
    keys = keys_of(x)
    test = draw_test(keys, y, TEST_SHARE)
    written = write_arrays(out / "cifar100.npz", x, y, test, CLASSES)
    return {**written, "files": len(names), "duplicates": count_repeats(keys, y)}


def to_bytes(x: Array, where: str) -> Array:
    """Return the pixels 0..255 that were scaled to p / 127.5 - 1.

    >>> to_bytes(np.array([-1, 1, 0.2], dtype=np.float32), "three pixels")
    array([  0, 255, 153], dtype=uint8)
    """
    pixels = (x.astype(np.float64) / 2 + 0.5) * 255
    whole = np.rint(pixels)
    if not np.abs(pixels - whole).max() < 0.01 or whole.min() < 0 or whole.max() > 255:
        raise DataError(f"{where}: expected pixels 0..255 scaled to -1..1 but got other numbers.")
    return whole.astype(np.uint8)
