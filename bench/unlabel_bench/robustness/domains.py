"""Public sets from elsewhere: another dataset brought to the shape of a run's images, or noise."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
import torch.nn.functional as F

from unlabel.data import load_dataset
from unlabel.data.dataset import Array, Dataset
from unlabel.errors import SettingsError
from unlabel.federation import Federation
from unlabel.forget import PublicSet
from unlabel.train.loading import part_features

#: Pixels that mean nothing.
NOISE = "noise"
#: The table that the parties hold such samples in.
TABLE = "public"


def foreign(federation: Federation, name: str, size: int, seed: int) -> PublicSet:
    """Return a public set of `size` samples a label from elsewhere, its parts handed to all.

    name  a dataset, whose label number n is taken for the run's label number n, or `noise`
    """
    x, y = _samples(federation, name, size, seed)
    config = federation.config
    federation.hand_over(TABLE, part_features(config, x, "image"))
    rows = torch.arange(len(y))
    ids = tuple(str(number) for number in range(len(y)))
    return PublicSet(TABLE, rows, torch.from_numpy(y), ids, False, f"samples of {name}")


def _samples(federation: Federation, name: str, size: int, seed: int) -> tuple[Array, Array]:
    """Return images of the run's shape and labels, `size` a label."""
    shape, count = _shape(federation), len(federation.labels)
    random = np.random.default_rng([seed, size])
    if name == NOISE:
        x = random.integers(0, 256, (size * count, *shape), dtype=np.uint8)
        return x, np.arange(len(x)) % count
    dataset = _load(name)
    if dataset.layout != "image":
        raise SettingsError(f"Expected a dataset of images but '{name}' is none.")
    chosen = [
        random.permutation(np.flatnonzero(dataset.y == label))[:size]
        for label in range(min(count, len(dataset.labels)))
    ]
    rows = np.sort(np.concatenate(chosen))
    return reshaped(dataset.x[rows], shape), dataset.y[rows]


@cache
def _load(name: str) -> Dataset:
    return load_dataset(name)


def _shape(federation: Federation) -> tuple[int, int, int]:
    """Return the shape of a whole image, which no party holds: the parts side by side."""
    shapes = [features.shape for features in federation.holdings.features.values()]
    whole = {(shape[0], shape[1]) for shape in shapes if len(shape) == 3}
    if len(whole) != 1 or any(len(shape) != 3 for shape in shapes):
        raise SettingsError("Expected a run of images that are split into columns.")
    channels, height = whole.pop()
    return channels, height, sum(shape[2] for shape in shapes)


def reshaped(x: Array, shape: tuple[int, int, int]) -> Array:
    """Return images [n, c, h, w] of bytes in another shape: resized, grey or colour.

    >>> reshaped(np.full((1, 1, 4, 4), 80, dtype=np.uint8), (3, 2, 2))[0, :, 0, 0].tolist()
    [80, 80, 80]
    """
    images = torch.from_numpy(x).float()
    if images.shape[1] != shape[0]:
        images = images.mean(1, keepdim=True).expand(-1, shape[0], -1, -1)
    resized = F.interpolate(images, shape[1:], mode="bilinear", antialias=True)
    return np.asarray(resized.round().clamp(0, 255).to(torch.uint8).numpy())
