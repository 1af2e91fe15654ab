"""The functions whose generated code must be the same with and without a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F


def add_relu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x + y)


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def rmsnorm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(x, (x.shape[-1],), w, 1e-6)


def gelu_mlp(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.gelu(x @ w) @ v


def cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits, target)


CORPUS: dict[str, tuple[Callable[..., Any], str]] = {
    "add_relu": (add_relu, "f32[100000],f32[100000]"),
    "softmax": (softmax, "bf16[4096,4096]"),
    "rmsnorm": (rmsnorm, "bf16[4096,8192],bf16[8192]"),
    "gelu_mlp": (gelu_mlp, "bf16[2048,1024],bf16[1024,4096],bf16[4096,1024]"),
    "cross_entropy": (cross_entropy, "bf16[2048,32768],i64[2048]<32768"),
}

SMALL = {
    "add_relu": "f32[100000],f32[100000]",
    "softmax": "bf16[128,1000]",
    "rmsnorm": "bf16[64,1024],bf16[1024]",
    "gelu_mlp": "bf16[64,128],bf16[128,256],bf16[256,64]",
    "cross_entropy": "bf16[128,1000],i64[128]<1000",
}
"""Sizes at which the generated kernels are executed on the engine too."""
