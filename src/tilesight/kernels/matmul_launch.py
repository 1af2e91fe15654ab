"""Launches of `matmul`'s kernels: which plan, which pointers, one launch or two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton.language as tl

from tilesight.kernels.launching import launcher
from tilesight.kernels.matmul_plan import (
    MatmulPlan,
    dense_axis,
    fitted,
    is_batched,
    is_turned,
    is_wide,
    pieces,
    plan_for,
    processors_of,
    source_of,
    takes_descriptor,
)
from tilesight.kernels.matmul_tiles import matmul_tiles, summed_tiles
from tilesight.kernels.operators import define, float32_precision, precision_of, wide_dtype

NONE, RELU, SILU, GELU, GELU_TANH = range(5)
SUM_ROWS, SUM_COLUMNS = 4, 256


@dataclass(frozen=True)
class Behind:
    """What is done with a product: y and z are written, the rest is read where it is there.

    Args:
        y: [batches, M, N]
        z: the same, 2 · N columns where gated; empty where it is not kept
        bias: as many as the right operand has columns
        residual: [batches, M, N], any strides
        a_scale, b_scale: one number, or one for each row of the left and each column of the right operand
    """

    y: torch.Tensor
    z: torch.Tensor
    bias: torch.Tensor | None = None
    residual: torch.Tensor | None = None
    a_scale: torch.Tensor | None = None
    b_scale: torch.Tensor | None = None
    factor: float = 1.0
    kind: int = NONE
    is_gated: bool = False

    def pointers(self) -> list[torch.Tensor]:
        """z, bias, residual, a_scale, b_scale; y where one is not there, which the kernel does not touch."""
        found = (self.z if self.z.numel() else None, self.bias, self.residual, self.a_scale, self.b_scale)
        return [self.y if each is None else each for each in found]

    def strides(self) -> tuple[int, ...]:
        """Of the residual."""
        return (0, 0, 0) if self.residual is None else self.residual.stride()

    def flags(self) -> tuple[Any, ...]:
        """KIND to KEEP of the kernels."""
        scales = (0 if each is None else 1 if each.numel() == 1 else 2 for each in (self.a_scale, self.b_scale))
        given = (self.bias is not None, self.residual is not None)
        return (self.kind, self.is_gated, *given, *scales, self.factor != 1.0, self.z.numel() > 0)


def launch_tiles(plan: MatmulPlan, a: torch.Tensor, b: torch.Tensor, behind: Behind) -> None:
    """The product with a plan of one's own: one launch, two where K is split."""
    if plan.splits == 1:
        launch_products(plan, a, b, behind)
        return
    batches, rows = behind.y.shape[:2]
    parts = a.new_empty((plan.splits * batches, rows, b.shape[2]), dtype=wide_dtype(a.dtype))
    launch_products(plan, a, b, Behind(parts, parts[:0]))
    columns = behind.y.shape[2]
    grid = batches * pieces(rows, SUM_ROWS) * pieces(columns, SUM_COLUMNS)
    launcher(summed_tiles, (grid,))(
        parts, behind.y, *behind.pointers(), batches, rows, columns, behind.factor, *behind.strides(),
        SUM_ROWS, SUM_COLUMNS, plan.splits, *behind.flags(), num_warps=4,
    )  # fmt: skip


def launch_products(plan: MatmulPlan, a: torch.Tensor, b: torch.Tensor, behind: Behind) -> None:
    """`matmul_tiles`; a [batches, M, K], b [batches, K, N] with one of the last two axes dense."""
    y, gated = behind.y, behind.is_gated
    batches, (rows, columns), k = a.shape[0], y.shape[1:], a.shape[2]
    is_tma = plan.is_tma and takes_descriptor(a) and takes_descriptor(b)
    has_more = behind.residual is not None or behind.z.numel() > 0
    plan = fitted(plan, is_tma, has_more, a.element_size(), y.element_size())
    block_n = plan.block_n // 2 if gated else plan.block_n
    is_tma_out = is_tma and takes_descriptor(y)
    tiles = pieces(rows, plan.block_m) * pieces(columns, block_n) * batches * plan.splits
    grid = min(tiles, processors_of(y)) if plan.is_persistent else tiles
    is_float8 = a.dtype.itemsize == 1
    launcher(matmul_tiles, (grid,))(
        source_of(a, plan.block_m, plan.block_k, is_tma), source_of(b, plan.block_k, block_n, is_tma),
        source_of(y, plan.block_m, block_n // plan.subtiles, is_tma_out), *behind.pointers(), batches, rows, columns, k,
        behind.factor, *a.stride(), *b.stride(), *behind.strides(), plan.block_m, block_n, plan.block_k, plan.group,
        plan.splits, plan.subtiles, *behind.flags(), is_batched(a), is_batched(b), is_batched(y), is_turned(a),
        is_turned(b), k % plan.block_k != 0, is_tma, is_tma_out, is_wide(plan, a, b), plan.is_persistent and is_tma,
        tl.float64 if a.dtype == torch.float64 else tl.float32, precision_of(a.dtype),
        plan.block_k if is_float8 else None, num_warps=plan.num_warps, num_stages=plan.num_stages,
    )  # fmt: skip


def launch(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    a_scale: torch.Tensor | None,
    b_scale: torch.Tensor | None,
    factor: float,
    kind: int,
    gated: bool,
    keep: bool,
    dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(y, z), by the plan for such shapes."""
    y, z = outputs(a, b, bias, residual, a_scale, b_scale, factor, kind, gated, keep, dtype)
    if y.numel() == 0:
        return y, z
    a, b = dense_axis(a), dense_axis(b)
    behind = Behind(y, z, bias, residual, a_scale, b_scale, factor, kind, gated)
    launch_tiles(plan_of(a, b), a, b, behind)
    return y, z


def plan_of(a: torch.Tensor, b: torch.Tensor) -> MatmulPlan:
    """The plan for a [batches, M, K] and b [batches, K, N]."""
    return plan_for(a.dtype, precision_of(a.dtype), (*a.shape, b.shape[2]), processors_of(a))


def outputs(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None,
    residual: torch.Tensor | None,
    a_scale: torch.Tensor | None,
    b_scale: torch.Tensor | None,
    factor: float,
    kind: int,
    gated: bool,
    keep: bool,
    dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the operator returns, not filled."""
    batches, rows, columns = a.shape[0], a.shape[1], b.shape[2]
    y = a.new_empty((batches, rows, columns // 2 if gated else columns), dtype=dtype)
    return y, a.new_empty((batches, rows, columns) if keep else (0,), dtype=dtype)


operator = define(
    "matmul(Tensor a, Tensor b, Tensor? bias, Tensor? residual, Tensor? a_scale, Tensor? b_scale, float factor,"
    " int kind, bool gated, bool keep, ScalarType dtype) -> (Tensor, Tensor)",
    launch,
    outputs,
    float32_precision,
)
