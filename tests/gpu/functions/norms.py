"""Softmax, normalisations and losses."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.gpu.functions.sample import sample


@sample("bf16[4096,4096]")
@sample("bf16[4096,4096]", backward=True)
@sample("bf16[4096,4096]", dynamic=True)
def softmax(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


@sample("f32[128,128256]")
def softmax_of_vocabulary(x: Tensor) -> Tensor:
    return torch.softmax(x, -1)


@sample("f32[64,100,33]")
def softmax_of_middle(x: Tensor) -> Tensor:
    return torch.softmax(x, 1)


@sample("bf16[8,16,256,256],bool[256,256]")
@sample("bf16[8,16,256,256],bool[256,256]", backward=True)
def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    return torch.softmax(scores.masked_fill(mask, float("-inf")), -1)


@sample("f32[2048,1000]")
@sample("f32[2048,1000]", backward=True)
def log_softmax(x: Tensor) -> Tensor:
    return F.log_softmax(x, -1)


@sample("bf16[4096,8192],bf16[8192]")
@sample("bf16[4096,8192],bf16[8192]", backward=True)
@sample("bf16[4096,8192],bf16[8192]", dynamic=True)
def rmsnorm(x: Tensor, w: Tensor) -> Tensor:
    return F.rms_norm(x, (x.shape[-1],), w, 1e-6)


@sample("bf16[2048,4096],bf16[2048,4096],bf16[4096]")
@sample("bf16[2048,4096],bf16[2048,4096],bf16[4096]", backward=True)
def add_rmsnorm_by_hand(x: Tensor, residual: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    y = (x + residual).float()
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * w, y.to(x.dtype)


@sample("bf16[4096,1024],bf16[1024],bf16[1024]")
@sample("bf16[4096,1024],bf16[1024],bf16[1024]", backward=True)
@sample("f32[64,128,768],f32[768],f32[768]", dynamic=True)
def layer_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.layer_norm(x, (x.shape[-1],), w, b)


@sample("bf16[4096,1024],bf16[4096,1024],bf16[1024],bf16[1024]", backward=True)
def layer_norm_of_sum_with_gelu(x: Tensor, y: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.gelu(F.layer_norm(x + y, (x.shape[-1],), w, b))


@sample("f32[8,64,32,32],f32[64],f32[64]")
@sample("f32[8,64,32,32],f32[64],f32[64]", backward=True)
def group_norm(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.group_norm(x, 8, w, b)


@sample("f32[8,32,56,56]")
def instance_norm(x: Tensor) -> Tensor:
    return F.instance_norm(x)


@sample("f32[32,64,28,28]")
@sample("f32[32,64,28,28]", backward=True)
class BatchNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(64)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(x))


@sample("f32[1024,256]")
@sample("f32[1024,256]", backward=True)
def normalise(x: Tensor) -> Tensor:
    return F.normalize(x, dim=-1)


@sample("bf16[2048,32768],i64[2048]<32768")
@sample("bf16[2048,32768],i64[2048]<32768", backward=True)
@sample("bf16[2048,32768],i64[2048]<32768", dynamic=True)
def cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits, target)


@sample("f32[1024,1000],i64[1024]<1000", backward=True)
def smoothed_cross_entropy(logits: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(logits, target, label_smoothing=0.1, ignore_index=0)


@sample("f32[4096,10],f32[4096,10]")
@sample("f32[4096,10],f32[4096,10]", backward=True)
def binary_cross_entropy(x: Tensor, y: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(x, y.sigmoid())


@sample("f32[100,100],f32[100,100]", backward=True)
def regression_losses(x: Tensor, y: Tensor) -> Tensor:
    return F.mse_loss(x, y) + F.l1_loss(x, y) + F.smooth_l1_loss(x, y) + F.huber_loss(x, y)


@sample("f32[512,100],f32[512,100]")
@sample("f32[512,100],f32[512,100]", backward=True)
def distillation(student: Tensor, teacher: Tensor) -> Tensor:
    return F.kl_div(F.log_softmax(student, -1), F.softmax(teacher, -1), reduction="batchmean")


@sample("f32[256,128],f32[256,128]", backward=True)
def contrastive(x: Tensor, y: Tensor) -> Tensor:
    scores = F.normalize(x, dim=-1) @ F.normalize(y, dim=-1).t()
    return F.cross_entropy(scores / 0.07, torch.arange(x.shape[0], device=x.device))


@sample("f32[512,64],f32[512,64],f32[512,64]", backward=True)
def triplet(anchor: Tensor, near: Tensor, far: Tensor) -> Tensor:
    return F.triplet_margin_loss(anchor, near, far) + F.cosine_similarity(anchor, near).mean()


@sample("f32[300,40],i64[300]<40", backward=True)
def focal_loss(logits: Tensor, target: Tensor) -> Tensor:
    chance = F.log_softmax(logits, -1).gather(1, target[:, None]).squeeze(1)
    return (-((1 - chance.exp()) ** 2) * chance).mean()
