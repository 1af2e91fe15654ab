"""Kernels as people write them, run on the engine and, where there is one, on a GPU.

Each launcher takes tensors and returns what its kernel wrote, on the device where they live.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, M, N, K, PRECISION: tl.constexpr, SIDE: tl.constexpr, DEPTH: tl.constexpr):
    rows = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
    columns = tl.program_id(1) * SIDE + tl.arange(0, SIDE)
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for first in range(0, K, DEPTH):
        inner = first + tl.arange(0, DEPTH)
        a_mask = (rows[:, None] < M) & (inner[None, :] < K)
        b_mask = (inner[:, None] < K) & (columns[None, :] < N)
        a = tl.load(a_ptr + rows[:, None] * K + inner[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * N + columns[None, :], mask=b_mask, other=0.0)
        total = tl.dot(a, b, total, input_precision=PRECISION)
    c_mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total.to(c_ptr.dtype.element_ty), mask=c_mask)


def matmul(a: torch.Tensor, b: torch.Tensor, precision: str = "ieee") -> torch.Tensor:
    c = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(c.shape[0], 32), triton.cdiv(c.shape[1], 32))
    matmul_kernel[grid](a, b, c, a.shape[0], b.shape[1], a.shape[1], PRECISION=precision, SIDE=32, DEPTH=32)
    return c


@triton.jit
def split_k_kernel(a_ptr, b_ptr, c_ptr, M, N, K, lock_ptr, SIDE: tl.constexpr, DEPTH: tl.constexpr):
    """Programs along z add their part of K to one tile, one after another behind a lock."""
    rows = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
    columns = tl.program_id(1) * SIDE + tl.arange(0, SIDE)
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for first in range(tl.program_id(2) * DEPTH, K, DEPTH * tl.num_programs(2)):
        inner = first + tl.arange(0, DEPTH)
        a = tl.load(a_ptr + rows[:, None] * K + inner[None, :], mask=rows[:, None] < M, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * N + columns[None, :], mask=columns[None, :] < N, other=0.0)
        total = tl.dot(a, b, total)
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    places = c_ptr + rows[:, None] * N + columns[None, :]
    lock = lock_ptr + tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(places, tl.load(places, mask=mask) + total, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


def split_k(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    c = torch.zeros(a.shape[0], b.shape[1], dtype=torch.float32, device=a.device)
    tiles = triton.cdiv(c.shape[0], 32), triton.cdiv(c.shape[1], 32)
    grid = (*tiles, 4)
    lock = torch.zeros(int(tiles[0] * tiles[1]), dtype=torch.int32, device=a.device)
    split_k_kernel[grid](a, b, c, a.shape[0], b.shape[1], a.shape[1], lock, SIDE=32, DEPTH=32)
    return c


@triton.jit
def layer_norm_kernel(x_ptr, w_ptr, b_ptr, y_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < columns
    x = tl.load(x_ptr + row * columns + lanes, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, 0) / columns
    centred = tl.where(mask, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / columns + eps)
    w = tl.load(w_ptr + lanes, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + lanes, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * columns + lanes, (centred * scale * w + b).to(y_ptr.dtype.element_ty), mask=mask)


def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    block = triton.next_power_of_2(x.shape[1])
    layer_norm_kernel[(x.shape[0],)](x, w, b, y, x.shape[1], 1e-5, BLOCK=block)
    return y


@triton.jit
def weight_gradient_kernel(dy_ptr, x_ptr, dw_ptr, lock_ptr, columns, BLOCK: tl.constexpr, GROUPS: tl.constexpr):
    """Rows add dy * x to one of GROUPS partial sums, behind its lock; the first one stores."""
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    mask = lanes < columns
    dy = tl.load(dy_ptr + row * columns + lanes, mask=mask, other=0.0).to(tl.float32)
    part = dy * tl.load(x_ptr + row * columns + lanes, mask=mask, other=0.0).to(tl.float32)
    group = row % GROUPS
    places = dw_ptr + group * columns + lanes
    while tl.atomic_cas(lock_ptr + group, 0, 1) == 1:
        pass
    count = tl.load(lock_ptr + GROUPS + group)
    if count == 0:
        tl.atomic_xchg(lock_ptr + GROUPS + group, 1)
    else:
        part += tl.load(places, mask=mask)
    tl.store(places, part, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock_ptr + group, 0)


def weight_gradient(dy: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    groups = 4
    partial = torch.empty(groups, x.shape[1], dtype=torch.float32, device=x.device)
    lock = torch.zeros(2 * groups, dtype=torch.int32, device=x.device)
    block = triton.next_power_of_2(x.shape[1])
    weight_gradient_kernel[(x.shape[0],)](dy, x, partial, lock, x.shape[1], BLOCK=block, GROUPS=groups)
    return partial.sum(0)


@triton.jit
def attention_kernel(q_ptr, k_ptr, v_ptr, out_ptr, S, scale, IS_CAUSAL: tl.constexpr, SIDE: tl.constexpr):
    queries = tl.program_id(0) * SIDE + tl.arange(0, SIDE)
    base = tl.program_id(1) * S * SIDE
    depth = tl.arange(0, SIDE)
    q = tl.load(q_ptr + base + queries[:, None] * SIDE + depth[None, :], mask=queries[:, None] < S, other=0.0)
    largest = tl.full((SIDE,), -float("inf"), tl.float32)
    denominator = tl.zeros((SIDE,), tl.float32)
    total = tl.zeros((SIDE, SIDE), tl.float32)
    last = tl.minimum((tl.program_id(0) + 1) * SIDE, S) if IS_CAUSAL else S
    for first in range(0, last, SIDE):
        keys = first + tl.arange(0, SIDE)
        k = tl.load(k_ptr + base + keys[:, None] * SIDE + depth[None, :], mask=keys[:, None] < S, other=0.0)
        v = tl.load(v_ptr + base + keys[:, None] * SIDE + depth[None, :], mask=keys[:, None] < S, other=0.0)
        valid = keys[None, :] < S
        if IS_CAUSAL:
            valid = valid & (keys[None, :] <= queries[:, None])
        scores = tl.where(valid, tl.dot(q, tl.trans(k)) * scale, -float("inf"))
        newest = tl.maximum(largest, tl.max(scores, 1))
        weights = tl.exp2(scores - newest[:, None])
        correction = tl.exp2(largest - newest)
        denominator = denominator * correction + tl.sum(weights, 1)
        total = tl.dot(weights.to(v.dtype), v, total * correction[:, None])
        largest = newest
    out = (total / denominator[:, None]).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + base + queries[:, None] * SIDE + depth[None, :], out, mask=queries[:, None] < S)


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, is_causal: bool = False) -> torch.Tensor:
    out = torch.empty_like(q)
    heads, length, side = q.shape
    scale = 1.4426950408889634 / side**0.5
    attention_kernel[(triton.cdiv(length, side), heads)](q, k, v, out, length, scale, IS_CAUSAL=is_causal, SIDE=side)
    return out


@triton.jit
def cross_entropy_kernel(logits_ptr, target_ptr, loss_ptr, columns, BLOCK: tl.constexpr):
    """Online maximum and sum over tiles of a row."""
    row = tl.program_id(0).to(tl.int64)
    largest = -float("inf")
    total = 0.0
    for first in range(0, columns, BLOCK):
        lanes = first + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + row * columns + lanes, mask=lanes < columns, other=-float("inf")).to(tl.float32)
        newest = tl.maximum(largest, tl.max(x, 0))
        total = total * tl.exp(largest - newest) + tl.sum(tl.exp(x - newest), 0)
        largest = newest
    picked = tl.load(logits_ptr + row * columns + tl.load(target_ptr + row)).to(tl.float32)
    tl.store(loss_ptr + row, largest + tl.log(total) - picked)


def cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    loss = torch.empty(logits.shape[0], dtype=torch.float32, device=logits.device)
    cross_entropy_kernel[(logits.shape[0],)](logits, target, loss, logits.shape[1], BLOCK=256)
    return loss


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keeps = tl.rand(seed, lanes) > p
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    tl.store(out_ptr + lanes, tl.where(keeps, x / (1 - p), 0.0), mask=lanes < n)


def dropout(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    dropout_kernel[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), 0.3, 1234, BLOCK=512)
    return out


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n).to(tl.float32)
    y = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    tl.store(out_ptr + lanes, y.to(out_ptr.dtype.element_ty), mask=lanes < n)


def gelu(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    gelu_kernel[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK=512)
    return out


@dataclass(frozen=True)
class Whole:
    """A launcher with the shapes and dtypes of its inputs, and the rounding its result may differ by.

    Args:
        run: takes the inputs
        shapes: of the inputs; a shape that is followed by a bound holds indices below it
        reduced: how many numbers each result is a sum of
    """

    run: Callable[..., torch.Tensor]
    shapes: tuple[Any, ...]
    dtype: torch.dtype
    reduced: int

    def inputs(self) -> list[torch.Tensor]:
        generator = torch.Generator().manual_seed(1)
        made: list[torch.Tensor] = []
        for shape in self.shapes:
            if isinstance(shape[0], tuple):
                made.append(torch.randint(0, shape[1], shape[0], generator=generator))
            else:
                made.append(torch.randn(*shape, generator=generator).to(self.dtype))
        return made


def _precise(precision: str) -> Callable[..., torch.Tensor]:
    return lambda a, b: matmul(a, b, precision)


HALVES = (torch.float16, torch.bfloat16)
HEADS = ((3, 100, 64),) * 3
WHOLE: dict[str, Whole] = {
    **{f"matmul {dtype}": Whole(matmul, ((100, 96), (96, 70)), dtype, 96) for dtype in HALVES},
    **{
        f"matmul f32 {precision}": Whole(_precise(precision), ((100, 96), (96, 70)), torch.float32, 96)
        for precision in ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
    },
    "split-k": Whole(split_k, ((64, 512), (512, 64)), torch.float16, 512),
    "layer norm f32": Whole(layer_norm, ((50, 1000), (1000,), (1000,)), torch.float32, 1000),
    "layer norm bf16": Whole(layer_norm, ((50, 1000), (1000,), (1000,)), torch.bfloat16, 1000),
    "weight gradient": Whole(weight_gradient, ((64, 300), (64, 300)), torch.float32, 64),
    "attention f16": Whole(attention, HEADS, torch.float16, 100),
    "attention causal bf16": Whole(lambda q, k, v: attention(q, k, v, True), HEADS, torch.bfloat16, 100),
    "cross-entropy f32": Whole(cross_entropy, ((40, 1500), ((40,), 1500)), torch.float32, 1500),
    "cross-entropy bf16": Whole(cross_entropy, ((40, 1500), ((40,), 1500)), torch.bfloat16, 1500),
    "dropout": Whole(dropout, ((3000,),), torch.float32, 1),
    "gelu f32": Whole(gelu, ((3000,),), torch.float32, 1),
    "gelu bf16": Whole(gelu, ((3000,),), torch.bfloat16, 1),
}
