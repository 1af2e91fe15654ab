"""Kernels that lean on what Triton's front end does: specialisation, constexprs, inlining, checks."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, stride, bias_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    value = tl.load(x_ptr + offsets * stride, mask=mask)
    if bias_ptr is not None:
        value += tl.load(bias_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, value, mask=mask)


@triton.jit
def cast_kernel(out_ptr, value):
    tl.store(out_ptr, value.to(tl.float64))


@triton.jit
def twice(x):
    return x * 2


@triton.jit
def minus_one(x):
    return x - 1


@triton.constexpr_function
def halved(number):
    return number // 2


@triton.jit
def mapped_kernel(x_ptr, out_ptr, FUNCTION: tl.constexpr, TIMES: tl.constexpr, DTYPE: tl.constexpr, N: tl.constexpr):
    offsets = tl.arange(0, N)
    value = tl.load(x_ptr + offsets)
    for step in tl.static_range(TIMES):  # pyright: ignore[reportGeneralTypeIssues]
        value = FUNCTION(value) + step
    value = tl.where(offsets < halved(N), value, 0)
    tl.store(out_ptr + offsets, value.to(DTYPE))


@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0, "WIDE": lambda args: args["EVEN"]})
@triton.jit
def heuristic_kernel(out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr, WIDE: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, BLOCK), EVEN * 2 + WIDE)


@triton.jit
def checked_kernel(x_ptr, limit):
    value = tl.load(x_ptr + tl.program_id(0))
    tl.device_assert(value < limit, "too large")
    tl.store(x_ptr + tl.program_id(0), value + 1)


@triton.jit
def printing_kernel(x_ptr):
    tl.device_print("value", tl.load(x_ptr + tl.program_id(0)))


@triton.jit
def step_kernel(x_ptr, n, STEP: tl.constexpr):
    """Adds to what is there: a second run would show."""
    offsets = tl.arange(0, 16)
    mask = offsets < n
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + STEP, mask=mask)
