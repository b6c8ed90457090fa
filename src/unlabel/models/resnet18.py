"""ResNet18 in the form used for 32 x 32 images (He et al., 2016)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from unlabel.models.registry import BOTTOMS, BottomModel, Shape, need_image


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


def resnet18(shape: Shape) -> nn.Module:
    """Build a ResNet18 with a 3x3 stem: 20 convolutions, embeddings of width 512."""
    channels, _, _ = need_image("resnet18", shape)
    blocks = [
        Block(inputs, outputs, stride)
        for stage_in, outputs, stage_stride in (
            (64, 64, 1),
            (64, 128, 2),
            (128, 256, 2),
            (256, 512, 2),
        )
        for inputs, stride in ((stage_in, stage_stride), (outputs, 1))
    ]
    return nn.Sequential(
        nn.Conv2d(channels, 64, 3, 1, 1, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        *blocks,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


BOTTOMS.add(
    "resnet18", BottomModel(resnet18, "linear", "20 convolutions, embeddings of 512; for a GPU")
)
