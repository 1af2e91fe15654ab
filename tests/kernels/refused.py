"""Kernels that a GPU takes or refuses, according to how they are launched."""

# pyright: basic, reportArgumentType=false, reportCallIssue=false

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def increment(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask, other=0.0) + 1, mask=mask)


@triton.jit
def clear_by_z(out_ptr):
    program = tl.program_id(2) + tl.program_id(1) + tl.program_id(0)
    tl.store(out_ptr + program, 0.0, mask=program < 1)


@triton.jit
def multiply(a_ptr, b_ptr, c_ptr, N: tl.constexpr, K: tl.constexpr):
    n, k = tl.arange(0, N), tl.arange(0, K)
    a = tl.load(a_ptr + n[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    tl.store(c_ptr + n[:, None] * N + n[None, :], tl.dot(a, b, input_precision="ieee"))


@triton.jit
def multiply_in_stages(a_ptr, b_ptr, c_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        a = tl.load(a_ptr + m[:, None] * K + (start + k)[None, :])
        b = tl.load(b_ptr + (start + k)[:, None] * BN + n[None, :])
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m[:, None] * BN + n[None, :], total)


@triton.jit
def normalise(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, x / tl.sum(x))


@triton.jit
def exponential_of_half(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK)).to(tl.float16)
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.exp(x))


@triton.jit
def through_e4m3(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets).to(tl.float8e4nv).to(tl.float32))


@triton.jit
def unknown_instruction(x):
    return tl.inline_asm_elementwise("bogus.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def assemble_twice(x):
    return unknown_instruction(x) + 1


@triton.jit
def assemble(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, assemble_twice(tl.load(x_ptr + offsets)))


@triton.jit
def pack_by_three(x_ptr, out_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    y = tl.inline_asm_elementwise("mov.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=3)
    tl.store(out_ptr + tl.arange(0, BLOCK), y)


@triton.jit
def refuse_small_blocks(x_ptr, out_ptr, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK >= 64, "blocks of 64 or more")
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + tl.arange(0, BLOCK)))


@triton.jit
def lanes(COUNT: tl.constexpr):
    return tl.arange(0, COUNT)


@triton.jit
def lanes_of_program(COUNT: tl.constexpr):
    return tl.program_id(0) * COUNT + lanes(COUNT)


@triton.jit
def increment_by_helper(x_ptr, out_ptr, n, COUNT: tl.constexpr):
    offsets = lanes_of_program(COUNT)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) + 1, mask=offsets < n)


@triton.jit
def name_target(out_ptr):
    if tl.target_info.is_cuda():
        tl.store(out_ptr, 1.0)
    else:
        tl.store(out_ptr, 2.0)


def launch_increment(device: str = "cpu", **options: Any) -> torch.Tensor:
    x = torch.zeros(4096, device=device)
    increment[(4,)](x, torch.empty_like(x), 4096, BLOCK=1024, **options)
    return x


def launch_grid(grid: tuple[int, ...], device: str = "cpu") -> None:
    clear_by_z[grid](torch.zeros(1, device=device))


def launch_multiply(n: int, k: int, device: str = "cpu", **options: Any) -> None:
    a, b, c = torch.zeros(n, k, device=device), torch.zeros(k, n, device=device), torch.empty(n, n, device=device)
    multiply[(1,)](a, b, c, N=n, K=k, **options)


def launch_stages(num_stages: int, tile: tuple[int, int, int], device: str = "cpu", **options: Any) -> None:
    bm, bn, bk = tile
    a = torch.zeros(bm, 8 * bk, dtype=torch.float16, device=device)
    b, c = torch.zeros(8 * bk, bn, dtype=torch.float16, device=device), torch.empty(bm, bn, device=device)
    multiply_in_stages[(1,)](a, b, c, 8 * bk, BM=bm, BN=bn, BK=bk, num_stages=num_stages, **options)


def launch_block(kernel: Any, block: int, device: str = "cpu", **options: Any) -> None:
    x = torch.ones(block, device=device)
    kernel[(1,)](x, torch.empty_like(x), block, **options)


def launch_helper(device: str = "cpu") -> None:
    x = torch.ones(300, device=device)
    increment_by_helper[(3,)](x, torch.empty_like(x), 300, COUNT=100)


LAUNCHES: dict[str, tuple[Callable[..., Any], bool]] = {
    "1 warp": (partial(launch_increment, num_warps=1), False),
    "32 warps": (partial(launch_increment, num_warps=32), False),
    "64 warps": (partial(launch_increment, num_warps=64), True),
    "3 warps": (partial(launch_increment, num_warps=3), True),
    "a cluster of 2": (partial(launch_increment, num_ctas=2), False),
    "a cluster of 16": (partial(launch_increment, num_ctas=16), False),
    "a cluster of 32": (partial(launch_increment, num_ctas=32), True),
    "y at its limit": (partial(launch_grid, (1, 65_535)), False),
    "y over it": (partial(launch_grid, (1, 65_536)), True),
    "z at its limit": (partial(launch_grid, (1, 1, 65_535)), False),
    "z over it": (partial(launch_grid, (1, 1, 65_536)), True),
    "x over those of y and z": (partial(launch_grid, (70_000,)), False),
    "no programs": (partial(launch_grid, (0, 3)), False),
    "shared memory over the limit": (partial(launch_stages, 4, (256, 256, 128), num_warps=8), True),
    "shared memory under it": (partial(launch_stages, 3, (128, 128, 64), num_warps=8), False),
    "K of 16": (partial(launch_multiply, 16, 16), False),
    "a block of no power of two": (launch_helper, True),
    "a block of 2**21": (partial(launch_block, normalise, 1 << 21), True),
    "255 registers of 1,024 threads": (partial(launch_block, normalise, 1 << 18, num_warps=32, maxnreg=255), True),
    "64 registers of 1,024 threads": (partial(launch_block, normalise, 1 << 15, num_warps=32, maxnreg=64), False),
    "an unknown instruction": (partial(launch_block, assemble, 128), True),
    "packed by three": (partial(launch_block, pack_by_three, 128), True),
    "a static assertion": (partial(launch_block, refuse_small_blocks, 32), True),
    "a static assertion that holds": (partial(launch_block, refuse_small_blocks, 64), False),
}
"""Launch (taking a device) and whether an H200 refuses it."""
