"""Convolutions, pooling, resizing and blocks of image models."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.gpu.functions.sample import sample, strided


@sample("f32[8,3,64,64],f32[16,3,3,3],f32[16]")
@sample("f32[8,3,64,64],f32[16,3,3,3],f32[16]", backward=True)
@sample("f32[8,3,64,64],f32[16,3,3,3],f32[16]", dynamic=True)
@sample("bf16[8,64,32,32],bf16[64,64,3,3],bf16[64]")
def conv2d_relu(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.relu(F.conv2d(x, w, b, padding=1))


@sample("bf16[8,64,32,32],bf16[64,64,3,3]", mode="max-autotune-no-cudagraphs")
@sample(strided((8, 64, 32, 32), (65536, 1, 2048, 64), torch.bfloat16), "bf16[64,64,3,3]")
def conv2d(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(x, w, padding=1) * 2


@sample("f32[8,16,1000],f32[32,16,5],f32[32]")
@sample("f32[8,16,1000],f32[32,16,5],f32[32]", backward=True)
def conv1d(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.conv1d(x, w, b, stride=2).tanh()


@sample("f32[2,4,16,16,16],f32[8,4,3,3,3]")
@sample("f32[2,4,16,16,16],f32[8,4,3,3,3]", backward=True)
def conv3d(x: Tensor, w: Tensor) -> Tensor:
    return F.conv3d(x, w, padding=1).relu()


@sample("f32[4,32,16,16],f32[32,16,4,4],f32[16]")
@sample("f32[4,32,16,16],f32[32,16,4,4],f32[16]", backward=True)
def transposed(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.conv_transpose2d(x, w, b, stride=2, padding=1).relu()


@sample("f32[4,32,28,28],f32[32,1,7,7],f32[32]")
@sample("f32[4,32,28,28],f32[32,1,7,7],f32[32]", backward=True)
def depthwise(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(F.conv2d(x, w, b, padding=3, groups=32))


@sample("f32[4,32,28,28],f32[64,8,3,3]")
def grouped(x: Tensor, w: Tensor) -> Tensor:
    return F.conv2d(x, w, groups=4, dilation=2)


@sample("bf16[4,64,28,28],bf16[128,64,1,1],bf16[128]")
def conv_of_one(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.silu(F.conv2d(x, w, b))


@sample("f32[2,64,100],f32[64,1,4]", backward=True)
def causal_depthwise(x: Tensor, w: Tensor) -> Tensor:
    return F.silu(F.conv1d(F.pad(x, (3, 0)), w, groups=64))


@sample("f32[8,16,32,32]")
@sample("f32[8,16,32,32]", backward=True)
def largest_of_windows(x: Tensor) -> Tensor:
    return F.max_pool2d(x, 3, 2, 1)


@sample("f32[8,16,32,32]")
@sample("f32[8,16,32,32]", backward=True)
def mean_of_windows(x: Tensor) -> Tensor:
    return F.avg_pool2d(x, 2)


@sample("f32[8,16,31,33]")
@sample("f32[8,16,31,33]", backward=True)
def adaptive_pool(x: Tensor) -> Tensor:
    return F.adaptive_avg_pool2d(x, (7, 7))


@sample("f32[8,16,32,32]")
def other_pools(x: Tensor) -> tuple[Tensor, ...]:
    return F.adaptive_max_pool2d(x, 4), F.lp_pool2d(x, 2, 2), F.avg_pool2d(x, 3, ceil_mode=True)


@sample("f32[4,8,100]")
def pool1d(x: Tensor) -> Tensor:
    return F.max_pool1d(x, 2) + F.avg_pool1d(x, 2)


@sample("f32[4,3,32,32]")
@sample("f32[4,3,32,32]", backward=True)
@sample("f32[4,3,32,32]", dynamic=True)
def resize_nearest(x: Tensor) -> Tensor:
    return F.interpolate(x, scale_factor=2, mode="nearest")


@sample("f32[4,3,32,32]")
@sample("f32[4,3,32,32]", backward=True)
def resize_bilinear(x: Tensor) -> Tensor:
    return F.interpolate(x, size=(50, 70), mode="bilinear", align_corners=False)


@sample("f32[4,3,32,32]")
def resize_bicubic(x: Tensor) -> Tensor:
    return F.interpolate(x, size=(24, 24), mode="bicubic", antialias=False)


@sample("f32[2,3,16,16],f32[2,20,20,2]")
@sample("f32[2,3,16,16],f32[2,20,20,2]", backward=True)
def sample_grid(x: Tensor, grid: Tensor) -> Tensor:
    return F.grid_sample(x, grid.tanh(), align_corners=False)


@sample("f32[4,36,16,16]")
def shuffle_pixels(x: Tensor) -> Tensor:
    return F.pixel_shuffle(x, 3)


@sample("f32[4,8,16,16]")
def columns_of_windows(x: Tensor) -> Tensor:
    return F.fold(F.unfold(x, 3, padding=1), (16, 16), 3, padding=1)


@sample("f32[4,64,28,28]")
@sample("f32[4,64,28,28]", backward=True)
class ResidualBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(64, 64, 3, 1, 1, bias=False), nn.Conv2d(64, 64, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(64), nn.BatchNorm2d(64)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + x)


@sample("f32[2,32,32,32],f32[2,64]")
@sample("f32[2,32,32,32],f32[2,64]", backward=True)
class DiffusionBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(8, 32), nn.Conv2d(32, 32, 3, padding=1)
        self.time = nn.Linear(64, 64)

    def forward(self, x: Tensor, step: Tensor) -> Tensor:
        scale, shift = self.time(F.silu(step))[:, :, None, None].chunk(2, 1)
        return x + self.conv(F.silu(self.norm(x) * (1 + scale) + shift))


@sample("f32[2,3,64,64]")
@sample("f32[2,3,64,64]", backward=True)
class PatchEmbedding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 128, 16, 16)
        self.first = nn.Parameter(torch.zeros(1, 1, 128))
        self.places = nn.Parameter(torch.zeros(1, 17, 128))

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        return torch.cat((self.first.expand(x.shape[0], -1, -1), tokens), 1) + self.places
