"""A tensor seen as [outer, along, inner]: the axis that is reduced or scanned, between what lies before and behind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from tilesight.kernels.operators import FLOATS

TILE = 4096
"""Elements that a program has at a time."""
INTEGERS = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


@dataclass(frozen=True)
class AxisPlan:
    """How many outputs a program has at a time, and how many steps along the axis: powers of two.

    Args:
        inner: whether outputs lie next to each other in memory (an axis that is not the last one)
        tiles: of outputs
    """

    outputs: int
    steps: int
    inner: bool
    tiles: int


def plan_axis(outer: int, along: int, inner: int) -> AxisPlan:
    """Rows are read along the axis, columns across it, both in whole sectors of memory."""
    if inner == 1:
        steps = min(TILE, int(triton.next_power_of_2(along)))
        outputs = min(TILE // steps, int(triton.next_power_of_2(outer)))
        return AxisPlan(outputs, steps, False, -(-outer // outputs))
    outputs = min(128, int(triton.next_power_of_2(inner)))
    steps = min(TILE // outputs, int(triton.next_power_of_2(along)))
    return AxisPlan(outputs, steps, True, outer * -(-inner // outputs))


@triton.jit
def places_of(tile, outer, inner, x_outer, x_inner, OUTPUTS: tl.constexpr, INNER: tl.constexpr) -> Any:
    """(offset of each output's first element, its number among the outputs, whether there is one): [OUTPUTS]."""
    if INNER:
        tiles = tl.cdiv(inner, OUTPUTS)
        line = (tile // tiles).to(tl.int64)
        lane = (tile % tiles) * OUTPUTS + tl.arange(0, OUTPUTS)
        at = line * x_outer + lane.to(tl.int64) * x_inner
        number = line * inner + lane
        is_there = lane < inner
    else:
        number = tile.to(tl.int64) * OUTPUTS + tl.arange(0, OUTPUTS)
        at = number * x_outer
        is_there = number < outer
    return at, number, is_there


def as_outer_along_inner(x: torch.Tensor, dim: int) -> torch.Tensor:
    """[outer, along, inner]: a view where strides say so, else a copy; bool as uint8."""
    sizes = x.shape
    outer, inner = sizes[:dim].numel(), sizes[dim + 1 :].numel()
    plain = x.view(torch.uint8) if x.dtype == torch.bool else x
    return plain.reshape(outer, sizes[dim], inner)


def own_axis(name: str, x: torch.Tensor, dim: int) -> int:
    """The axis counted from the front; 0 for a number alone.

    Raises:
        IndexError: for an axis that the tensor does not have
        TypeError: for complex and other dtypes
    """
    if x.dtype not in FLOATS + INTEGERS:
        raise TypeError(f"{name} takes floating-point, integer and bool dtypes, not {x.dtype}")
    axes = max(1, x.ndim)
    if not -axes <= dim < axes:
        raise IndexError(f"{name}: dim is {dim}; a tensor of {x.ndim} axes takes {-axes} to {axes - 1}")
    return dim % axes


def own_axes(name: str, x: torch.Tensor, dim: int | Sequence[int] | None) -> tuple[int, ...]:
    """Every axis where dim is None or empty, else those given, in order.

    Raises: as `own_axis`; RuntimeError: for one that is named twice
    """
    wanted = (dim,) if isinstance(dim, int) else tuple(dim or range(x.ndim))
    axes = sorted(own_axis(name, x, each) for each in wanted)
    if len(set(axes)) < len(axes):
        raise RuntimeError(f"{name}: an axis appears twice in dim {list(wanted)}")
    if x.ndim == 0:
        own_axis(name, x, 0)
        return ()
    return tuple(axes)
