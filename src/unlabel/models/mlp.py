"""Fully connected layers, and a bottom model of them for tables."""

from __future__ import annotations

from itertools import pairwise
from math import prod

from torch import nn

from unlabel.models.registry import BOTTOMS, BottomModel, Shape


def dense(*widths: int, dropout: float = 0) -> nn.Sequential:
    """Build linear layers from each width to the next, with ReLU and dropout between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths[:-1]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        if dropout:
            layers.append(nn.Dropout(dropout))
    return nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))


def mlp(shape: Shape) -> nn.Module:
    """Build two hidden layers and embeddings of width 32; images are flattened first."""
    return nn.Sequential(nn.Flatten(), *dense(prod(shape), 64, 64, 32))


BOTTOMS.add("mlp", BottomModel(mlp, "linear", "three layers, embeddings of 32; for tables"))
