"""A barrier orders what the engine has ordered already; it must run, and change nothing."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from tilesight.roads.traces import trace


@triton.jit
def reversing_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes))
    tl.debug_barrier()
    swapped = tl.load(out_ptr + BLOCK - 1 - lanes)
    tl.debug_barrier()
    tl.store(out_ptr + lanes, swapped)


def test_loads_after_a_barrier_see_every_lanes_store() -> None:
    kernel: Any = reversing_kernel
    x, out = torch.arange(64.0), torch.empty(64)
    trace(kernel[(1,)], x, out, BLOCK=64)
    assert torch.equal(out, x.flip(0))


@triton.jit
def assuming_kernel(out_ptr, n, BLOCK: tl.constexpr):
    tl.assume(n >= BLOCK)
    lanes = tl.arange(0, BLOCK)
    tl.store(out_ptr + lanes, lanes, mask=lanes < n)


def test_an_assumption_changes_nothing() -> None:
    kernel: Any = assuming_kernel
    out = torch.full((16,), -1, dtype=torch.int32)
    trace(kernel[(1,)], out, 16, BLOCK=16)
    assert torch.equal(out, torch.arange(16, dtype=torch.int32))
