"""Running sums along any axis.

    y[i] = Σ_{j ≤ i} x[j]          dx[i] = Σ_{j ≥ i} dy[j]

Fewest bytes: x once, y once. 16-bit numbers are summed in float32, integers in int64. A program goes along its axis
tile by tile with what it has so far; few long rows are shared by programs, which hand each other their parts' sums.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from tilesight.kernels.axis import as_outer_along_inner, own_axis, places_of, plan_axis
from tilesight.kernels.launching import launcher
from tilesight.kernels.operators import define, in_autocast_dtype, needs_gradient
from tilesight.kernels.references import torch_when_transformed
from tilesight.kernels.remembered import remembered
from tilesight.kernels.row_plan import plan_rows
from tilesight.kernels.row_split import HINT, share, turn_of, words_for


@triton.jit
def cumsum_tiles(
    x_ptr, y_ptr, outer, along, inner, x_outer, x_along, x_inner, OUTPUTS: tl.constexpr, STEPS: tl.constexpr,
    INNER: tl.constexpr, SUM: tl.constexpr, BACK: tl.constexpr,
):  # fmt: skip
    """OUTPUTS whole axes, from the front, or from the back."""
    at, number, is_there = places_of(tl.program_id(0), outer, inner, x_outer, x_inner, OUTPUTS, INNER)  # pyright: ignore[reportGeneralTypeIssues]
    y_ptr += (number // inner * along * inner + number % inner)[:, None]
    lane = tl.arange(0, STEPS)
    so_far = tl.zeros((OUTPUTS, 1), SUM)
    tiles = tl.cdiv(along, STEPS)
    for tile in range(tiles):
        step = ((tiles - 1 - tile if BACK else tile) * STEPS + lane).to(tl.int64)[None, :]
        mask = is_there[:, None] & (step < along)
        x = tl.load(x_ptr + at[:, None] + step * x_along, mask, other=0, eviction_policy=HINT).to(SUM)
        y = tl.cumsum(x, 1, reverse=BACK) + so_far
        tl.store(y_ptr + step * inner, y.to(y_ptr.dtype.element_ty), mask, eviction_policy=HINT)
        so_far += tl.sum(x, 1)[:, None]


@triton.jit
def cumsum_parts(
    x_ptr, y_ptr, words_ptr, columns, x_stride, BLOCK: tl.constexpr, PARTS: tl.constexpr, BACK: tl.constexpr
):
    """One of a row's PARTS: its sum is shared with the others."""
    row = tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    words_ptr += row * PARTS
    column = part * BLOCK + tl.arange(0, BLOCK)
    mask = column < columns
    at = row.to(tl.int64)
    x = tl.load(x_ptr + at * x_stride + column, mask, other=0.0, eviction_policy=HINT).to(tl.float32)
    turn = turn_of(words_ptr + part) + 1
    sums = share(words_ptr, part, tl.sum(x, 0), turn, PARTS)
    other = tl.arange(0, PARTS)
    is_before = other > part if BACK else other < part
    y = tl.cumsum(x, 0, reverse=BACK) + tl.sum(tl.where(is_before, sums, 0.0), 0)
    tl.store(y_ptr + at * columns + column, y.to(y_ptr.dtype.element_ty), mask, eviction_policy=HINT)


def launch(x: torch.Tensor, dim: int, dtype: torch.dtype, back: bool) -> torch.Tensor:
    """Running sums in one launch; back: from the end."""
    y = output(x, dim, dtype, back)
    if x.numel() == 0:
        return y
    source = as_outer_along_inner(x, dim)
    outer, along, inner = source.shape
    splits = inner == 1 and x.dtype.is_floating_point and torch.float64 not in (x.dtype, dtype)
    split = plan_rows(outer, along) if splits and source.stride(1) == 1 else None
    if split is not None and split.parts > 1:
        words = words_for(x, outer, split.parts)
        launcher(cumsum_parts, split.grid(outer))(
            source, y, words, along, source.stride(0), split.block, split.parts, back, num_warps=split.num_warps
        )
        return y
    wide = {torch.float64: tl.float64, torch.int64: tl.int64}.get(dtype, tl.float32)
    plan = plan_axis(outer, along, inner)
    launcher(cumsum_tiles, (plan.tiles,))(
        source, y, *source.shape, *source.stride(), plan.outputs, plan.steps, plan.inner, wide, back, num_warps=4
    )
    return y


def output(x: torch.Tensor, dim: int, dtype: torch.dtype, back: bool) -> torch.Tensor:
    """What the operator returns, not filled."""
    return torch.empty_like(x, dtype=dtype, memory_format=torch.contiguous_format)


operator = define("cumsum(Tensor x, int dim, ScalarType dtype, bool back) -> Tensor", launch, output)


class _Cumsum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dim: int, dtype: torch.dtype) -> torch.Tensor:
        ctx.dim, ctx.dtype = dim, x.dtype
        return operator(x, dim, dtype, False)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[torch.Tensor, None, None]:
        return operator(grad_outputs[0], ctx.dim, ctx.dtype, True), None, None


@remembered
@torch_when_transformed
def cumsum(input: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> torch.Tensor:
    """The sum of all up to each element along an axis, as `torch.cumsum`; with a gradient.

    Args:
        input: of a floating-point dtype, or of integers or bool, whose sums are int64; under autocast on CUDA float32
        dim: the axis
        dtype: to convert to first
    Returns: the input's shape, contiguous
    Raises:
        IndexError: for an axis that the tensor does not have
        TypeError: for other dtypes
        ValueError: for rows of more elements than `row_plan.MOST_COLUMNS` that programs would share
    """
    x = in_autocast_dtype(input, dtype)
    axis = own_axis("cumsum", x, dim)
    if x.ndim == 0:
        return cumsum(x.reshape(1), 0, dtype).reshape(())
    wanted = dtype or (x.dtype if x.is_floating_point() else torch.int64)
    return _Cumsum.apply(x, axis, wanted) if needs_gradient(x) else operator(x, axis, wanted, False)
