"""How the rows of a matrix are laid over programs: many short ones a program, or many programs a long one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import torch
import triton

from tilesight.kernels.operators import require_floats
from tilesight.kernels.row_split import MOST_PARTS

SHORT_TILE = 2048
"""Elements of a program that takes several rows."""
WHOLE_ROW = 8192
"""Columns up to which one program holds a row: 16 elements a thread."""
PART = 4096
WIDE_PART = 8192
"""Columns of one of a row's programs, and of one that has more to wait for than to keep in registers."""
LONG_ROW = 131072
"""Columns from which a row is shared in wide parts."""
MOST_PART = 65536
FEW_PROGRAMS = 132
"""Rows fewer than this are split, so that each multiprocessor of an H200 has work."""
LEAST_PART = 1024
REGISTERS = 65536
"""Of a multiprocessor."""
RESIDENT_WARPS = 16
"""Of a multiprocessor, with the registers that a backward pass takes."""
RESIDENT_WHOLE_WARPS = 32
"""The same where a program takes one whole row at a time."""
MOST_COLUMNS = MOST_PARTS * MOST_PART


@dataclass(frozen=True)
class RowPlan:
    """Constants of a launch over rows.

    Args:
        rows: rows of a program, a power of two; 1 where a row is split
        block: columns of a program, a power of two
        parts: programs of a row, a power of two; 1 where rows are not split
        registers: the most of a thread; None: as many as the compiler likes
    """

    rows: int
    block: int
    parts: int
    num_warps: int
    registers: int | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Of `launching.launcher`."""
        return {"num_warps": self.num_warps, "registers": self.registers}

    def grid(self, rows: int) -> tuple[int]:
        """The programs for that many rows."""
        return (-(-rows // self.rows) * self.parts,)


@lru_cache(4096)
def plan_rows(rows: int, columns: int, is_split: bool = True, part: int = PART) -> RowPlan:
    """The plan for a matrix of `rows` × `columns`, both at least 1. Measured on an H200 in bf16.

    Args:
        is_split: whether a row may be shared by programs, which exchange float32
        part: columns of one of those programs, where there are rows enough
    Raises: ValueError: for more columns than `MOST_COLUMNS`, or `MOST_PART` where rows are not split
    """
    width, most = triton.next_power_of_2(columns), MOST_COLUMNS if is_split else MOST_PART
    if columns > most:
        raise ValueError(f"rows of {columns:,} elements; at most {most:,} are supported")
    if width <= SHORT_TILE // 2:
        return RowPlan(min(SHORT_TILE // width, triton.next_power_of_2(rows)), width, 1, 4)
    block = width if width <= WHOLE_ROW or not is_split else part
    while is_split and rows * (width // block) < FEW_PROGRAMS and block > LEAST_PART:
        block //= 2
    block = max(block, width // MOST_PARTS) if is_split else width
    return RowPlan(1, block, width // block, min(32, max(4, block // (512 if block == width else 1024))))


def plan_norm(rows: int, columns: int, is_split: bool) -> RowPlan:
    """The plan of a pass that reads its part of a long row a second time, from L2: little stays in registers."""
    return plan_rows(rows, columns, is_split, WIDE_PART if columns >= LONG_ROW else PART)


def plan_backward(like: torch.Tensor, rows: int, columns: int) -> tuple[RowPlan, int]:
    """The plan of a pass that also sums over rows, and how many groups of programs go through the rows together.

    Each group keeps its share of the sum in registers, so there are no more of them than the GPU runs at once; and a
    thread has no more registers than leave room for all of them.
    """
    plan = plan_norm(rows, columns, like.dtype != torch.float64)
    if plan.rows == 1:
        threads = plan.block // (8 if plan.parts == 1 else 16)
        plan = replace(plan, num_warps=min(32, max(4, threads // 32)))
    processors = torch.cuda.get_device_properties(like.device).multi_processor_count if like.is_cuda else 2
    warps = RESIDENT_WHOLE_WARPS if plan.rows == plan.parts == 1 else RESIDENT_WARPS
    resident = max(1, processors * warps // plan.num_warps // plan.parts)
    plan = replace(plan, registers=REGISTERS // 32 // warps)
    return plan, min(triton.cdiv(rows, plan.rows), resident)


def as_rows(tensor: torch.Tensor) -> torch.Tensor:
    """[rows, columns] with the last axis dense: a view where one row stride serves, else a copy."""
    if tensor.ndim == 2 and tensor.stride(1) == 1:
        return tensor
    flat = tensor.reshape(-1, tensor.shape[-1])
    return flat if flat.stride(-1) == 1 or flat.shape[-1] <= 1 else flat.contiguous()


def scale_row(scale: torch.Tensor | None, otherwise: torch.Tensor) -> torch.Tensor:
    """What multiplies or is added to every row, dense; for None another tensor, which a kernel is told not to read."""
    return otherwise if scale is None else scale.reshape(-1).contiguous()


def row_elements(name: str, input: torch.Tensor, shape: tuple[int, ...], *scales: torch.Tensor | None) -> int:
    """Elements of a row that is normalised over the last axes.

    Args:
        shape: of the last axes
        scales: what multiplies or is added to every row, of that shape; or None
    Raises:
        RuntimeError: where the shapes do not fit
        TypeError: for a dtype that is no floating-point type
    """
    require_floats(name, input, *scales)
    if not shape or tuple(input.shape[-len(shape) :]) != shape:
        raise RuntimeError(f"normalized_shape is {list(shape)}, the input's shape {list(input.shape)} must end with it")
    for what, scale in zip(("weight", "bias"), scales, strict=False):
        if scale is not None and tuple(scale.shape) != shape:
            raise RuntimeError(f"{what} has shape {list(scale.shape)}, expected normalized_shape {list(shape)}")
    return math.prod(shape)
