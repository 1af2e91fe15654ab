"""softmax and log-softmax of rows.

    y = exp(x − max) / sum(exp(x − max))          log: y = x − max − log(sum(exp(x − max)))
    dx = (dy − sum(dy · y)) · y                   log: dx = dy − exp(y) · sum(dy)

Fewest bytes: forward x once, y once; backward y and dy once, dx once. Sums are in float32, in float64 for float64.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from tilesight.kernels.launching import launcher
from tilesight.kernels.operators import define, in_autocast_dtype, like_first, needs_gradient, require_floats
from tilesight.kernels.references import torch_when_transformed
from tilesight.kernels.remembered import remembered
from tilesight.kernels.row_plan import WIDE_PART, as_rows, plan_rows
from tilesight.kernels.row_split import HINT, share, share_pair, turn_of, widened, words_for


@triton.jit
def finite_or_zero(top):
    """What to subtract: 0 for a row of nothing but −inf, whose softmax is NaN by 0 / 0 and not by inf − inf."""
    return tl.where(top == float("-inf"), 0.0, top)


@triton.jit
def softmax_rows(
    x_ptr, y_ptr, rows, columns, x_stride, y_stride, ROWS: tl.constexpr, BLOCK: tl.constexpr, LOG: tl.constexpr
):
    """Whole rows: a program has ROWS of them in registers."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    mask = (row < rows)[:, None] & (column < columns)[None, :]
    at = row.to(tl.int64)[:, None]
    x = widened(tl.load(x_ptr + at * x_stride + column[None, :], mask, other=float("-inf"), eviction_policy=HINT))
    x -= finite_or_zero(tl.max(x, 1))[:, None]
    e = tl.exp(x)
    total = tl.sum(e, 1)[:, None]
    y = x - tl.log(total) if LOG else e / total
    tl.store(y_ptr + at * y_stride + column[None, :], y.to(y_ptr.dtype.element_ty), mask, eviction_policy=HINT)


@triton.jit
def share_exponentials(words_ptr, part, total, top, turn, PARTS: tl.constexpr, PAIRS: tl.constexpr) -> Any:
    """Of a row whose parts have sums of exp(x − their tops): what to subtract from x, and the sum of exp(x − that).

    Args:
        words_ptr: int64 [PARTS] if PAIRS, else [2 · PARTS]
        PAIRS: whether the tops are of a 16-bit format
    """
    if PAIRS:
        sums, tops = share_pair(words_ptr, part, total, top, turn, PARTS)  # pyright: ignore[reportGeneralTypeIssues]
    else:
        sums = share(words_ptr + PARTS, part, total, turn, PARTS)
        tops = share(words_ptr, part, top, turn, PARTS)
    tops = tl.where(sums == 0, float("-inf"), tops)
    shift = finite_or_zero(tl.max(tops, 0))
    return shift, tl.sum(sums * tl.exp(tops - shift), 0)


@triton.jit
def softmax_parts(
    x_ptr, y_ptr, words_ptr, columns, x_stride, y_stride,
    BLOCK: tl.constexpr, PARTS: tl.constexpr, LOG: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    """One of a row's PARTS: its maximum and its sum are shared with the others."""
    row = tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    words_ptr += row * (PARTS if PAIRS else 2 * PARTS)
    column = part * BLOCK + tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row.to(tl.int64) * x_stride + column, mask, other=float("-inf"), eviction_policy=HINT).to(
        tl.float32
    )
    turn = turn_of(words_ptr + part) + 1
    own_top = finite_or_zero(tl.max(x, 0))
    x -= own_top
    e = tl.exp(x)
    shift, total = share_exponentials(words_ptr, part, tl.sum(e, 0), own_top, turn, PARTS, PAIRS)  # pyright: ignore[reportGeneralTypeIssues]
    y = x + (own_top - shift) - tl.log(total) if LOG else e * (tl.exp(own_top - shift) / total)
    tl.store(y_ptr + row.to(tl.int64) * y_stride + column, y.to(y_ptr.dtype.element_ty), mask, eviction_policy=HINT)


@triton.jit
def softmax_backward_rows(
    dy_ptr,
    y_ptr,
    dx_ptr,
    rows,
    columns,
    dy_stride,
    y_stride,
    dx_stride,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    LOG: tl.constexpr,
):
    """Whole rows: a program has ROWS of them in registers."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)[None, :]
    mask = (row < rows)[:, None] & (column < columns)
    at = row.to(tl.int64)[:, None]
    dy = widened(tl.load(dy_ptr + at * dy_stride + column, mask, other=0.0, eviction_policy=HINT))
    y = widened(tl.load(y_ptr + at * y_stride + column, mask, other=0.0, eviction_policy=HINT))
    total = tl.sum(dy if LOG else dy * y, 1)[:, None]
    dx = dy - tl.exp(y) * total if LOG else (dy - total) * y
    tl.store(dx_ptr + at * dx_stride + column, dx.to(dx_ptr.dtype.element_ty), mask, eviction_policy=HINT)


@triton.jit
def softmax_backward_parts(
    dy_ptr,
    y_ptr,
    dx_ptr,
    words_ptr,
    columns,
    dy_stride,
    y_stride,
    dx_stride,
    BLOCK: tl.constexpr,
    PARTS: tl.constexpr,
    LOG: tl.constexpr,
):
    """One of a row's PARTS: its sum is shared with the others."""
    row = tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    words_ptr += row * PARTS
    column = part * BLOCK + tl.arange(0, BLOCK)
    mask = column < columns
    at = row.to(tl.int64)
    dy = tl.load(dy_ptr + at * dy_stride + column, mask, other=0.0, eviction_policy=HINT).to(tl.float32)  # pyright: ignore[reportUnusedVariable]
    y = tl.load(y_ptr + at * y_stride + column, mask, other=0.0, eviction_policy=HINT).to(tl.float32)  # pyright: ignore[reportUnusedVariable]
    turn = turn_of(words_ptr + part) + 1
    total = tl.sum(share(words_ptr, part, tl.sum(dy if LOG else dy * y, 0), turn, PARTS), 0)
    dx = dy - tl.exp(y) * total if LOG else (dy - total) * y
    tl.store(dx_ptr + at * dx_stride + column, dx.to(dx_ptr.dtype.element_ty), mask, eviction_policy=HINT)


def launch_forward(x: torch.Tensor, log: bool) -> torch.Tensor:
    """Softmax along the last axis, in one launch."""
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    if x.numel() == 0:
        return y
    source, target = as_rows(x), as_rows(y)
    rows, columns = source.shape
    plan = plan_rows(rows, columns, x.dtype != torch.float64, WIDE_PART)
    strides = source.stride(0), target.stride(0)
    if plan.parts == 1:
        launcher(softmax_rows, plan.grid(rows))(
            source, target, rows, columns, *strides, plan.rows, plan.block, log, num_warps=plan.num_warps
        )
    else:
        pairs = x.itemsize == 2
        words = words_for(x, rows, plan.parts if pairs else 2 * plan.parts, are_pairs=pairs)
        launcher(softmax_parts, plan.grid(rows))(
            source, target, words, columns, *strides, plan.block, plan.parts, log, pairs, num_warps=plan.num_warps
        )
    return y


def launch_backward(dy: torch.Tensor, y: torch.Tensor, log: bool) -> torch.Tensor:
    """The input's gradient from the output's and the output, in one launch."""
    dx = torch.empty_like(y, memory_format=torch.contiguous_format)
    if y.numel() == 0:
        return dx
    tensors = as_rows(dy), as_rows(y), as_rows(dx)
    rows, columns = tensors[1].shape
    plan = plan_rows(rows, columns, y.dtype != torch.float64)
    strides = [tensor.stride(0) for tensor in tensors]
    if plan.parts == 1:
        launcher(softmax_backward_rows, plan.grid(rows))(
            *tensors, rows, columns, *strides, plan.rows, plan.block, log, num_warps=plan.num_warps
        )
    else:
        words = words_for(y, rows, plan.parts)
        launcher(softmax_backward_parts, plan.grid(rows))(
            *tensors, words, columns, *strides, plan.block, plan.parts, log, num_warps=plan.num_warps
        )
    return dx


softmax_forward = define("softmax_forward(Tensor x, bool log) -> Tensor", launch_forward, like_first)
softmax_backward = define("softmax_backward(Tensor dy, Tensor y, bool log) -> Tensor", launch_backward, like_first)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, log: bool) -> torch.Tensor:
        y = softmax_forward(x, log)
        ctx.save_for_backward(y)
        ctx.log = log
        return y

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[torch.Tensor, None]:
        (y,) = ctx.saved_tensors
        return softmax_backward(grad_outputs[0], y, ctx.log), None


@remembered
@torch_when_transformed
def softmax(input: torch.Tensor, dim: int = -1, dtype: torch.dtype | None = None) -> torch.Tensor:
    """exp(input) over its sum along an axis, as `torch.nn.functional.softmax`; with gradients.

    Args:
        input: [...] float16, bfloat16, float32 or float64
        dim: the axis; one that is not the last is moved there and back, which copies
        dtype: to convert to first; under autocast float32
    Raises:
        IndexError: for an axis that the tensor does not have
        TypeError: for a dtype that is no floating-point type
        ValueError: for more elements along the axis than `row_plan.MOST_COLUMNS`
    """
    return _along(input, dim, dtype, False)


@remembered
@torch_when_transformed
def log_softmax(input: torch.Tensor, dim: int = -1, dtype: torch.dtype | None = None) -> torch.Tensor:
    """The logarithm of `softmax`, as `torch.nn.functional.log_softmax`; arguments and errors as there."""
    return _along(input, dim, dtype, True)


def _along(input: torch.Tensor, dim: int, dtype: torch.dtype | None, log: bool) -> torch.Tensor:
    x = in_autocast_dtype(input, dtype)
    require_floats("softmax", x)
    if x.ndim == 0:
        return _along(x.reshape(1), dim, None, log).reshape(())
    if not -x.ndim <= dim < x.ndim:
        raise IndexError(f"dim is {dim}; a tensor of {x.ndim} axes takes {-x.ndim} to {x.ndim - 1}")
    is_last = dim in (-1, x.ndim - 1)
    moved = x if is_last else x.movedim(dim, -1)
    y = _Softmax.apply(moved, log) if needs_gradient(x) else softmax_forward(moved, log)
    return y if is_last else y.movedim(-1, dim)
