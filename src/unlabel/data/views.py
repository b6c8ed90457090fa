"""Random views of rows, for models that learn without labels: the same row, seen differently.

All draws come from PyTorch's generator of the rows' device, at the stream that the caller started.
Nothing here looks at a value, so a GPU is never waited for. One call for a batch that has each row
twice draws two views of it and launches half the kernels of two calls.
"""

from __future__ import annotations

import functools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from unlabel.config.model import FIRST_WORD
from unlabel.data.features import Features

#: Smallest share of an image's area that a view shows.
LEAST_AREA = 0.25
#: How much a crop may be stretched along one axis against the other.
MOST_ASPECT = 4 / 3
#: How many images are jittered, and of those with colours how many become grey.
JITTERED, GREY = 0.8, 0.2
#: How far from 1 the factors of brightness, contrast and saturation lie, and hue from 0, in turns.
STRENGTH, HUE = 0.4, 0.1
#: From red, green and blue to the brightness Y and the two axes of colour I and Q.
YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))
#: Random numbers that a view of one image takes, of whatever size it is: parties that start one
#: stream crop their parts of an image alike.
DRAWS = 11


def view(
    features: Features,
    rows: Tensor,
    *,
    among: Tensor | None = None,
    flip: bool = True,
    colour: bool = True,
) -> Tensor:
    """Return a random view of the named rows, by the kind of features; it is not scaled yet.

    among         rows of a table from which cells may be taken; any where it is None
    flip, colour  of images, see `image_view`
    """
    values = features.batch(rows, augment=False)
    if values.dim() == 4:
        return image_view(values, flip=flip, colour=colour)
    if values.dtype == torch.int64:
        return words_view(values)
    return table_view(values, features.values, among=among)


def image_view(images: Tensor, *, flip: bool = True, colour: bool = True) -> Tensor:
    """Crop each image [n, C, H, W] and resize it, flip half of them, jitter most.

    With s uniform in [0.25, 1] and log r uniform within min(log 4/3, -log s) of 0, a crop shows
    the share s of the area: sqrt(s r) of the width and sqrt(s / r) of the height. With factors b
    (brightness), c (contrast) and d (saturation) in [0.6, 1.4] and a hue h in [-0.1, 0.1],

        Y' = b (c Y + (1 - c) mean of Y),    (I, Q)' = b c d R(2 pi h) (I, Q),    R a rotation;

    b = c = d = 1 and h = 0 for 20 % of the images. In 20 %, drawn apart, (I, Q)' = 0: grey.

    colour  three channels are colours; all channels are brightnesses Y of one image where it is
            False, or where there are not three

    The result is float32 in the range of the pixels: 0 to 255, or that of the batch for floats.
    """
    draws = torch.rand(DRAWS, len(images), device=images.device)
    signed = 2 * draws - 1
    jittered = draws[5] < JITTERED
    factors = 1 + STRENGTH * signed[6:9] * jittered
    with torch.autocast(images.device.type, enabled=False):
        pixels = _crop(images.float(), signed[:5], flip=flip)
        if not colour or images.shape[1] != 3:
            seen = _brighten(pixels, *factors[:2])
        else:
            angle = 2 * math.pi * HUE * signed[9] * jittered
            seen = _colour(pixels, factors, angle, draws[10] >= GREY)
    if images.is_floating_point():
        return seen.clamp_(*images.float().aminmax())
    return seen.clamp_(0, 255)


def table_view(
    values: Tensor, reference: Tensor, *, share: float = 0.3, among: Tensor | None = None
) -> Tensor:
    """Replace a share of the cells [n, D] by the same column's value in a random row.

    That keeps each column's distribution and breaks its ties to the others (SCARF, Bahri et al.,
    2022). The row, one a cell, is of `reference` [m, D], or of those rows of it in `among`.
    """
    picked = torch.randint(
        len(reference) if among is None else len(among), values.shape, device=values.device
    )
    if among is not None:
        picked = among.to(values.device)[picked]
    others = reference.gather(0, picked.to(reference.device)).to(values.device)
    return torch.where(torch.rand(values.shape, device=values.device) < share, others, values)


def words_view(tokens: Tensor, *, share: float = 0.2, pad: int = 0) -> Tensor:
    """Put padding in the place of a share of the words [n, L]; one word of each row stays.

    The others keep their places. Models leave padding out wherever it stands, so that a word that
    became padding weighs nothing in a bag, and a transformer attends to none of it.
    """
    words = (tokens >= FIRST_WORD) & (tokens != pad)
    draws = torch.rand(tokens.shape, device=tokens.device).masked_fill(~words, -1)
    last = draws.amax(1, keepdim=True)
    return tokens.masked_fill(words & (draws < share) & (draws < last), pad)


def _crop(pixels: Tensor, signed: Tensor, *, flip: bool) -> Tensor:
    """Return crops, resized and flipped in one bilinear sampling, by draws from [-1, 1)."""
    area, aspect, across, down, side = signed
    _, _, height, width = pixels.shape
    share = (1 + LEAST_AREA) / 2 + (1 - LEAST_AREA) / 2 * area
    reach = share.log().neg().clamp_max(math.log(MOST_ASPECT))
    stretch = (aspect * reach / 2).exp()
    wide, tall = share.sqrt() * stretch, share.sqrt() / stretch
    middle, centre = (1 - wide) * across, (1 - tall) * down
    if flip:
        wide = wide.copysign(side)
    x = middle[:, None] + wide[:, None] * _centres(width, pixels.device)
    y = centre[:, None] + tall[:, None] * _centres(height, pixels.device)
    grid = torch.stack(torch.broadcast_tensors(x[:, None, :], y[:, :, None]), 3)
    return F.grid_sample(pixels, grid, padding_mode="border", align_corners=False)


def _centres(size: int, device: torch.device) -> Tensor:
    """Return where the middles of pixels lie if the image spans [-1, 1]."""
    return torch.linspace(1 / size - 1, 1 - 1 / size, size, device=device)


def _brighten(pixels: Tensor, brightness: Tensor, contrast: Tensor) -> Tensor:
    """Return b (c x + (1 - c) mean of x)."""
    level = brightness * (1 - contrast) * pixels.mean((1, 2, 3))
    return level.view(-1, 1, 1, 1) + (brightness * contrast).view(-1, 1, 1, 1) * pixels


def _colour(pixels: Tensor, factors: Tensor, angle: Tensor, coloured: Tensor) -> Tensor:
    """Return the jittered colours: all that is done to them is one linear map an image."""
    brightness, contrast, saturation = factors
    parts = _parts(pixels.device)
    light = brightness * contrast
    chroma = light * saturation * coloured
    weights = torch.stack([light, chroma * angle.cos(), chroma * angle.sin()], 1)
    maps = (weights @ parts).view(-1, 3, 3)
    luma = pixels.mean((2, 3)) @ parts[0, :3]
    level = brightness * (1 - contrast) * luma
    return torch.baddbmm(level[:, None, None], maps, pixels.flatten(2)).view_as(pixels)


@functools.cache  # a copy to the device at each view would wait for it
def _parts(device: torch.device) -> Tensor:
    """Return maps of colours [3, 9]: brightness alone, colour alone, colour by a right angle."""
    yiq = torch.tensor(YIQ, dtype=torch.float64)
    parts = torch.zeros(3, 3, 3, dtype=torch.float64)
    parts[0, 0, 0] = parts[1, 1, 1] = parts[1, 2, 2] = parts[2, 2, 1] = 1
    parts[2, 1, 2] = -1
    return (yiq.inverse() @ parts @ yiq).flatten(1).float().to(device)
