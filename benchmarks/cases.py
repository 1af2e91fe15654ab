"""The functions that the benchmarks observe, from two pointwise ops to a Llama-sized transformer block.

`tilesight observe benchmarks/cases.py:softmax --inputs "bf16[4096,4096]"`; INPUTS holds each case's
inputs in that form. Sizes: 100,000 elements do not divide into tiles, 4,096 columns are a model's
hidden size, and the block is Llama 3 8B's.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HEAD_DIM = 128

INPUTS = {
    "add_relu": "f32[100000],f32[100000]",
    "softmax": "bf16[4096,4096]",
    "rmsnorm": "bf16[4096,8192],bf16[8192]",
    "gelu_mlp": "bf16[2048,1024],bf16[1024,4096],bf16[4096,1024]",
    "cross_entropy": "bf16[2048,32768],i64[2048]<32768",
    "TransformerBlock": "bf16[2,2048,4096]",
}


def add_relu(x: Tensor, y: Tensor) -> Tensor:
    """max(x + y, 0)"""
    return torch.relu(x + y)


def softmax(x: Tensor) -> Tensor:
    """Softmax over the last axis."""
    return torch.softmax(x, -1)


def rmsnorm(x: Tensor, weight: Tensor) -> Tensor:
    """x · weight / √(mean(x²) + 1e-6) over the last axis."""
    return F.rms_norm(x, (x.shape[-1],), weight, 1e-6)


def gelu_mlp(x: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """gelu(x · up) · down"""
    return F.gelu(x @ up) @ down


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy of rows of logits against class indices."""
    return F.cross_entropy(logits, targets)


class TransformerBlock(nn.Module):
    """One Llama 3 8B block: causal grouped-query attention and a SwiGLU MLP, each after an RMSNorm.

    Rotary embedding is left out: its tables come from the model, not from the block.
    """

    def __init__(self, width: int = 4096, heads: int = 32, kv_heads: int = 8, hidden: int = 14336) -> None:
        super().__init__()
        bf16 = torch.bfloat16
        self.attention_norm = nn.RMSNorm(width, eps=1e-5, dtype=bf16)
        self.query = nn.Linear(width, heads * HEAD_DIM, bias=False, dtype=bf16)
        self.key = nn.Linear(width, kv_heads * HEAD_DIM, bias=False, dtype=bf16)
        self.value = nn.Linear(width, kv_heads * HEAD_DIM, bias=False, dtype=bf16)
        self.output = nn.Linear(heads * HEAD_DIM, width, bias=False, dtype=bf16)
        self.mlp_norm = nn.RMSNorm(width, eps=1e-5, dtype=bf16)
        self.gate = nn.Linear(width, hidden, bias=False, dtype=bf16)
        self.up = nn.Linear(width, hidden, bias=False, dtype=bf16)
        self.down = nn.Linear(hidden, width, bias=False, dtype=bf16)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.attention_norm(x))
        y = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))

    def attend(self, y: Tensor) -> Tensor:
        """Causal attention in which groups of query heads share a key and value head."""
        mixed = F.scaled_dot_product_attention(
            split_heads(self.query(y)),
            split_heads(self.key(y)),
            split_heads(self.value(y)),
            is_causal=True,
            enable_gqa=True,
        )
        return self.output(mixed.transpose(1, 2).flatten(2))


def split_heads(y: Tensor) -> Tensor:
    """[batch, tokens, heads · HEAD_DIM] → view [batch, heads, tokens, HEAD_DIM]"""
    return y.unflatten(2, (-1, HEAD_DIM)).transpose(1, 2)
