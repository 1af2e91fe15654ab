"""Liger-Kernel's normalisations, activations, rotations, attention and mixtures, each with its mathematics."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.yardsticks.operator_case import OperatorCase

TF32 = 2e-3
"""Two float32 operands cut to 10 bits of mantissa: up to 9.8e-4 relative each."""

TF32_DOT = "float32 dot products take tf32 operands, Triton's default"
EPS = 1e-6


def _root_mean_square(x: Tensor, eps: float = EPS) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)


def _weights(dtype: torch.dtype, *shape: int) -> Tensor:
    return (1 + 0.3 * torch.randn(shape)).to(dtype)


def _group_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.group_norm(x, 3, weight, bias, EPS)


def _modulated(x: Tensor, weight: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    normed = _root_mean_square(x) * weight
    return normed * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


def _poly_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    powers = [_root_mean_square(x**power) for power in (3, 2, 1)]
    return sum((w * p for w, p in zip(weight, powers, strict=True)), start=bias)


def _attention_residual(values: Tensor, query: Tensor, weight: Tensor) -> Tensor:
    scores = (_root_mean_square(values) * weight * query).sum(-1)
    return (torch.softmax(scores, 0).unsqueeze(-1) * values).sum(0)


def _add_rms(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    total = x + residual
    return _root_mean_square(total) * weight, total


def normalisation_cases(ops: ModuleType) -> list[OperatorCase]:
    """Rows of 77 and 130 columns: neither a power of two nor a multiple of 16."""

    def rows(dtype: torch.dtype) -> tuple[Any, ...]:
        return torch.randn(13, 77, dtype=dtype), _weights(dtype, 77)

    def rows_with_bias(dtype: torch.dtype) -> tuple[Any, ...]:
        return *rows(dtype), torch.randn(77, dtype=dtype)

    return [
        OperatorCase(
            "rms_norm",
            rows,
            lambda x, w: ops.LigerRMSNormFunction.apply(x, w, EPS),
            lambda x, w: _root_mean_square(x) * w,
        ),
        OperatorCase(
            "rms_norm gemma",
            rows,
            lambda x, w: ops.LigerRMSNormFunction.apply(x, w, EPS, 1.0, "gemma", False),
            lambda x, w: _root_mean_square(x) * (1 + w),
        ),
        OperatorCase(
            "layer_norm",
            rows_with_bias,
            lambda x, w, b: ops.LigerLayerNormFunction.apply(x, w, b, EPS),
            lambda x, w, b: F.layer_norm(x, (77,), w, b, EPS),
        ),
        OperatorCase(
            "group_norm",
            lambda d: (torch.randn(2, 6, 43, dtype=d), _weights(d, 6), torch.randn(6, dtype=d)),
            lambda x, w, b: ops.LigerGroupNormFunction.apply(x, w, b, 6, 3, EPS),
            _group_norm,
        ),
        OperatorCase(
            "fused_add_rms_norm",
            lambda d: (torch.randn(7, 130, dtype=d), torch.randn(7, 130, dtype=d), _weights(d, 130)),
            lambda x, r, w: ops.LigerFusedAddRMSNormFunction.apply(x, r, w, EPS),
            _add_rms,
        ),
        OperatorCase(
            "modulated_rms_norm",
            lambda d: (
                torch.randn(2, 5, 77, dtype=d),
                _weights(d, 77),
                torch.randn(2, 77, dtype=d),
                torch.randn(2, 77, dtype=d),
            ),
            lambda x, w, s, t: ops.LigerModulatedRMSNormFunction.apply(x, w, s, t, EPS),
            _modulated,
        ),
        OperatorCase(
            "poly_norm",
            lambda d: (torch.randn(9, 77, dtype=d), _weights(d, 3), torch.randn((), dtype=d)),
            lambda x, w, b: ops.LigerPolyNormFunction.apply(x, w, b, EPS),
            _poly_norm,
        ),
        OperatorCase(
            "dyt",
            lambda d: (
                torch.randn(11, 77, dtype=d),
                torch.randn(1, dtype=d),
                _weights(d, 77),
                torch.randn(77, dtype=d),
            ),
            lambda x, a, g, b: ops.LigerDyTFunction.apply(x, a, g, b),
            lambda x, a, g, b: g * torch.tanh(a * x) + b,
        ),
        OperatorCase(
            "attn_res",
            lambda d: (torch.randn(5, 2, 7, 40, dtype=d), torch.randn(40, dtype=d), _weights(d, 40)),
            lambda v, q, w: ops.LigerAttnResFunction.apply(v, q, w, EPS),
            _attention_residual,
        ),
    ]


def activation_cases(ops: ModuleType) -> list[OperatorCase]:
    def pair(dtype: torch.dtype) -> tuple[Any, ...]:
        return torch.randn(3, 5, 77, dtype=dtype), torch.randn(3, 5, 77, dtype=dtype)

    def sparsemax(x: Tensor) -> Tensor:
        """Euclidean projection of each row onto the simplex."""
        ordered, _ = x.sort(-1, descending=True)
        ranks = torch.arange(1, x.shape[-1] + 1, dtype=x.dtype)
        sums = ordered.cumsum(-1)
        support = (1 + ranks * ordered > sums).sum(-1, keepdim=True)
        threshold = (sums.gather(-1, support - 1) - 1) / support
        return (x - threshold).clamp(min=0)

    return [
        OperatorCase("swiglu", pair, lambda a, b: ops.LigerSiLUMulFunction.apply(a, b), lambda a, b: F.silu(a) * b),
        OperatorCase(
            "swiglu fused gate and up",
            lambda d: (torch.randn(15, 154, dtype=d),),
            lambda y: ops.LigerFusedGateUpSiLUMulFunction.apply(y),
            lambda y: F.silu(y[..., :77]) * y[..., 77:],
        ),
        OperatorCase(
            "geglu",
            pair,
            lambda a, b: ops.LigerGELUMulFunction.apply(a, b),
            lambda a, b: F.gelu(a, approximate="tanh") * b,
        ),
        OperatorCase(
            "relu_squared",
            lambda d: (torch.randn(9, 77, dtype=d),),
            lambda x: ops.LigerReLUSquaredFunction.apply(x),
            lambda x: torch.relu(x).square(),
        ),
        OperatorCase(
            "softmax",
            lambda d: (torch.randn(9, 77, dtype=d),),
            lambda x: ops.LigerSoftmaxFunction.apply(x),
            lambda x: torch.softmax(x, -1),
        ),
        OperatorCase(
            "sparsemax",
            lambda d: (torch.randn(9, 77, dtype=d),),
            lambda x: ops.LigerSparsemaxFunction.apply(x, -1),
            sparsemax,
        ),
        OperatorCase(
            "embedding",
            lambda d: (torch.randn(23, 77, dtype=d), torch.randint(0, 23, (4, 9))),
            lambda table, index: ops.LigerEmbeddingFunction.apply(table, index),
            lambda table, index: F.embedding(index, table),
        ),
    ]


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


def _angles(dtype: torch.dtype, *shape: int) -> tuple[Tensor, Tensor]:
    """cos and sin tables whose two halves are the same, as rotary embeddings have them."""
    half = torch.rand(*shape[:-1], shape[-1] // 2) * 2 * math.pi
    both = torch.cat([half, half], -1)
    return both.cos().to(dtype), both.sin().to(dtype)


def rotation_cases(ops: ModuleType) -> list[OperatorCase]:
    sections = (3, 5, 4)

    def heads(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        return torch.randn(2, 6, 7, 24, dtype=dtype), torch.randn(2, 2, 7, 24, dtype=dtype)

    def rope(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        return _rotate(q, cos.unsqueeze(1), sin.unsqueeze(1)), _rotate(k, cos.unsqueeze(1), sin.unsqueeze(1))

    def multimodal(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """Channels take their angle from time, height or width by section, twice over."""
        picked = [torch.cat([part[index % 3] for index, part in enumerate(table.split(sections * 2, -1))], -1)
                  for table in (cos, sin)]  # fmt: skip
        return rope(q, k, *picked)

    def llama4(q: Tensor, k: Tensor, angles: Tensor) -> tuple[Tensor, Tensor]:
        turn = torch.polar(torch.ones_like(angles), angles)[None, :, None, :]

        def turned(x: Tensor) -> Tensor:
            return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()) * turn).flatten(-2)

        return turned(q), turned(k)

    return [
        OperatorCase(
            "rope",
            lambda d: (*heads(d), *_angles(d, 1, 7, 24)),
            lambda q, k, c, s: ops.LigerRopeFunction.apply(q, k, c, s),
            rope,
            constants=(2, 3),
        ),
        OperatorCase(
            "qwen2vl_mrope",
            lambda d: (*heads(d), *_angles(d, 3, 2, 7, 24)),
            lambda q, k, c, s: ops.LigerQwen2VLMRopeFunction.apply(q, k, c, s, list(sections)),
            multimodal,
            constants=(2, 3),
        ),
        OperatorCase(
            "llama4_rope",
            lambda d: (
                torch.randn(2, 7, 6, 24, dtype=d),
                torch.randn(2, 7, 2, 24, dtype=d),
                torch.rand(7, 12, dtype=torch.float32) * 6,
            ),
            lambda q, k, a: ops.LigerLlama4RopeFunction.apply(q, k, torch.polar(torch.ones_like(a), a)),
            llama4,
            constants=(2,),
        ),
    ]


def attention_cases(ops: ModuleType) -> list[OperatorCase]:
    def neighborhood(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Each query sees the keys at most three places away."""
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        places = torch.arange(q.shape[-2])
        far = (places[:, None] - places[None, :]).abs() > 3
        return torch.softmax(scores.masked_fill(far, -math.inf), -1) @ v

    def multi_token(scores: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        probabilities = torch.softmax(scores.masked_fill(future, -math.inf), -1)
        return F.conv2d(probabilities, weight, bias, padding=1).masked_fill(future, 0)

    return [
        OperatorCase(
            "fused_neighborhood_attention",
            lambda d: tuple(torch.randn(2, 3, 21, 20, dtype=d) for _ in range(3)),
            lambda q, k, v: ops.LigerFusedNeighborhoodAttentionFunction.apply(q, k, v, 7, 1, None),
            neighborhood,
            tolerances={"float32": 2 * TF32},
            why=f"{TF32_DOT}; two of them in a row",
        ),
        OperatorCase(
            "multi_token_attention",
            lambda d: (
                torch.randn(2, 3, 13, 13, dtype=d),
                torch.randn(4, 3, 3, 3, dtype=d),
                torch.randn(4, dtype=d),
            ),
            lambda s, w, b: ops.LigerMultiTokenAttentionFunction.apply(s, w, b, 1, 1),
            multi_token,
        ),
    ]
