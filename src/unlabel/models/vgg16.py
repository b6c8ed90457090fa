"""VGG16 with batch normalisation (Simonyan and Zisserman, 2015), for small images."""

from __future__ import annotations

from torch import nn

from unlabel.models.registry import BOTTOMS, BottomModel, Shape, need_image

#: Output channels of each convolution, block by block; a 2x2 pooling ends a block.
BLOCKS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))


def vgg16(shape: Shape) -> nn.Module:
    """Build the 13 convolutions of VGG16; embeddings of width 512."""
    inputs, _, _ = need_image("vgg16", shape)
    layers: list[nn.Module] = []
    for block in BLOCKS:
        for outputs in block:
            layers += [
                nn.Conv2d(inputs, outputs, 3, 1, 1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(),
            ]
            inputs = outputs
        # Rounding up: a strip of an image may be down to one column before the last block.
        layers.append(nn.MaxPool2d(2, ceil_mode=True))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


BOTTOMS.add("vgg16", BottomModel(vgg16, "fc3", "13 convolutions, embeddings of 512; for a GPU"))
