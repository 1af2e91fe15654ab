"""How element by element work is laid over programs: one span of a line each."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from tilesight.kernels.row_plan import as_rows

SPAN = 2048
"""Elements of a program: two accesses of 16 bytes for each of 128 threads in the 16-bit formats."""
NUM_WARPS = 4


@triton.jit
def span_of(columns, spans, BLOCK: tl.constexpr) -> Any:
    """(line, first column, lanes, mask) of a program; lanes stay 32 bits wide however long the line is."""
    line = (tl.program_id(0) // spans).to(tl.int64)
    first = (tl.program_id(0) % spans).to(tl.int64) * BLOCK
    lane = tl.arange(0, BLOCK)
    return line, first, lane, lane < tl.minimum(columns - first, BLOCK).to(tl.int32)


def as_lines(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """[lines, columns] of tensors of one shape: one line where all are dense, else their rows."""
    if all(tensor.is_contiguous() for tensor in tensors):
        return [tensor.reshape(1, -1) for tensor in tensors]
    return [as_rows(tensor) for tensor in tensors]


def plan_spans(line: torch.Tensor) -> tuple[tuple[int], int, int, int]:
    """(grid, columns, spans of a line, elements of a span) for a tensor from `as_lines`."""
    lines, columns = line.shape
    block = min(SPAN, int(triton.next_power_of_2(columns)))
    spans = -(-columns // block)
    return (lines * spans,), columns, spans, block


def require_alike(name: str, **tensors: torch.Tensor) -> None:
    """Raises: RuntimeError: for tensors that differ in shape or dtype"""
    if len({(each.shape, each.dtype) for each in tensors.values()}) > 1:
        got = " and ".join(f"{each.dtype} {list(each.shape)}" for each in tensors.values())
        raise RuntimeError(f"{name}: {' and '.join(tensors)} must have one shape and dtype, got {got}")
