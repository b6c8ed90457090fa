"""A multilayer perceptron for tables."""

from __future__ import annotations

from math import prod

from torch import nn

from unlabel.models.registry import BOTTOMS, BottomModel, Shape


def mlp(shape: Shape) -> nn.Module:
    """Build two hidden layers and embeddings of width 32; images are flattened first."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(prod(shape), 64),
        nn.ReLU(),
        nn.Linear(64, 64),
        nn.ReLU(),
        nn.Linear(64, 32),
    )


BOTTOMS.add("mlp", BottomModel(mlp, "linear", "three layers, embeddings of 32; for tables"))
