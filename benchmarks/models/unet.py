"""U-Net: convolutions without padding, max-pooling down, transposed convolutions up, cropped copies across."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .step import RealModel


def double_convolution(channels_in: int, channels: int) -> nn.Sequential:
    """Two 3x3 convolutions, each with a ReLU; every one takes two pixels off height and width."""
    first, second = nn.Conv2d(channels_in, channels, 3), nn.Conv2d(channels, channels, 3)
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU())


class UNet(nn.Module):
    """[batch, 1, 572, 572] → [batch, classes, 388, 388]

    Source: Ronneberger, Fischer, Brox, "U-Net: Convolutional Networks for Biomedical Image Segmentation" (2015),
        figure 1: four levels down and up, 64 to 1,024 channels, two classes
    """

    def __init__(self, width: int = 64, levels: int = 4, classes: int = 2) -> None:
        super().__init__()
        channels = [width << level for level in range(levels + 1)]
        pairs = list(itertools.pairwise(channels))
        self.first = double_convolution(1, width)
        self.down = nn.ModuleList(double_convolution(above, below) for above, below in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(below, above, 2, stride=2) for above, below in reversed(pairs))
        self.join = nn.ModuleList(double_convolution(below, above) for above, below in reversed(pairs))
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, image: Tensor) -> Tensor:
        levels = [self.first(image)]
        for down in self.down:
            levels.append(down(F.max_pool2d(levels[-1], 2)))
        x = levels.pop()
        for up, join in zip(self.up, self.join, strict=True):
            x = up(x)
            x = join(torch.cat([cropped(levels.pop(), x.shape[-1]), x], dim=1))
        return self.last(x)


def cropped(image: Tensor, size: int) -> Tensor:
    """The middle `size` rows and columns."""
    margin = (image.shape[-1] - size) // 2
    return image[..., margin : margin + size, margin : margin + size]


def build(**changes: Any) -> nn.Module:
    return UNet(**changes)


def predict(model: nn.Module, image: Tensor, classes: Tensor) -> Tensor:
    return model(image)


def loss(model: nn.Module, image: Tensor, classes: Tensor) -> Tensor:
    """Cross-entropy of each pixel's class, in float32."""
    return F.cross_entropy(model(image).float(), classes)


MODEL = RealModel(
    title="U-Net",
    origin="written out after Ronneberger, Fischer, Brox 2015",
    batch="4 images of 572 x 572",
    inputs="bf16[4,1,572,572],i64[4,388,388]<2",
    parameters=31_030_658,
    build=build,
    predict=predict,
    loss=loss,
    small=({"width": 8, "levels": 2}, "bf16[1,1,60,60],i64[1,20,20]<2"),
)
