"""RMSNorm of rows, alone and behind a residual addition.

    s = x + residual                      r = 1 / sqrt(mean(s²) + eps)          y = s · r · weight
    dw = sum over rows of dy · s · r      ds = (dy · weight − s · r · mean(dy · weight · s · r)) · r

Fewest bytes: forward x (and residual) once, y (and s) once; backward s and dy once, ds once; weights are small beside
rows. Computed in float32, in float64 for float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl

from tilesight.kernels.elements import require_alike
from tilesight.kernels.launching import launcher
from tilesight.kernels.operators import define, needs_gradient, wide_dtype
from tilesight.kernels.references import torch_when_transformed
from tilesight.kernels.remembered import remembered
from tilesight.kernels.row_plan import RowPlan, as_rows, plan_backward, plan_norm, row_elements, scale_row
from tilesight.kernels.row_split import HINT, KEPT, share, turn_of, widened, words_for


@triton.jit
def rms_norm_rows(
    x_ptr, residual_ptr, weight_ptr, y_ptr, sum_ptr, rstd_ptr, rows, columns, eps, x_stride, residual_stride,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, ADDS: tl.constexpr, SCALES: tl.constexpr,
):  # fmt: skip
    """Whole rows: a program has ROWS of them in registers."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, BLOCK)
    column = lane[None, :]
    mask = (row < rows)[:, None] & (column < columns)
    at = row.to(tl.int64)[:, None]
    x = tl.load(x_ptr + at * x_stride + column, mask, other=0.0, eviction_policy=HINT)
    if ADDS:
        x += tl.load(residual_ptr + at * residual_stride + column, mask, other=0.0, eviction_policy=HINT)
        tl.store(sum_ptr + at * columns + column, x, mask, eviction_policy=HINT)
    wide = widened(x)
    rstd = 1 / tl.sqrt(tl.sum(wide * wide, 1) / columns + eps.to(wide.dtype))
    y = wide * rstd[:, None]
    if SCALES:
        y *= widened(tl.load(weight_ptr + lane, lane < columns, other=0.0, eviction_policy="evict_last"))[None, :]
    tl.store(rstd_ptr + row, rstd, row < rows)
    tl.store(y_ptr + at * columns + column, y.to(y_ptr.dtype.element_ty), mask, eviction_policy=HINT)


@triton.jit
def rms_norm_parts(
    x_ptr, residual_ptr, weight_ptr, y_ptr, sum_ptr, rstd_ptr, words_ptr, columns, eps, x_stride, residual_stride,
    BLOCK: tl.constexpr, PARTS: tl.constexpr, ADDS: tl.constexpr, SCALES: tl.constexpr,
):  # fmt: skip
    """One of a row's PARTS: its sum of squares is shared with the others.

    What it has read is read again, from L2, once the sum is there: registers that wait for siblings would leave the
    multiprocessor with fewer programs than cover the waiting (65,536 columns on an H200: 4,020 GB/s, 3,870 with them).
    """
    row = tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    words_ptr += row * PARTS
    column = part * BLOCK + tl.arange(0, BLOCK)
    mask = column < columns
    at = row.to(tl.int64)
    source = x_ptr + at * x_stride + column
    x = tl.load(source, mask, other=0.0, eviction_policy=HINT if ADDS else KEPT)
    if ADDS:
        source = sum_ptr + at * columns + column
        x += tl.load(residual_ptr + at * residual_stride + column, mask, other=0.0, eviction_policy=HINT)
        tl.store(source, x, mask)
    wide = x.to(tl.float32)
    turn = turn_of(words_ptr + part) + 1
    squares = tl.sum(share(words_ptr, part, tl.sum(wide * wide, 0), turn, PARTS), 0)
    rstd = 1 / tl.sqrt(squares / columns + eps.to(tl.float32))
    tl.store(rstd_ptr + row, rstd, part == 0)
    y = tl.load(source, mask, other=0.0, eviction_policy=HINT).to(tl.float32) * rstd
    if SCALES:
        y *= tl.load(weight_ptr + column, mask, other=0.0, eviction_policy=KEPT).to(tl.float32)
    tl.store(y_ptr + at * columns + column, y.to(y_ptr.dtype.element_ty), mask, eviction_policy=HINT)


@triton.jit
def rms_norm_backward_rows(
    dy_ptr, dsum_ptr, x_ptr, weight_ptr, rstd_ptr, dx_ptr, dw_ptr, rows, columns, dy_stride, dsum_stride, x_stride,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, ADDS: tl.constexpr, SCALES: tl.constexpr,
):  # fmt: skip
    """Tiles of ROWS whole rows, as many as the grid leaves each program; its share of dw stays in registers.

    The next tile is on its way while this one is reduced.
    """
    lane = tl.arange(0, BLOCK)
    column = lane[None, :]
    dtype: tl.constexpr = rstd_ptr.dtype.element_ty
    dw = tl.zeros((ROWS, BLOCK), dtype)
    weight = tl.zeros((BLOCK,), dtype) + 1
    if SCALES:
        weight = tl.load(weight_ptr + lane, lane < columns, other=0.0).to(dtype)
    step = tl.num_programs(0) * ROWS
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    mask = (row < rows)[:, None] & (column < columns)
    x = tl.load(x_ptr + row[:, None] * x_stride + column, mask, other=0.0, eviction_policy=HINT)
    dy = tl.load(dy_ptr + row[:, None] * dy_stride + column, mask, other=0.0, eviction_policy=HINT)
    for _ in range(tl.program_id(0) * ROWS, rows, step):
        at = row[:, None]
        ahead = at + step
        is_there = (ahead < rows) & (column < columns)
        next_x = tl.load(x_ptr + ahead * x_stride + column, is_there, other=0.0, eviction_policy=HINT)
        next_dy = tl.load(dy_ptr + ahead * dy_stride + column, is_there, other=0.0, eviction_policy=HINT)
        mask = (at < rows) & (column < columns)
        rstd = tl.load(rstd_ptr + row, row < rows, other=0.0)[:, None]
        normal = x.to(dtype) * rstd
        wide = dy.to(dtype)
        scaled = wide * weight[None, :]
        dx = (scaled - normal * (tl.sum(scaled * normal, 1) / columns)[:, None]) * rstd
        if ADDS:
            dx += tl.load(dsum_ptr + at * dsum_stride + column, mask, other=0.0, eviction_policy=HINT).to(dtype)
        dw += wide * normal
        tl.store(dx_ptr + at * columns + column, dx.to(dx_ptr.dtype.element_ty), mask, eviction_policy=HINT)
        x = next_x
        dy = next_dy
        row += step
    if SCALES:
        tl.store(dw_ptr + tl.program_id(0).to(tl.int64) * columns + lane, tl.sum(dw, 0), lane < columns)


@triton.jit
def rms_norm_backward_parts(
    dy_ptr, dsum_ptr, x_ptr, weight_ptr, rstd_ptr, dx_ptr, dw_ptr, words_ptr, rows, columns, dy_stride, dsum_stride,
    x_stride, BLOCK: tl.constexpr, PARTS: tl.constexpr, ADDS: tl.constexpr, SCALES: tl.constexpr,
):  # fmt: skip
    """One of PARTS of every row of a group; the next row is on its way while the siblings are waited for.

    A group's words are used in turns of two: a sibling may be one row ahead, never two.
    """
    group = tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    groups = tl.num_programs(0) // PARTS
    words_ptr += group * (2 * PARTS)
    column = part * BLOCK + tl.arange(0, BLOCK)
    mask = column < columns
    dw = tl.zeros((BLOCK,), tl.float32)
    weight = tl.zeros((BLOCK,), tl.float32) + 1
    if SCALES:
        weight = tl.load(weight_ptr + column, mask, other=0.0).to(tl.float32)
    first = group.to(tl.int64)
    x = tl.load(x_ptr + first * x_stride + column, mask & (group < rows), other=0.0, eviction_policy=HINT)
    dy = tl.load(dy_ptr + first * dy_stride + column, mask & (group < rows), other=0.0, eviction_policy=HINT)
    turn = turn_of(words_ptr + part) + 1
    next_turn = turn_of(words_ptr + PARTS + part) + 1
    side = 0
    for row in range(group, rows, groups):
        at = row.to(tl.int64)  # pyright: ignore[reportAttributeAccessIssue]
        ahead = at + groups
        is_there = mask & (ahead < rows)
        next_x = tl.load(x_ptr + ahead * x_stride + column, is_there, other=0.0, eviction_policy=HINT)
        next_dy = tl.load(dy_ptr + ahead * dy_stride + column, is_there, other=0.0, eviction_policy=HINT)
        rstd = tl.load(rstd_ptr + row)
        normal = x.to(tl.float32) * rstd
        wide = dy.to(tl.float32)
        scaled = wide * weight
        shared = share(words_ptr + side * PARTS, part, tl.sum(scaled * normal, 0), turn, PARTS)
        dx = (scaled - normal * (tl.sum(shared, 0) / columns)) * rstd
        if ADDS:
            dx += tl.load(dsum_ptr + at * dsum_stride + column, mask, other=0.0, eviction_policy=HINT).to(tl.float32)
        dw += wide * normal
        tl.store(dx_ptr + at * columns + column, dx.to(dx_ptr.dtype.element_ty), mask, eviction_policy=HINT)
        x = next_x
        dy = next_dy
        after = turn + 1
        turn = next_turn
        next_turn = after
        side = 1 - side
    if SCALES:
        tl.store(dw_ptr + first * columns + column, dw, mask)


def launch_forward(
    x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor | None, columns: int, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(y, x + residual, rstd), in one launch; without a residual the second one is empty."""
    y, total, rstd = outputs(x, residual, weight, columns, eps)
    if x.numel() == 0:
        return y, total, rstd
    source = as_rows(x.reshape(-1, columns))
    other = source if residual is None else as_rows(residual.reshape(-1, columns))
    rows = source.shape[0]
    plan = plan_norm(rows, columns, x.dtype != torch.float64)
    weights = scale_row(weight, source)
    tensors = (source, other, weights, y, total, rstd)
    flags = (residual is not None, weight is not None)
    strides = (source.stride(0), other.stride(0))
    if plan.parts == 1:
        launcher(rms_norm_rows, plan.grid(rows))(
            *tensors, rows, columns, eps, *strides, plan.rows, plan.block, *flags, num_warps=plan.num_warps
        )
    else:
        words = words_for(x, rows, plan.parts)
        launcher(rms_norm_parts, plan.grid(rows))(
            *tensors, words, columns, eps, *strides, plan.block, plan.parts, *flags, num_warps=plan.num_warps
        )
    return y, total, rstd


def launch_backward(
    dy: torch.Tensor, dsum: torch.Tensor | None, x: torch.Tensor, weight: torch.Tensor | None, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """(dx, dw): one launch over the rows, and a sum of the programs' shares of dw; without a weight dw is empty."""
    dx, dw = gradients(dy, dsum, x, weight, rstd)
    if x.numel() == 0:
        return dx, dw.zero_()
    rows = rstd.numel()
    columns = x.numel() // rows
    plan, groups = plan_backward(x, rows, columns)
    shares = rstd.new_empty(groups, columns) if weight is not None else rstd
    grads, source = as_rows(dy.reshape(-1, columns)), as_rows(x.reshape(-1, columns))
    other = grads if dsum is None else as_rows(dsum.reshape(-1, columns))
    weights = scale_row(weight, source)
    tensors = (grads, other, source, weights, rstd, dx, shares)
    _launch_backward(plan, groups, tensors, (dsum is not None, weight is not None), x)
    return dx, dw if weight is None else shares.sum(0).to(weight.dtype).reshape(weight.shape)


def _launch_backward(
    plan: RowPlan, groups: int, tensors: Sequence[torch.Tensor], flags: tuple[bool, bool], like: torch.Tensor
) -> None:
    grads, other, source = tensors[:3]
    strides = (grads.stride(0), other.stride(0), source.stride(0))
    rows, columns = source.shape
    if plan.parts == 1:
        launcher(rms_norm_backward_rows, (groups,))(
            *tensors, rows, columns, *strides, plan.rows, plan.block, *flags, **plan.options
        )
    else:
        words = words_for(like, groups, 2 * plan.parts, sides=2)
        launcher(rms_norm_backward_parts, (groups * plan.parts,))(
            *tensors, words, rows, columns, *strides, plan.block, plan.parts, *flags, **plan.options
        )


def outputs(
    x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor | None, columns: int, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What the forward operator returns, not filled."""
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    total = torch.empty_like(y) if residual is not None else x.new_empty(0)
    return y, total, x.new_empty(x.numel() // columns if columns else 0, dtype=wide_dtype(x.dtype))


def gradients(
    dy: torch.Tensor, dsum: torch.Tensor | None, x: torch.Tensor, weight: torch.Tensor | None, rstd: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the backward operator returns, not filled."""
    dx = torch.empty_like(x, memory_format=torch.contiguous_format)
    return dx, x.new_empty(0) if weight is None else torch.empty_like(weight, memory_format=torch.contiguous_format)


forward_operator = define(
    "rms_norm_forward(Tensor x, Tensor? residual, Tensor? weight, SymInt columns, float eps)"
    " -> (Tensor, Tensor, Tensor)",
    launch_forward,
    outputs,
)
backward_operator = define(
    "rms_norm_backward(Tensor dy, Tensor? dsum, Tensor x, Tensor? weight, Tensor rstd) -> (Tensor, Tensor)",
    launch_backward,
    gradients,
)


class _RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor | None, columns: int, eps: float) -> torch.Tensor:
        y, _, rstd = forward_operator(x, None, weight, columns, eps)
        ctx.save_for_backward(x, weight, rstd)
        return y

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[torch.Tensor, torch.Tensor | None, None, None]:
        x, weight, rstd = ctx.saved_tensors
        dx, dw = backward_operator(grad_outputs[0], None, x, weight, rstd)
        return dx, None if weight is None else dw, None, None


class _AddRmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None, columns: int, eps: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        y, total, rstd = forward_operator(x, residual, weight, columns, eps)
        ctx.save_for_backward(total, weight, rstd)
        return y, total

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None, None, None]:
        total, weight, rstd = ctx.saved_tensors
        dx, dw = backward_operator(grad_outputs[0], grad_outputs[1], total, weight, rstd)
        return dx, dx, None if weight is None else dw, None, None


@remembered
@torch_when_transformed
def rms_norm(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: torch.Tensor | None = None, eps: float | None = None
) -> torch.Tensor:
    """input / sqrt(mean(input²) + eps) · weight, as `torch.nn.functional.rms_norm`; with gradients.

    Args:
        input: [..., *normalized_shape] float16, bfloat16, float32 or float64
        normalized_shape: the last axes, over which the mean is taken
        weight: [*normalized_shape], of a floating-point dtype
        eps: the machine epsilon of the input's dtype when None
    Returns: the input's shape and dtype
    Raises:
        RuntimeError: where the shapes do not fit
        TypeError: for a dtype that is no floating-point type
        ValueError: for more elements in a row than `row_plan.MOST_COLUMNS`
    """
    columns = row_elements("rms_norm", input, tuple(normalized_shape), weight)
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    if needs_gradient(input, weight):
        return _RmsNorm.apply(input, weight, columns, eps)
    return forward_operator(input, None, weight, columns, eps)[0]


@remembered
@torch_when_transformed
def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor | None = None, eps: float | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """(rms_norm(x + residual), x + residual) over the last axis, in one pass; with gradients.

    Args:
        x, residual: [..., columns] of one shape and dtype
        weight: [columns]
        eps: as in `rms_norm`
    Raises: as `rms_norm`
    """
    require_alike("add_rms_norm", x=x, residual=residual)
    columns = row_elements("add_rms_norm", x, tuple(x.shape[-1:]), weight)
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    if needs_gradient(x, residual, weight):
        return _AddRmsNorm.apply(x, residual, weight, columns, eps)
    return forward_operator(x, residual, weight, columns, eps)[:2]
