"""LayerNorm of rows.

    n = (x − mean) · r                    r = 1 / sqrt(mean((x − mean)²) + eps)          y = n · weight + bias
    dw = sum over rows of dy · n          db = sum over rows of dy
    dx = (g − mean(g) − n · mean(g · n)) · r          with g = dy · weight

Fewest bytes: forward x once, y once; backward x and dy once, dx once; weight and bias are small beside rows. Computed
in float32, in float64 for float64; the variance is of what is left without the mean, never mean(x²) − mean².
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl

from tilesight.kernels.launching import launcher
from tilesight.kernels.operators import define, in_autocast_dtype, needs_gradient, wide_dtype
from tilesight.kernels.references import torch_when_transformed
from tilesight.kernels.remembered import remembered
from tilesight.kernels.row_plan import RowPlan, as_rows, plan_backward, plan_norm, row_elements, scale_row
from tilesight.kernels.row_split import HINT, KEPT, share, share_pair, turn_of, widened, words_for


@triton.jit
def layer_norm_rows(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, rstd_ptr, rows, columns, eps, x_stride,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, SCALES: tl.constexpr, SHIFTS: tl.constexpr,
):  # fmt: skip
    """Whole rows: a program has ROWS of them in registers."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    lane = tl.arange(0, BLOCK)
    column = lane[None, :]
    mask = (row < rows)[:, None] & (column < columns)
    at = row.to(tl.int64)[:, None]
    x = widened(tl.load(x_ptr + at * x_stride + column, mask, other=0.0, eviction_policy=HINT))
    mean = tl.sum(x, 1) / columns
    x = tl.where(column < columns, x - mean[:, None], 0.0)
    rstd = 1 / tl.sqrt(tl.sum(x * x, 1) / columns + eps.to(x.dtype))
    y = x * rstd[:, None]
    if SCALES:
        y *= widened(tl.load(weight_ptr + lane, lane < columns, other=0.0, eviction_policy="evict_last"))[None, :]
    if SHIFTS:
        y += widened(tl.load(bias_ptr + lane, lane < columns, other=0.0, eviction_policy="evict_last"))[None, :]
    tl.store(mean_ptr + row, mean, row < rows)
    tl.store(rstd_ptr + row, rstd, row < rows)
    tl.store(y_ptr + at * columns + column, y.to(y_ptr.dtype.element_ty), mask, eviction_policy=HINT)


@triton.jit
def layer_norm_parts(
    x_ptr, weight_ptr, bias_ptr, y_ptr, mean_ptr, rstd_ptr, words_ptr, columns, eps, x_stride,
    BLOCK: tl.constexpr, PARTS: tl.constexpr, SCALES: tl.constexpr, SHIFTS: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    """One of a row's PARTS: its mean, and its squares around that mean, are shared with the others.

    What it has read is read again, from L2, as in `rms_norm_parts`. In PAIRS the mean loses its two lowest bits: of
    16-bit elements they are far below what rounding y costs.
    """
    row = tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    words_ptr += row * (PARTS if PAIRS else 2 * PARTS)
    column = part * BLOCK + tl.arange(0, BLOCK)
    mask = column < columns
    at = row.to(tl.int64)
    x = tl.load(x_ptr + at * x_stride + column, mask, other=0.0, eviction_policy=KEPT).to(tl.float32)
    turn = turn_of(words_ptr + part) + 1
    own_mean = tl.sum(x, 0) / tl.maximum(tl.minimum(columns - part * BLOCK, BLOCK), 1)
    x = tl.where(mask, x - own_mean, 0.0)
    own_squares = tl.sum(x * x, 0)
    if PAIRS:
        squares, means = share_pair(words_ptr, part, own_squares, own_mean, turn, PARTS)  # pyright: ignore[reportGeneralTypeIssues]
    else:
        squares = share(words_ptr, part, own_squares, turn, PARTS)
        means = share(words_ptr + PARTS, part, own_mean, turn, PARTS)
    counts = tl.maximum(tl.minimum(columns - tl.arange(0, PARTS) * BLOCK, BLOCK), 0).to(tl.float32)
    mean = tl.sum(means * counts, 0) / columns
    means -= mean
    rstd = 1 / tl.sqrt(tl.sum(squares + counts * means * means, 0) / columns + eps.to(tl.float32))
    y = tl.load(x_ptr + at * x_stride + column, mask, other=0.0, eviction_policy=HINT).to(tl.float32)
    y = (y - mean) * rstd
    if SCALES:
        y *= tl.load(weight_ptr + column, mask, other=0.0, eviction_policy=KEPT).to(tl.float32)
    if SHIFTS:
        y += tl.load(bias_ptr + column, mask, other=0.0, eviction_policy=KEPT).to(tl.float32)
    tl.store(mean_ptr + row, mean, part == 0)
    tl.store(rstd_ptr + row, rstd, part == 0)
    tl.store(y_ptr + at * columns + column, y.to(y_ptr.dtype.element_ty), mask, eviction_policy=HINT)


@triton.jit
def layer_norm_backward_rows(
    dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, rows, columns, dy_stride, x_stride,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, SCALES: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    """Tiles of ROWS whole rows, as many as the grid leaves each program; its shares of dw and db stay in registers.

    The next tile is on its way while this one is reduced.
    """
    lane = tl.arange(0, BLOCK)
    column = lane[None, :]
    dtype: tl.constexpr = rstd_ptr.dtype.element_ty
    dw = tl.zeros((ROWS, BLOCK), dtype)
    db = tl.zeros((ROWS, BLOCK), dtype)
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
        mean = tl.load(mean_ptr + row, row < rows, other=0.0)[:, None]
        rstd = tl.load(rstd_ptr + row, row < rows, other=0.0)[:, None]
        normal = tl.where(mask, (x.to(dtype) - mean) * rstd, 0.0)
        wide = dy.to(dtype)
        scaled = wide * weight[None, :]
        along = (tl.sum(scaled * normal, 1) / columns)[:, None]
        dx = (scaled - (tl.sum(scaled, 1) / columns)[:, None] - normal * along) * rstd
        if SUMS:
            dw += wide * normal
            db += wide
        tl.store(dx_ptr + at * columns + column, dx.to(dx_ptr.dtype.element_ty), mask, eviction_policy=HINT)
        x = next_x
        dy = next_dy
        row += step
    if SUMS:
        target = tl.program_id(0).to(tl.int64) * columns + lane
        tl.store(dw_ptr + target, tl.sum(dw, 0), lane < columns)
        tl.store(db_ptr + target, tl.sum(db, 0), lane < columns)


@triton.jit
def layer_norm_backward_parts(
    dy_ptr, x_ptr, weight_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, words_ptr, rows, columns, dy_stride,
    x_stride, BLOCK: tl.constexpr, PARTS: tl.constexpr, SCALES: tl.constexpr, SUMS: tl.constexpr,
):  # fmt: skip
    """One of PARTS of every row of a group; the next row is on its way while the siblings are waited for.

    A group's words are used in turns of two: a sibling may be one row ahead, never two.
    """
    group = tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    groups = tl.num_programs(0) // PARTS
    words_ptr += group * (4 * PARTS)
    column = part * BLOCK + tl.arange(0, BLOCK)
    mask = column < columns
    dw = tl.zeros((BLOCK,), tl.float32)
    db = tl.zeros((BLOCK,), tl.float32)
    weight = tl.zeros((BLOCK,), tl.float32) + 1
    if SCALES:
        weight = tl.load(weight_ptr + column, mask, other=0.0).to(tl.float32)
    first = group.to(tl.int64)
    x = tl.load(x_ptr + first * x_stride + column, mask & (group < rows), other=0.0, eviction_policy=HINT)
    dy = tl.load(dy_ptr + first * dy_stride + column, mask & (group < rows), other=0.0, eviction_policy=HINT)
    turn = turn_of(words_ptr + part) + 1
    next_turn = turn_of(words_ptr + 2 * PARTS + part) + 1
    side = 0
    for row in range(group, rows, groups):
        at = row.to(tl.int64)  # pyright: ignore[reportAttributeAccessIssue]
        ahead = at + groups
        is_there = mask & (ahead < rows)
        next_x = tl.load(x_ptr + ahead * x_stride + column, is_there, other=0.0, eviction_policy=HINT)
        next_dy = tl.load(dy_ptr + ahead * dy_stride + column, is_there, other=0.0, eviction_policy=HINT)
        rstd = tl.load(rstd_ptr + row)
        normal = tl.where(mask, (x.to(tl.float32) - tl.load(mean_ptr + row)) * rstd, 0.0)
        wide = dy.to(tl.float32)
        scaled = wide * weight
        sums_ptr = words_ptr + side * (2 * PARTS)
        own_sum = tl.sum(scaled, 0)
        along = share(sums_ptr + PARTS, part, tl.sum(scaled * normal, 0), turn, PARTS)
        across = share(sums_ptr, part, own_sum, turn, PARTS)
        dx = (scaled - tl.sum(across, 0) / columns - normal * (tl.sum(along, 0) / columns)) * rstd
        dw += wide * normal
        db += wide
        tl.store(dx_ptr + at * columns + column, dx.to(dx_ptr.dtype.element_ty), mask, eviction_policy=HINT)
        x = next_x
        dy = next_dy
        after = turn + 1
        turn = next_turn
        next_turn = after
        side = 1 - side
    if SUMS:
        tl.store(dw_ptr + first * columns + column, dw, mask)
        tl.store(db_ptr + first * columns + column, db, mask)


def launch_forward(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, columns: int, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(y, mean, rstd), in one launch."""
    y, mean, rstd = outputs(x, weight, bias, columns, eps)
    if x.numel() == 0:
        return y, mean, rstd
    source = as_rows(x.reshape(-1, columns))
    rows = source.shape[0]
    plan = plan_norm(rows, columns, x.dtype != torch.float64)
    tensors = (source, scale_row(weight, source), scale_row(bias, source), y, mean, rstd)
    flags = (weight is not None, bias is not None)
    if plan.parts == 1:
        launcher(layer_norm_rows, plan.grid(rows))(
            *tensors, rows, columns, eps, source.stride(0), plan.rows, plan.block, *flags, num_warps=plan.num_warps
        )
    else:
        flags = (*flags, x.itemsize == 2)
        words = words_for(x, rows, plan.parts if flags[2] else 2 * plan.parts, are_pairs=flags[2])
        launcher(layer_norm_parts, plan.grid(rows))(
            *tensors, words, columns, eps, source.stride(0), plan.block, plan.parts, *flags, num_warps=plan.num_warps
        )
    return y, mean, rstd


def launch_backward(
    dy: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    rstd: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(dx, dw, db): one launch over the rows, and sums of the programs' shares of dw and db; empty where unasked."""
    dx, dw, db = gradients(dy, x, weight, bias, mean, rstd)
    if x.numel() == 0:
        return dx, dw.zero_(), db.zero_()
    rows = rstd.numel()
    columns = x.numel() // rows
    plan, groups = plan_backward(x, rows, columns)
    sums = weight is not None or bias is not None
    shares = rstd.new_empty(2, groups, columns) if sums else rstd.new_empty(2, 0)
    grads, source = as_rows(dy.reshape(-1, columns)), as_rows(x.reshape(-1, columns))
    tensors = (grads, source, scale_row(weight, source), mean, rstd, dx, *shares)
    _launch_backward(plan, groups, tensors, (weight is not None, sums), x)
    dw = dw if weight is None else shares[0].sum(0).to(weight.dtype).reshape(weight.shape)
    db = db if bias is None else shares[1].sum(0).to(bias.dtype).reshape(bias.shape)
    return dx, dw, db


def _launch_backward(
    plan: RowPlan, groups: int, tensors: Sequence[torch.Tensor], flags: tuple[bool, bool], like: torch.Tensor
) -> None:
    grads, source = tensors[:2]
    strides = (grads.stride(0), source.stride(0))
    rows, columns = source.shape
    if plan.parts == 1:
        launcher(layer_norm_backward_rows, (groups,))(
            *tensors, rows, columns, *strides, plan.rows, plan.block, *flags, **plan.options
        )
    else:
        words = words_for(like, groups, 4 * plan.parts, sides=2)
        launcher(layer_norm_backward_parts, (groups * plan.parts,))(
            *tensors, words, rows, columns, *strides, plan.block, plan.parts, *flags, **plan.options
        )


def outputs(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, columns: int, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What the forward operator returns, not filled."""
    wide = wide_dtype(x.dtype)
    rows = x.numel() // columns if columns else 0
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    return y, x.new_empty(rows, dtype=wide), x.new_empty(rows, dtype=wide)


def gradients(
    dy: torch.Tensor,
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor,
    rstd: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What the backward operator returns, not filled."""
    dw, db = (
        x.new_empty(0) if each is None else torch.empty_like(each, memory_format=torch.contiguous_format)
        for each in (weight, bias)
    )
    return torch.empty_like(x, memory_format=torch.contiguous_format), dw, db


forward_operator = define(
    "layer_norm_forward(Tensor x, Tensor? weight, Tensor? bias, SymInt columns, float eps) -> (Tensor, Tensor, Tensor)",
    launch_forward,
    outputs,
)
backward_operator = define(
    "layer_norm_backward(Tensor dy, Tensor x, Tensor? weight, Tensor? bias, Tensor mean, Tensor rstd)"
    " -> (Tensor, Tensor, Tensor)",
    launch_backward,
    gradients,
)


class _LayerNorm(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, columns: int, eps: float
    ) -> torch.Tensor:
        y, mean, rstd = forward_operator(x, weight, bias, columns, eps)
        ctx.save_for_backward(x, weight, bias, mean, rstd)
        return y

    @staticmethod
    def backward(
        ctx: Any, *grad_outputs: Any
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None, None, None]:
        x, weight, bias, mean, rstd = ctx.saved_tensors
        dx, dw, db = backward_operator(grad_outputs[0], x, weight, bias, mean, rstd)
        return dx, None if weight is None else dw, None if bias is None else db, None, None


@remembered
@torch_when_transformed
def layer_norm(
    input: torch.Tensor,
    normalized_shape: Sequence[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """(input − mean) / sqrt(variance + eps) · weight + bias, as `torch.nn.functional.layer_norm`; with gradients.

    Args:
        input: [..., *normalized_shape] float16, bfloat16, float32 or float64; under autocast on CUDA float32
        normalized_shape: the last axes, over which mean and variance are taken
        weight, bias: [*normalized_shape], of a floating-point dtype
    Returns: the input's shape and dtype
    Raises:
        RuntimeError: where the shapes do not fit
        TypeError: for a dtype that is no floating-point type
        ValueError: for more elements in a row than `row_plan.MOST_COLUMNS`
    """
    x = in_autocast_dtype(input)
    columns = row_elements("layer_norm", x, tuple(normalized_shape), weight, bias)
    if needs_gradient(x, weight, bias):
        return _LayerNorm.apply(x, weight, bias, columns, eps)
    return forward_operator(x, weight, bias, columns, eps)[0]
