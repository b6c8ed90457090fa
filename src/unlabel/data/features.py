"""One party's rows as its model reads them: gathered, augmented and scaled on the device."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unlabel.config import Augment
from unlabel.errors import DataError

#: How far a crop may be shifted from the centre, in pixels.
CROP = 4
#: Share of an accelerator's free memory that features may take before they stay on the host.
RESIDENT_SHARE = 0.5


class Features:
    """The rows a party holds: uint8 images [N, C, H, W] or floating-point columns [N, D].

    They lie on the device where they fit, and batch by batch go there where they do not.

    indicators  [D] which columns are 0/1 indicators, that scaling leaves alone; None if none are
    may_miss    columns may have missing numbers, NaN, in whose place scaling puts the mean
    """

    def __init__(
        self,
        values: Tensor,
        *,
        augment: Augment = "none",
        indicators: Tensor | None = None,
        may_miss: bool = False,
    ) -> None:
        if values.is_floating_point():
            fine = ~torch.isinf(values) if may_miss else torch.isfinite(values)
            if not fine.all():
                raise DataError("Features must be finite numbers; some are NaN or infinite.")
        self.values = values
        self.augment: Augment = augment
        self.indicators = indicators if indicators is not None and indicators.any() else None
        self._device = values.device

    def __len__(self) -> int:
        return len(self.values)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""
        return tuple(self.values.shape[1:])

    def to(self, device: torch.device) -> Features:
        """Return the same rows with batches on `device`."""
        moved = copy.copy(self)
        moved.values = self.values.to(device) if _fits(self.values, device) else self.values
        moved._device = device
        return moved

    def batch(self, rows: Tensor, *, augment: bool) -> Tensor:
        """Return the named rows as they are stored, cropped and flipped if `augment`."""
        picked = self.values.index_select(0, rows.to(self.values.device))
        picked = picked.to(self._device, non_blocking=True)
        if augment and self.augment != "none":
            picked = random_crop(picked, flip=self.augment == "crop-flip")
        return picked


@dataclass
class Scaling:
    """Standardisation fitted on the training rows: x -> (x - mean) / std.

    One mean and one deviation a channel for images, one a column for tables; a constant column
    keeps the deviation 1. The tokens of texts (int64) are names and no quantities: they stay as
    they are, and so do indicators of categories, of which a rare one would become huge.

    A missing number (NaN) becomes 0. That is what it would be if the mean of those present had
    stood in its place before the fit: mean = sum / present, std^2 = sum (x - mean)^2 / rows.
    """

    mean: Tensor
    std: Tensor

    @classmethod
    def fit(cls, features: Features, rows: Tensor) -> Scaling:
        """Fit on the named rows, in float64 and in pieces, so that a large table fits.

        The mean comes first and the squared distances from it second: in one pass a column such
        as a date in seconds would lose its deviation to rounding.
        """
        if features.values.dtype == torch.int64:
            return cls(torch.zeros(1, 1), torch.ones(1, 1))
        count = len(rows) * math.prod(features.shape[1:])
        present = torch.tensor(float(count))  # pixels are never missing
        if features.values.is_floating_point():
            present = _sum(features, rows, lambda x: (~x.isnan()).double()).clamp_min(1)
        mean = _sum(features, rows, lambda x: x) / present
        wide = mean.view(1, -1, *[1] * (len(features.shape) - 1))
        variance = _sum(features, rows, lambda x: (x - wide).square()) / count
        # The mean of a constant column is off by a rounding error, and so is its deviation.
        kind = torch.float64 if features.values.dtype == torch.float64 else torch.float32
        # One that is too small to be kept would be divided by as 0.
        least = torch.clamp_min(1e-12 * mean.abs(), torch.finfo(kind).tiny)
        still = variance.sqrt() <= least
        std = torch.where(still, torch.ones_like(mean), variance.sqrt()).view_as(wide)
        if features.indicators is not None:
            wide = wide.masked_fill(features.indicators, 0)
            std = std.masked_fill(features.indicators, 1)
        return cls(wide.to(kind), std.to(kind))

    def to(self, device: torch.device) -> Scaling:
        """Return the same scaling on `device`."""
        return Scaling(self.mean.to(device), self.std.to(device))

    def apply(self, x: Tensor) -> Tensor:
        """Return the standardised batch, in float32 whatever the precision of its features."""
        scaled = ((x - self.mean) / self.std).float()
        return scaled.masked_fill(scaled.isnan(), 0) if x.is_floating_point() else scaled


def _sum(features: Features, rows: Tensor, of: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the sum over rows and pixels of what is present of a function, one a channel."""
    total = torch.zeros(features.shape[0], dtype=torch.float64)
    for piece in rows.split(4096):
        x = of(features.batch(piece, augment=False).double().cpu())
        total += x.nansum([axis for axis in range(x.dim()) if axis != 1])
    return total


def random_crop(images: Tensor, *, flip: bool) -> Tensor:
    """Shift each image by up to `CROP` pixels, mirroring at its edges; flip half if asked to.

    A party can flip only its own part of an image. On halves of CIFAR-10 that costs accuracy, so
    no built-in dataset asks for it. The result lies in memory channels last.
    """
    (count, _, height, width), device = images.shape, images.device
    down, across = _shifted(count, height, device), _shifted(count, width, device)
    if flip:
        turned = torch.rand(count, 1, device=device) < 0.5
        across = torch.where(turned, width - 1 - across, across)
    every = torch.arange(count, device=device)[:, None, None]
    return images[every, :, down[:, :, None], across[:, None, :]].permute(0, 3, 1, 2)


def _shifted(count: int, size: int, device: torch.device) -> Tensor:
    """Return [count, size] indices into one axis, shifted at random and mirrored at the edges."""
    reach = min(CROP, size - 1)
    shift = torch.randint(-reach, reach + 1, (count, 1), device=device)
    index = (torch.arange(size, device=device) + shift).abs()
    return size - 1 - (size - 1 - index).abs()


def _fits(values: Tensor, device: torch.device) -> bool:
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    return values.numel() * values.element_size() <= RESIDENT_SHARE * free
