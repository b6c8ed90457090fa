"""The IDX format of MNIST and of the datasets made after it.

An IDX file is two zero bytes, a type (8 = unsigned byte), the rank, each dimension as a
big-endian 32-bit number, and then exactly the bytes these dimensions call for.
"""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np

from unlabel.data.cache import Parts
from unlabel.data.dataset import Array
from unlabel.data.folders import read_file
from unlabel.errors import DataError

TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
#: How to get such a dataset without fetching, to end a sentence with.
BY_HAND = f"put {', '.join(TRAIN + TEST)} (plain or .gz) in a folder and pass it with `--folder`"


def parse_idx(data: bytes, rank: int, name: str) -> Array:
    """Return the array of unsigned bytes, of the given rank, that the file `name` holds."""
    start = 4 + 4 * rank
    magic = bytes((0, 0, 8, rank))
    if len(data) < start or data[:4] != magic:
        raise DataError(
            f"File '{name}': expected an IDX file of unsigned bytes of rank {rank}, which begins "
            f"with {magic.hex()}, but it begins with '{data[:4].hex()}' and has {len(data)} bytes."
        )
    shape = tuple(int(size) for size in np.frombuffer(data[4:start], dtype=">u4"))
    expected = start + math.prod(shape)
    if len(data) != expected or 0 in shape:
        raise DataError(
            f"File '{name}': its header announces shape {list(shape)}, which takes {expected} "
            f"bytes, but it has {len(data)}: get the file again."
        )
    return np.frombuffer(data, dtype=np.uint8, offset=start).reshape(shape)


def read_idx_folder(folder: Path) -> Parts:
    """Read the four official files, plain or gzipped, as images [N, 1, H, W] and labels."""
    train, test = _part(folder, TRAIN), _part(folder, TEST)
    if train[0].shape[1:] != test[0].shape[1:]:
        sizes = f"{list(train[0].shape[2:])} and {list(test[0].shape[2:])}"
        raise DataError(f"Folder '{folder}': expected images of one size but got {sizes}.")
    return Parts.join(train, test)


def _part(folder: Path, names: tuple[str, str]) -> tuple[Array, Array]:
    images = _read(folder, names[0], rank=3)
    labels = _read(folder, names[1], rank=1)
    if len(images) != len(labels):
        raise DataError(
            f"Folder '{folder}': expected one label for each image but '{names[0]}' has "
            f"{len(images)} and '{names[1]}' has {len(labels)}."
        )
    return images[:, None], labels


def _read(folder: Path, name: str, rank: int) -> Array:
    path, data = read_file(folder, name, f"{name}.gz")
    if path.suffix == ".gz":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(
                f"File '{path}' is not a whole gzip file ({error}): get the file again."
            ) from error
    return parse_idx(data, rank, str(path))
