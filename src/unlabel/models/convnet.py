"""A small convolutional bottom that trains in seconds on a CPU."""

from __future__ import annotations

import torch
from torch import nn

from unlabel.models.registry import BOTTOMS, BottomModel, Shape, need_image


def convnet(shape: Shape) -> nn.Module:
    """Build two 3x3 convolutions, each halving the image, and one layer to a width of 64."""
    channels, height, width = need_image("convnet", shape)
    body = nn.Sequential(
        nn.Conv2d(channels, 16, 3, 1, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.Conv2d(16, 32, 3, 1, 1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2, ceil_mode=True),
        nn.Flatten(),
    )
    with torch.no_grad():
        flat = body.eval()(torch.zeros(1, channels, height, width)).shape[1]
    return nn.Sequential(*body, nn.Linear(flat, 64), nn.ReLU()).train()


BOTTOMS.add(
    "convnet", BottomModel(convnet, "linear", "2 convolutions, embeddings of 64; for a CPU")
)
