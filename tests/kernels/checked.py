"""Cases and launches for checks: right ones, and one for each way in which a case can go wrong."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

import tilesight

BLOCK = 64
HARD_CODED = 4


@triton.jit
def double_kernel(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=mask) * 2, mask=mask)


@triton.jit
def double_unmasked_kernel(x, out, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets) * 2)  # out of bounds


@triton.jit
def row_sum_kernel(x, out, row_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    values = tl.load(x + row * row_stride + columns, mask=columns < cols, other=0.0)
    tl.store(out + row, tl.sum(values.to(tl.float32), 0))


@triton.jit
def endless_kernel(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    total = tl.load(x + offsets, mask=offsets < n, other=0.0)
    left = n
    while left != 0:
        left = left - 5  # never 0 unless n is a multiple of 5
    tl.store(out + offsets, total * 2 + left, mask=offsets < n)


@triton.jit
def count_kernel(counts, out):
    total = 0
    for _ in range(tl.load(counts + 1)):  # a tensor of one element
        total += 1
    tl.store(out, total)


def doubled(x):
    return x * 2


def _programs(x):
    return (triton.cdiv(x.numel(), BLOCK),)


def double(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    double_kernel[_programs(x)](x, out, x.numel(), BLOCK=BLOCK)
    return out


def double_unmasked(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    double_unmasked_kernel[_programs(x)](x, out, BLOCK=BLOCK)
    return out


def double_as_if_contiguous(x):
    out = torch.empty(x.shape, dtype=x.dtype)
    double_kernel[_programs(x)](x, out, x.numel(), BLOCK=BLOCK)
    return out


def double_first_blocks(x):
    x = x.contiguous()
    out = torch.zeros_like(x)
    double_kernel[(min(HARD_CODED, triton.cdiv(x.numel(), BLOCK)),)](x, out, x.numel(), BLOCK=BLOCK)
    return out


def double_endless(x):
    x = x.contiguous()
    out = torch.empty_like(x)
    endless_kernel[(1,)](x, out, x.numel(), BLOCK=triton.next_power_of_2(max(x.numel(), 1)))
    return out


def double_or_refuse(x):
    if x.stride(-1) != 1:
        raise ValueError("the last stride is not 1")
    assert x.dtype != torch.float16, "no half precision"
    return double(x)


def double_or_stumble(x):
    out = double(x)
    return out.view(2, -1).view(x.shape)


def row_sum(x):
    if x.shape[1] == 0:
        return torch.zeros(x.shape[0])
    x = x.contiguous()
    out = torch.empty(x.shape[0])
    if x.shape[0]:
        row_sum_kernel[(x.shape[0],)](x, out, x.stride(0), x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def row_sum_without_reshape(x):
    return row_sum(x)[:, None]


def two_outputs(x):
    return double(x), double(x)


RIGHT = tilesight.Case(eager=doubled, hand=double, inputs="f32[100]")
UNMASKED = tilesight.Case(eager=doubled, hand=double_unmasked, inputs="f32[128]")
CONTIGUOUS_ONLY = tilesight.Case(eager=doubled, hand=double_as_if_contiguous, inputs="f32[12,20]")
FIRST_BLOCKS = tilesight.Case(eager=doubled, hand=double_first_blocks, inputs="f32[200]")
ENDLESS = tilesight.Case(eager=doubled, hand=double_endless, inputs="f32[100]")
REFUSING = tilesight.Case(eager=doubled, hand=double_or_refuse, inputs="f32[6,10]")
STUMBLING = tilesight.Case(eager=doubled, hand=double_or_stumble, inputs="f32[100]")
ROW_SUM = tilesight.Case(
    eager=lambda x: x.sum(1), hand=row_sum, reference=lambda x: x.sum(1), inputs="f32[6,50]", name="row sum"
)
WRONG_SHAPE = tilesight.Case(eager=lambda x: x.sum(1), hand=row_sum_without_reshape, inputs="f32[6,50]")
WRONG_DTYPE = tilesight.Case(eager=lambda x: (x * 2).long(), hand=double, inputs="f32[100]")
WRONG_COUNT = tilesight.Case(eager=doubled, hand=two_outputs, inputs="f32[100]")
FROM_FUNCTION = tilesight.Case(eager=doubled, hand=double, inputs=lambda: (torch.linspace(0, 1, 50),))
WITHOUT_HAND = tilesight.Case(eager=doubled, inputs="f32[100]")


def launch_right():
    return double(torch.ones(100))


def launch_unmasked():
    return double_unmasked(torch.ones(100))


def launch_nothing():
    return None


def launch_and_raise():
    double_unmasked(torch.ones(100))
    raise RuntimeError("told you")


def launch_count_from_outside():
    out = torch.zeros(1, dtype=torch.int32)
    count_kernel[(1,)](torch.ones(1, dtype=torch.int32), out)
    return out
