"""Small models with everything that makes split training hard to get right."""

from __future__ import annotations

from math import prod

from torch import nn


def plain_bottom(shape: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(prod(shape), 7), nn.Tanh(), nn.Linear(7, 5))


def norm_bottom(shape: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(shape[0], 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
        nn.Linear(4 * shape[1] * shape[2], 5),
    )  # fmt: skip


def dropout_bottom(shape: tuple[int, ...]) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(prod(shape), 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.4),
        nn.Linear(8, 5),
    )  # fmt: skip


def dropout_top(inputs: int, labels: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 9), nn.ReLU(), nn.Dropout(0.3), nn.Linear(9, labels))
