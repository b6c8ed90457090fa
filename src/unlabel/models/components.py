"""A bottom model that is fitted without labels: whitened principal components."""

from __future__ import annotations

from collections.abc import Iterable
from math import floor, prod
from typing import Literal, get_args

import torch
from torch import Tensor

from unlabel.config.checks import expect, one_of
from unlabel.models.registry import Fitted, Shape

Scale = Literal["standard", "quantile"]

#: Points a column at which its normal scores are kept.
KNOTS = 257
#: What is added to every variance, as a share of the largest: without it a direction in which rows
#: differ by rounding alone would become as large as any other.
RIDGE = 1e-6
#: Loadings this near to the largest count as equal to it, so that rounding decides no sign.
NEAR = 1 - 1e-6
#: Rows that are looked at together.
PIECE = 4096


class Components(Fitted):
    """Rows x of D numbers to their first W principal components, each of variance 1.

        h_j = v_j . (u - m) / sqrt(l_j + r),   W = max(1, floor(width D)),   r = 1e-6 l_1

    m and C = sum of (u - m)(u - m)' / (n - 1) are mean and covariance of the n training rows,
    l_1 >= l_2 >= .. the eigenvalues of C and v_j its eigenvectors, whose largest loading is
    positive. A row has u = x with the scale `standard`. With `quantile` it has the normal scores
    of its columns, which no outlier stretches:

        u = z_k where x = q_k, and linear in between;  z_k = Phi^-1((k + 1/2) / 257), k = 0 .. 256

    q_k is the k/256 quantile of the column, linear between order statistics. Where several are
    equal to x, u is the middle of the first and last z among them: 0 for a constant column.

    Nothing is trained. Before the fit h = 0, as it is where no two training rows differ. What a
    row has in the other D - W directions is never sent.
    """

    mean: Tensor
    projection: Tensor
    knots: Tensor
    scores: Tensor

    def __init__(self, shape: Shape, *, width: float = 0.5, scale: Scale = "standard") -> None:
        super().__init__()
        expect("width", width, 0 < width <= 1, "above 0 and at most 1")
        one_of("scale", scale, get_args(Scale))
        columns = prod(shape)
        self.scale: Scale = scale
        self.width = max(1, floor(width * columns + 1e-9))  # 0.29 * 100 is 28.999..
        self.register_buffer("mean", torch.zeros(columns))
        self.register_buffer("projection", torch.zeros(columns, self.width))
        if scale == "quantile":
            share = (torch.arange(KNOTS, dtype=torch.float64) + 0.5) / KNOTS
            self.register_buffer("knots", torch.zeros(columns, KNOTS))
            self.register_buffer("scores", torch.special.ndtri(share).float())

    @torch.no_grad()
    def fit(self, batches: Iterable[Tensor]) -> None:
        """Find the components, in float64; normal scores need all rows in memory at once."""
        pieces: Iterable[Tensor] = (x.detach().flatten(1).float().cpu() for x in batches)
        if self.scale == "quantile":
            rows = torch.cat([torch.empty(0, len(self.mean)), *pieces])
            self.knots.copy_(_quantiles(rows))
            knots, scores = self.knots.cpu(), self.scores.cpu()
            pieces = (_interpolate(x, knots, scores) for x in rows.split(PIECE))
        mean, covariance = _moments(pieces, len(self.mean))
        self.mean.copy_(mean)
        self.projection.copy_(_whitening(covariance, self.width))

    def forward(self, x: Tensor) -> Tensor:
        """Return h of each row."""
        values = x.flatten(1).float()
        if self.scale == "quantile":
            values = _interpolate(values, self.knots, self.scores)
        with torch.autocast(x.device.type, enabled=False):  # computed once, so speed is no reason
            embeddings: Tensor = (values - self.mean) @ self.projection
        return embeddings


def _moments(pieces: Iterable[Tensor], columns: int) -> tuple[Tensor, Tensor]:
    """Return mean and covariance of rows in one pass; both are 0 where there are none.

    Rows are taken less the first one: a constant column then has a variance of exactly 0, and
    one far from 0 does not lose its variance to rounding.
    """
    count, first = 0, torch.zeros(columns, dtype=torch.float64)
    total, products = torch.zeros_like(first), torch.zeros(columns, columns, dtype=torch.float64)
    for piece in pieces:
        rows = piece.double()
        if not count and len(rows):
            first = rows[0].clone()
        rows = rows - first
        total += rows.sum(0)
        products += rows.T @ rows
        count += len(rows)
    mean = total / max(count, 1)
    covariance = (products - count * mean.outer(mean)) / max(count - 1, 1)
    return first + mean, covariance


def _whitening(covariance: Tensor, width: int) -> Tensor:
    """Return [D, W] with the columns v_j / sqrt(l_j + r); see `Components`."""
    variances: Tensor
    vectors: Tensor
    variances, vectors = torch.linalg.eigh(covariance)
    variances, vectors = variances.flip(0)[:width].clamp_min(0), vectors.flip(1)[:, :width]
    if not variances[0] > 0:
        return torch.zeros_like(vectors)
    sizes = vectors.abs()
    largest = (sizes >= NEAR * sizes.amax(0)).int().argmax(0, keepdim=True)  # the first of them
    signs = vectors.gather(0, largest).sign()
    return vectors * signs / (variances + RIDGE * variances[0]).sqrt()


def _quantiles(rows: Tensor) -> Tensor:
    """Return the k/256 quantiles of every column, [D, 257]; 0 where there are no rows."""
    quantiles = torch.zeros(rows.shape[1], KNOTS, dtype=torch.float64)
    if not len(rows):
        return quantiles
    places = torch.arange(KNOTS, dtype=torch.float64) * (len(rows) - 1) / (KNOTS - 1)
    low, high = places.floor().long(), places.ceil().long()
    for column, knots in enumerate(quantiles):  # one at a time, to hold one more in memory
        ordered = rows[:, column].sort().values.double()
        knots.copy_(ordered[low] + (places - low) * (ordered[high] - ordered[low]))
    return quantiles


def _interpolate(x: Tensor, knots: Tensor, scores: Tensor) -> Tensor:
    """Return the normal scores of rows [n, D]; see `Components`."""
    columns = x.T.contiguous()
    last = knots.shape[1] - 1
    before = torch.searchsorted(knots, columns)  # knots that are smaller
    until = torch.searchsorted(knots, columns, right=True)  # and those that are equal
    low, high = (before - 1).clamp_min(0), before.clamp_max(last)
    start, end = knots.gather(1, low), knots.gather(1, high)
    # A value beyond all knots has the score of the outermost one.
    share = ((columns - start) / (end - start)).nan_to_num(0, 0, 0).clamp(0, 1)
    between = scores[low] + share * (scores[high] - scores[low])
    ties = (scores[high] + scores[(until - 1).clamp_min(0)]) / 2
    return torch.where(until > before, ties, between).T
