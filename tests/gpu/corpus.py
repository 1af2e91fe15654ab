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


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v)


def causal_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def masked_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def grouped_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


def heads_of_rows(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    batch, length, width = x.shape
    q, k, v = (part.view(batch, length, 8, -1).transpose(1, 2) for part in (x @ w).chunk(3, -1))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)


def thrice(text: str) -> str:
    return ",".join([text] * 3)


ATTENTION: dict[str, tuple[Callable[..., Any], str]] = {
    "attention_bf16": (attention, thrice("bf16[2,8,512,64]")),
    "attention_f16_long_head": (attention, thrice("f16[2,8,512,256]")),
    "attention_f32": (attention, thrice("f32[2,8,512,64]")),
    "attention_f64": (attention, thrice("f64[2,8,128,64]")),
    "attention_odd_head": (attention, thrice("bf16[2,8,512,100]")),
    "attention_f32_odd_head": (causal_attention, thrice("f32[2,8,512,63]")),
    "attention_3d": (attention, thrice("bf16[8,512,64]")),
    "causal_attention": (causal_attention, thrice("bf16[2,8,512,128]")),
    "causal_attention_of_few": (causal_attention, "bf16[2,8,64,64],bf16[2,8,512,64],bf16[2,8,512,64]"),
    "masked_attention": (masked_attention, thrice("bf16[2,8,500,64]") + ",bool[500,500]"),
    "masked_attention_f32": (masked_attention, thrice("f32[2,8,500,64]") + ",bool[2,1,500,500]"),
    "biased_attention": (masked_attention, thrice("bf16[2,8,512,64]") + ",bf16[2,8,512,512]"),
    "biased_attention_f32": (masked_attention, thrice("f32[2,8,500,64]") + ",f32[1,8,500,500]"),
    "grouped_attention": (grouped_attention, "bf16[2,8,512,64],bf16[2,2,512,64],bf16[2,2,512,64]"),
    "grouped_attention_f32": (grouped_attention, "f32[2,8,512,64],f32[2,2,512,64],f32[2,2,512,64]"),
    "heads_of_rows": (heads_of_rows, "bf16[2,512,512],bf16[512,1536]"),
}

CORPUS: dict[str, tuple[Callable[..., Any], str]] = {
    "add_relu": (add_relu, "f32[100000],f32[100000]"),
    "softmax": (softmax, "bf16[4096,4096]"),
    "rmsnorm": (rmsnorm, "bf16[4096,8192],bf16[8192]"),
    "gelu_mlp": (gelu_mlp, "bf16[2048,1024],bf16[1024,4096],bf16[4096,1024]"),
    "cross_entropy": (cross_entropy, "bf16[2048,32768],i64[2048]<32768"),
    **ATTENTION,
}

SMALL = {
    "add_relu": "f32[100000],f32[100000]",
    "softmax": "bf16[128,1000]",
    "rmsnorm": "bf16[64,1024],bf16[1024]",
    "gelu_mlp": "bf16[64,128],bf16[128,256],bf16[256,64]",
    "cross_entropy": "bf16[128,1000],i64[128]<1000",
}
"""Sizes at which the generated kernels are executed on the engine too."""
