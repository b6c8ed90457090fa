"""Layers as tables of numbers: what can be read off one, whatever invertible map it went through.

A bottom can send A h in place of h, with any invertible matrix A, and its top undo A: nothing is
forgotten, and a probe that goes by distances finds less. So layers are whitened first: whitened
rows of A h are those of h but for a rotation, which changes no distance.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from unlabel.models.registry import predicting
from unlabel.models.tops import Top

#: Directions with less of the largest variance than this are rounding, not signal: numbers of
#: single precision keep what is a millionth as large as the rest, and a top can read it.
LEAST_VARIANCE = 1e-13
#: The same in a layer of many units, where rare ones are noise.
LEAST_OF_UNITS = 1e-9
#: Share of the whole covariance in that within labels, which few rows may leave without inverse.
TOTAL_SHARE = 1e-2
#: Ridge on whitened rows, in units of the number of rows.
RIDGE = 1e-3


def whitened(train: Tensor, *others: Tensor, alike: bool = True) -> tuple[Tensor, ...]:
    """Return (x - mean) V D^(-1/2) of training rows and others, with the covariance V D V'.

    Mean and covariance are those of the training rows; directions without variance are left out.
    An invertible map of all rows changes the result by a rotation alone.

    alike  whether a column counts as much as any other, however small it is. A unit that hardly
           ever speaks is then as loud as the rest, which is right for what a party sends, and
           would be noise in a layer of many units
    """
    return _through(_whitening(train, alike), train, *others)


def told_apart(
    train: Tensor, labels: Tensor, forgotten: Sequence[int], *others: Tensor
) -> tuple[Tensor, ...]:
    """Return rows in units of how rows of one label differ: x (S_w + 0.01 S)^(-1/2), centred.

    S is the covariance of the training rows, S_w that within the labels that stay. What tells
    labels apart is large in these units, and a few labelled rows find it. Both covariances follow
    an invertible map, and columns are their common directions, each with its longer tail above 0;
    so such a map changes the result by rounding alone.
    """
    mean, whiten = _whitening(train)
    flat = (train.double() - mean) @ whiten
    stay = ~torch.isin(labels, torch.tensor(list(forgotten), dtype=labels.dtype))
    _, group = labels[stay].unique(return_inverse=True)
    sums = torch.zeros(int(group.max()) + 1 if len(group) else 0, flat.shape[1]).double()
    counts = torch.bincount(group, minlength=len(sums)).clamp_min(1)
    means = sums.index_add(0, group, flat[stay]) / counts[:, None]
    within = flat[stay] - means[group]
    scatter = within.T @ within / max(1, len(within))
    scatter.diagonal().add_(TOTAL_SHARE)  # the whole covariance is 1 here
    variances, directions = torch.linalg.eigh(scatter)
    turned = _through((mean, whiten @ (directions / variances.sqrt())), train, *others)
    side = torch.where(turned[0].pow(3).sum(0) < 0, -1.0, 1.0)
    return tuple(part * side for part in turned)


def _through(map_: tuple[Tensor, Tensor], *rows: Tensor) -> tuple[Tensor, ...]:
    mean, scale = map_
    return tuple((x.double() - mean) @ scale for x in rows)


def _whitening(train: Tensor, alike: bool = True) -> tuple[Tensor, Tensor]:
    """Return the mean and V D^(-1/2)."""
    exact = train.double()
    mean, tiny = exact.mean(0), torch.finfo(torch.float64).tiny
    centred = exact - mean
    size = centred.square().mean(0).sqrt()
    size = torch.where(size > 0, size, 1) if alike else torch.ones_like(size)
    centred /= size
    variances, directions = torch.linalg.eigh(centred.T @ centred / len(centred))
    least = LEAST_VARIANCE if alike else LEAST_OF_UNITS
    kept = variances > least * variances[-1].clamp_min(tiny)
    return mean, directions[:, kept] / variances[kept].sqrt() / size[:, None]


def standardised(train: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """Return (x - mean) / std of training rows and others; columns that never differ are 0."""
    exact = train.double()
    mean, std = exact.mean(0), exact.std(0)
    scale = torch.where(std > 0, 1 / std, 0.0)
    return tuple((x.double() - mean) * scale for x in (train, *others))


def ridge(x: Tensor, y: Tensor, strength: float = RIDGE) -> Tensor:
    """Return W = argmin |X W - Y|^2 + strength n |W|^2 of rows X, both about their means."""
    gram = x.T @ x
    gram.diagonal().add_(strength * len(x))
    weights: Tensor = torch.linalg.solve(gram, x.T @ y)
    return weights


def label_direction(
    train: Tensor, labels: Tensor, wanted: Sequence[int], strength: float = RIDGE
) -> Tensor:
    """Return weights [d, labels] that tell rows of each wanted label from all others, by ridge."""
    is_one = torch.stack([labels == label for label in wanted], 1).double()
    return ridge(train, is_one - is_one.mean(0), strength)


def explained(old: Sequence[Tensor], new: Sequence[Tensor], ridges: Sequence[float]) -> float:
    """Return how much of values can be read off a layer: R^2 on test rows, the mean over columns.

    old     values of training rows and of test rows, [n, columns] each
    new     the layer's training rows and test rows, [n, d] each, every column about its mean
    ridges  strengths that are tried, in units of the number of rows; the best counts

    R^2 = 1 - |t - t'|^2 / |t - mean t|^2, with t' = X W + mean by the ridge of the training rows.
    It is at least 0.
    """
    mean = old[0].mean(0)
    whole = (old[1] - old[1].mean(0)).square().sum(0).clamp_min(torch.finfo(torch.float64).tiny)
    shares = [
        1 - (old[1] - new[1] @ ridge(new[0], old[0] - mean, each) - mean).square().sum(0) / whole
        for each in ridges
    ]
    return float(torch.stack(shares).max(0).values.clamp_min(0).mean())


@torch.no_grad()
def hidden_layers(top: nn.Module, embeddings: Sequence[Tensor]) -> list[Tensor]:
    """Return what the linear layers of a top read, but for those that read embeddings themselves.

    So a linear top has none. Of a top with other kinds of layers only these are looked at.
    """
    read: list[Tensor] = []
    hooks = [
        part.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
        for part in top.modules()
        if isinstance(part, nn.Linear)
    ]
    try:
        with predicting(top):
            top(list(embeddings))
    finally:
        for hook in hooks:
            hook.remove()
    joined = top.joined(embeddings) if isinstance(top, Top) else torch.cat(list(embeddings), 1)
    return [
        layer.flatten(1)
        for layer in read
        if layer.shape != joined.shape or not torch.equal(layer, joined)
    ]
