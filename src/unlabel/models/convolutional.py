"""Convolutional bottom models for small images.

convnet   two convolutions, trains in seconds on a CPU
vgg16     with batch normalisation (Simonyan and Zisserman, 2015)
resnet18  in the form used for 32 x 32 images (He et al., 2016)
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from unlabel.models.registry import BOTTOMS, BottomModel, Shape, need_rank

#: Output channels of each convolution of VGG16, block by block; a 2x2 pooling ends a block.
VGG_BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
#: Input channels, output channels and stride of each stage of ResNet18.
RESNET_STAGES = ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))


def convnet(shape: Shape) -> nn.Module:
    """Build two 3x3 convolutions, each halving the image, and one layer to a width of 64."""
    channels, height, width = need_rank("convnet", shape, 3)
    body = nn.Sequential(*_blocks(channels, ((16,), (32,))), nn.Flatten())
    with torch.no_grad():
        flat = body.eval()(torch.zeros(1, channels, height, width)).shape[1]
    return nn.Sequential(*body, nn.Linear(flat, 64), nn.ReLU()).train()


def vgg16(shape: Shape) -> nn.Module:
    """Build the 13 convolutions of VGG16; embeddings of width 512."""
    channels, _, _ = need_rank("vgg16", shape, 3)
    return nn.Sequential(*_blocks(channels, VGG_BLOCKS), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def resnet18(shape: Shape) -> nn.Module:
    """Build a ResNet18 with a 3x3 stem: 20 convolutions, embeddings of width 512."""
    channels, _, _ = need_rank("resnet18", shape, 3)
    blocks = [
        Block(*sizes)
        for inputs, outputs, stride in RESNET_STAGES
        for sizes in ((inputs, outputs, stride), (outputs, outputs, 1))
    ]
    stem = _convolution(channels, 64)
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut: relu(conv(relu(conv(x))) + shortcut(x))."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output."""
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def _convolution(inputs: int, outputs: int) -> list[nn.Module]:
    """Return a 3x3 convolution that keeps the size, normalised and rectified."""
    conv = nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False)
    return [conv, nn.BatchNorm2d(outputs), nn.ReLU()]


def _blocks(channels: int, blocks: tuple[tuple[int, ...], ...]) -> list[nn.Module]:
    """Return blocks of convolutions, given the output channels of each, that end in a pooling."""
    layers: list[nn.Module] = []
    for block in blocks:
        for outputs in block:
            layers += _convolution(channels, outputs)
            channels = outputs
        # Rounding up: a strip of an image may be down to one column before the last block.
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
    return layers


for build, top, about in (
    (convnet, "linear", "2 convolutions, embeddings of 64; for a CPU"),
    (vgg16, "fc3", "13 convolutions, embeddings of 512; for a GPU"),
    (resnet18, "linear", "20 convolutions, embeddings of 512; for a GPU"),
):
    BOTTOMS.add(build.__name__, BottomModel(build, top, about))
