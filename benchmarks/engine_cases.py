"""The launches on which the engine is timed against Triton's interpreter, each with its check.

The kernels are the plain ones that tutorials teach: one program a row or a tile, no tuning.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl


@dataclass(frozen=True)
class EngineCase:
    """One launch: what to call, what it must give, and the ratio that is asked for.

    Args:
        launch: calls `kernel[grid](...)` through the given function, so that it can be traced
        result, expected: compared within `tolerance` (absolute and relative)
        tensor_bytes: of all tensors of the launch
    """

    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    constexprs: dict[str, Any]
    result: torch.Tensor
    expected: Callable[[], torch.Tensor]
    tolerance: float

    @property
    def tensor_bytes(self) -> int:
        tensors = (argument for argument in self.arguments if isinstance(argument, torch.Tensor))
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out[i] = x[i] + y[i]

    Tensors   x, y, out [n] f32, contiguous, each moved once
    Tile      BLOCK elements a program
    Mask      i < n
    """
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(y_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x + y, mask=mask)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    """out[r, c] = exp(x[r, c] - max_r) / sum_c exp(x[r, c] - max_r)

    Tensors   x, out [rows, columns] f32, contiguous, each moved once
    Tile      one row a program, BLOCK >= columns
    Mask      c < columns; padding lanes hold -inf
    """
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=mask, other=-float("inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * columns + lanes, numerator / tl.sum(numerator, axis=0), mask=mask)


@triton.jit
def layer_norm_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    """out[r, c] = (x[r, c] - mean_r) / sqrt(var_r + eps) * weight[c] + bias[c]

    Tensors   x, out [rows, columns] f32, contiguous, each moved once; weight, bias [columns] f32
    Tile      one row a program, BLOCK >= columns
    Mask      c < columns; padding lanes hold 0 in both sums
    """
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / columns
    weight = tl.load(weight_ptr + lanes, mask=mask)
    bias = tl.load(bias_ptr + lanes, mask=mask)
    out = centred * (1 / tl.sqrt(variance + eps)) * weight + bias
    tl.store(out_ptr + row * columns + lanes, out, mask=mask)


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    """c[m, n] = sum_k a[m, k] * b[k, n]

    Tensors   a [M, K], b [K, N], c [M, N] f16 or f32, contiguous
    Tile      BLOCK_M x BLOCK_N a program, BLOCK_K at a time
    Mask      m < M, n < N, k < K
    """
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * K + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * N + columns[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (inner[None, :] < K - k), other=0.0)
        b = tl.load(b_ptrs, mask=(inner[:, None] < K - k) & (columns[None, :] < N), other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * N
    c_mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total.to(c_ptr.dtype.element_ty), mask=c_mask)


@triton.jit
def attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    S,
    scale,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    HEAD: tl.constexpr,
):
    """out[b, m, :] = softmax_n(scale * q[b, m, :] . k[b, n, :]) @ v[b, n, :], by the online maximum

    Tensors   q, k, v, out [heads, S, HEAD] f16, contiguous, heads counted over the batch
    Tile      BLOCK_M queries of one head a program, BLOCK_N keys at a time
    Mask      m < S, n < S
    """
    queries = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    base = tl.program_id(1) * S * HEAD
    depth = tl.arange(0, HEAD)
    q_mask = queries[:, None] < S
    q = tl.load(q_ptr + base + queries[:, None] * HEAD + depth[None, :], mask=q_mask, other=0.0)
    largest = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    denominator = tl.zeros((BLOCK_M,), dtype=tl.float32)
    total = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    for first in range(0, S, BLOCK_N):
        keys = first + tl.arange(0, BLOCK_N)
        kv_mask = keys[:, None] < S
        k = tl.load(k_ptr + base + keys[:, None] * HEAD + depth[None, :], mask=kv_mask, other=0.0)
        v = tl.load(v_ptr + base + keys[:, None] * HEAD + depth[None, :], mask=kv_mask, other=0.0)
        scores = tl.where(keys[None, :] < S, tl.dot(q, tl.trans(k)) * scale, -float("inf"))
        newest = tl.maximum(largest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - newest[:, None])
        correction = tl.exp2(largest - newest)
        denominator = denominator * correction + tl.sum(weights, axis=1)
        total = tl.dot(weights.to(tl.float16), v, total * correction[:, None])
        largest = newest
    total = total / denominator[:, None]
    tl.store(out_ptr + base + queries[:, None] * HEAD + depth[None, :], total.to(tl.float16), mask=q_mask)


def _normal(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def add() -> EngineCase:
    n, block = 2**24, 1024
    x, y, out = _normal(n), _normal(n, seed=1), torch.empty(n)
    return EngineCase(add_kernel, (triton.cdiv(n, block),), (x, y, out, n), {"BLOCK": block}, out, lambda: x + y, 0.0)


def softmax() -> EngineCase:
    rows, columns = 4096, 1024
    x = _normal(rows, columns)
    out = torch.empty_like(x)
    arguments = (x, out, columns)
    return EngineCase(softmax_kernel, (rows,), arguments, {"BLOCK": columns}, out, lambda: x.softmax(1), 1e-6)


def layer_norm() -> EngineCase:
    rows, columns = 4096, 1024
    x, weight, bias = _normal(rows, columns), _normal(columns, seed=1), _normal(columns, seed=2)
    out = torch.empty_like(x)
    arguments = (x, weight, bias, out, columns, 1e-5)

    def expected() -> torch.Tensor:
        return torch.nn.functional.layer_norm(x, (columns,), weight, bias, 1e-5)

    return EngineCase(layer_norm_kernel, (rows,), arguments, {"BLOCK": columns}, out, expected, 1e-5)


def matmul() -> EngineCase:
    size = 512
    a, b = _normal(size, size, dtype=torch.float16), _normal(size, size, dtype=torch.float16, seed=1)
    c = torch.empty_like(a)
    blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32}
    grid = (size // blocks["BLOCK_M"], size // blocks["BLOCK_N"])
    arguments = (a, b, c, size, size, size)
    return EngineCase(matmul_kernel, grid, arguments, blocks, c, lambda: (a.double() @ b.double()).half(), 1e-3)


def attention() -> EngineCase:
    batch, heads, length, head = 2, 4, 512, 64
    shape = (batch * heads, length, head)
    q, k, v = (_normal(*shape, dtype=torch.float16, seed=seed) for seed in range(3))
    out = torch.empty_like(q)
    blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "HEAD": head}
    grid = (triton.cdiv(length, blocks["BLOCK_M"]), batch * heads)
    arguments = (q, k, v, out, length, math.log2(math.e) / math.sqrt(head))

    def expected() -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double()).half()

    return EngineCase(attention_kernel, grid, arguments, blocks, out, expected, 2e-3)


CASES: dict[str, tuple[Callable[[], EngineCase], float]] = {
    "add 2^24": (add, 30.0),
    "softmax 4096x1024": (softmax, 20.0),
    "layer norm 4096x1024": (layer_norm, 20.0),
    "matmul 512^3": (matmul, 5.0),
    "attention 2x4x512x64": (attention, 5.0),
}
"""Name → the case and how many times faster than the interpreter the engine is meant to be."""
