"""Sum, maximum and its index along any axis.

    sum: Σ x          max: (max x, the first index where it is)          argmax: that index; NaN is above all

Fewest bytes: x once, the outputs once. 16-bit numbers are summed in float32, integers in int64, each lane on its own
and the lanes pairwise. Few outputs of a long axis: programs share the axis, and a second launch takes what they found,
in an order that is always the same.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl

from tilesight.kernels.axis import as_outer_along_inner, own_axes, places_of, plan_axis
from tilesight.kernels.launching import launcher
from tilesight.kernels.operators import define, in_autocast_dtype, needs_gradient
from tilesight.kernels.references import torch_when_transformed
from tilesight.kernels.remembered import remembered
from tilesight.kernels.row_split import HINT, widened

BUSY_PROGRAMS = 528
"""Four a multiprocessor of an H200: with fewer, an axis is shared."""
NOWHERE = tl.constexpr(2**62)


@triton.jit
def sum_tiles(
    x_ptr, y_ptr, outer, along, inner, x_outer, x_along, x_inner, per_part, y_part, OUTPUTS: tl.constexpr,
    STEPS: tl.constexpr, INNER: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    """OUTPUTS sums over one part of the axis."""
    at, output, is_there = places_of(tl.program_id(0), outer, inner, x_outer, x_inner, OUTPUTS, INNER)  # pyright: ignore[reportGeneralTypeIssues]
    part = tl.program_id(1)
    lane = tl.arange(0, STEPS)
    total = tl.zeros((OUTPUTS, STEPS), SUM)
    for first in range(part * per_part, tl.minimum(along, (part + 1) * per_part), STEPS):
        step = first + lane
        mask = is_there[:, None] & (step < along)[None, :]
        pointer = x_ptr + at[:, None] + step.to(tl.int64)[None, :] * x_along
        total += tl.load(pointer, mask, other=0, eviction_policy=HINT).to(SUM)
    y = tl.sum(total, 1)
    tl.store(y_ptr + part.to(tl.int64) * y_part + output, y.to(y_ptr.dtype.element_ty), is_there)


@triton.jit
def max_tiles(
    x_ptr, from_ptr, y_ptr, index_ptr, outer, along, inner, x_outer, x_along, x_inner, per_part, y_part,
    OUTPUTS: tl.constexpr, STEPS: tl.constexpr, INNER: tl.constexpr, LOWEST: tl.constexpr, FOUND: tl.constexpr,
):  # fmt: skip
    """OUTPUTS maxima over one part of the axis, and the first index of each; FOUND: indices come with the numbers."""
    at, output, is_there = places_of(tl.program_id(0), outer, inner, x_outer, x_inner, OUTPUTS, INNER)  # pyright: ignore[reportGeneralTypeIssues]
    part = tl.program_id(1)
    lane = tl.arange(0, STEPS)
    first_step = part * per_part + lane
    is_first = is_there[:, None] & (first_step < along)[None, :]
    offset = at[:, None] + first_step.to(tl.int64)[None, :] * x_along
    best = widened_floats(tl.load(x_ptr + offset, is_first, other=LOWEST, eviction_policy=HINT))
    index = tl.where(is_first, first_step.to(tl.int64)[None, :], NOWHERE)
    if FOUND:
        index = tl.load(from_ptr + offset, is_first, other=NOWHERE)
    for first in range(part * per_part + STEPS, tl.minimum(along, (part + 1) * per_part), STEPS):
        step = first + lane
        mask = is_there[:, None] & (step < along)[None, :]
        offset = at[:, None] + step.to(tl.int64)[None, :] * x_along
        x = widened_floats(tl.load(x_ptr + offset, mask, other=LOWEST, eviction_policy=HINT))
        place = tl.broadcast_to(step.to(tl.int64)[None, :], (OUTPUTS, STEPS))
        if FOUND:
            place = tl.load(from_ptr + offset, mask, other=NOWHERE)
        is_better = mask & ((x > best) | ((x != x) & (best == best)))
        best = tl.where(is_better, x, best)
        index = tl.where(is_better, place, index)
    is_nan = best != best
    any_nan = tl.max(is_nan.to(tl.int32), 1) > 0
    top = tl.max(tl.where(is_nan, LOWEST, best), 1)
    is_top = tl.where(any_nan[:, None], is_nan, best == top[:, None])
    index = tl.min(tl.where(is_top, index, NOWHERE), 1)
    tl.store(index_ptr + part.to(tl.int64) * y_part + output, index, is_there)
    y = top
    if y_ptr.dtype.element_ty.is_floating():
        y = tl.where(any_nan, float("nan"), y)
    tl.store(y_ptr + part.to(tl.int64) * y_part + output, y.to(y_ptr.dtype.element_ty), is_there)


@triton.jit
def widened_floats(x) -> Any:
    """What is compared: 16-bit floating-point numbers in float32, others as they are."""
    return widened(x) if x.dtype.is_floating() else x


def plan_parts(tiles: int, along: int, steps: int) -> tuple[int, int]:
    """(parts of the axis, elements of a part, a multiple of the steps): one where there are programs enough."""
    rounds = -(-along // steps)
    parts = min(rounds, -(-BUSY_PROGRAMS // tiles)) if tiles < BUSY_PROGRAMS // 2 and rounds > 2 else 1
    per_part = -(-rounds // parts) * steps
    return -(-along // per_part), per_part


def launch_sum(x: torch.Tensor, dim: int, dtype: torch.dtype) -> torch.Tensor:
    """Sums along an axis, in one launch, or two where programs share the axis."""
    y = summed(x, dim, dtype)
    if x.numel() == 0:
        return y.zero_()
    source = as_outer_along_inner(x, dim)
    wide = {torch.float64: tl.float64, torch.int64: tl.int64}.get(dtype, tl.float32)
    held = {tl.float64: torch.float64, tl.int64: torch.int64}.get(wide, torch.float32)
    while True:
        outer, along, inner = source.shape
        plan = plan_axis(outer, along, inner)
        parts, per_part = plan_parts(plan.tiles, along, plan.steps)
        target = y if parts == 1 else y.new_empty(1, parts, y.numel(), dtype=held)
        launcher(sum_tiles, (plan.tiles, parts))(
            source, target, *source.shape, *source.stride(), per_part, y.numel(), plan.outputs, plan.steps, plan.inner,
            wide, num_warps=4,
        )  # fmt: skip
        if parts == 1:
            return y
        source = target


def launch_max(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(maxima, indices) along an axis, in one launch, or two where programs share the axis."""
    y, index = maxima(x, dim)
    if y.numel() == 0:
        return y, index
    source = as_outer_along_inner(x, dim)
    found = source
    lowest = float("-inf") if x.dtype.is_floating_point else torch.iinfo(source.dtype).min
    while True:
        outer, along, inner = source.shape
        plan = plan_axis(outer, along, inner)
        parts, per_part = plan_parts(plan.tiles, along, plan.steps)
        shape = (1, parts, y.numel())
        targets = (y, index) if parts == 1 else (source.new_empty(shape), index.new_empty(shape))
        plain = targets[0].view(source.dtype)
        launcher(max_tiles, (plan.tiles, parts))(
            source, found, plain, targets[1], *source.shape, *source.stride(), per_part, y.numel(), plan.outputs,
            plan.steps, plan.inner, lowest, found is not source, num_warps=4,
        )  # fmt: skip
        if parts == 1:
            return y, index
        source, found = targets


def summed(x: torch.Tensor, dim: int, dtype: torch.dtype) -> torch.Tensor:
    """What the operator of sums returns, not filled."""
    return x.new_empty(_without(x, dim), dtype=dtype)


def maxima(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What the operator of maxima returns, not filled."""
    return x.new_empty(_without(x, dim)), x.new_empty(_without(x, dim), dtype=torch.int64)


def _without(x: torch.Tensor, dim: int) -> list[int]:
    return [*x.shape[:dim], *x.shape[dim + 1 :]]


sum_operator = define("sum_along(Tensor x, int dim, ScalarType dtype) -> Tensor", launch_sum, summed)
max_operator = define("max_along(Tensor x, int dim) -> (Tensor, Tensor)", launch_max, maxima)


class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dim: int, dtype: torch.dtype) -> torch.Tensor:
        ctx.dim, ctx.shape, ctx.dtype = dim, x.shape, x.dtype
        return sum_operator(x, dim, dtype)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[torch.Tensor, None, None]:
        return grad_outputs[0].unsqueeze(ctx.dim).expand(ctx.shape).to(ctx.dtype), None, None


class _Max(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
        y, index = max_operator(x, dim)
        ctx.mark_non_differentiable(index)
        ctx.save_for_backward(index)
        ctx.dim, ctx.shape = dim, x.shape
        return y, index

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[torch.Tensor, None]:
        (index,) = ctx.saved_tensors
        dy = grad_outputs[0].unsqueeze(ctx.dim)
        return dy.new_zeros(ctx.shape).scatter(ctx.dim, index.unsqueeze(ctx.dim), dy), None


@remembered
@torch_when_transformed
def sum(
    input: torch.Tensor,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """The sum along axes, as `torch.sum`; with a gradient.

    Args:
        input: of a floating-point dtype, or of integers or bool, whose sum is int64; under autocast on CUDA float32
        dim: one axis, some, or all when None; axes that are not neighbours are moved, which copies
        keepdim: leave axes of one element where they were
        dtype: to convert to first
    Raises:
        IndexError: for an axis that the tensor does not have
        RuntimeError: for one that is named twice
        TypeError: for other dtypes
    """
    x = in_autocast_dtype(input, dtype)
    axes = own_axes("sum", x, dim)
    wanted = dtype or (x.dtype if x.is_floating_point() else torch.int64)
    merged, at = _merged(x, axes)
    y = _Sum.apply(merged, at, wanted) if needs_gradient(merged) else sum_operator(merged, at, wanted)
    return _kept(y, x, axes) if keepdim else y


@remembered
@torch_when_transformed
def max(input: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The maximum along an axis and its first index, as `torch.max`; with a gradient. NaN is above all.

    Args:
        input: of a floating-point dtype, of integers or bool
        dim: the axis; None: the maximum of all, alone, whose gradient goes to the first place that has it (torch
            shares it among all that have it)
    Returns: (values, indices) named so, or one value
    Raises:
        IndexError: for an axis that the tensor does not have, or that has no elements
        TypeError: for other dtypes
    """
    axes, merged, at = _required("max", input, dim)
    y, index = _Max.apply(merged, at) if needs_gradient(merged) else max_operator(merged, at)
    if dim is None:
        return y
    pair = (_kept(y, input, axes), _kept(index, input, axes)) if keepdim else (y, index)
    return torch.return_types.max(pair)


@remembered
@torch_when_transformed
def argmax(input: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
    """The first index of the maximum, as `torch.argmax`; dim None: in the flattened tensor. Errors as `max`."""
    axes, merged, at = _required("argmax", input.detach(), dim)
    index = max_operator(merged, at)[1]
    return _kept(index, input, axes) if keepdim else index


def _required(name: str, x: torch.Tensor, dim: int | None) -> tuple[tuple[int, ...], torch.Tensor, int]:
    axes = own_axes(name, x, dim)
    if builtins.any(x.shape[axis] == 0 for axis in axes):
        raise IndexError(f"{name}(): expected the reduced axes to have a non-zero size, got {list(x.shape)}, dim {dim}")
    return axes, *_merged(x, axes)


def _merged(x: torch.Tensor, axes: tuple[int, ...]) -> tuple[torch.Tensor, int]:
    """The tensor with the axes merged into one, and which one that is."""
    if not axes:
        return x.reshape(1), 0
    if len(axes) == 1:
        return x, axes[0]
    if axes[-1] - axes[0] == len(axes) - 1:
        return x.flatten(axes[0], axes[-1]), axes[0]
    behind = range(x.ndim - len(axes), x.ndim)
    return x.movedim(axes, tuple(behind)).flatten(behind[0]), behind[0]


def _kept(y: torch.Tensor, x: torch.Tensor, axes: tuple[int, ...]) -> torch.Tensor:
    return y.reshape([1 if axis in axes else size for axis, size in enumerate(x.shape)])
