"""Rows of a table, by number; and the sum of the gradients of each row.

    y[i] = w[index[i]]          dw[r] = Σ_{i: index[i] = r} dy[i]

Fewest bytes: forward each row named once for each time it is named, y once; backward dy once, dw once. Backward sorts
the indices, and the program at the first of each run sums its run in float32 (float64 for float64): no atomics, the
same result every time.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from tilesight.kernels.launching import launcher
from tilesight.kernels.operators import define, needs_gradient, require_floats
from tilesight.kernels.references import torch_when_transformed
from tilesight.kernels.remembered import remembered
from tilesight.kernels.row_plan import as_rows
from tilesight.kernels.row_split import HINT, widened

SPAN = 1024
RUN = 8
"""Rows of a run that are under way together."""


@triton.jit
def gathered_rows(index_ptr, w_ptr, y_ptr, rows, columns, w_stride, BLOCK: tl.constexpr):
    """A span of one row of y; NaN for a number that is no row."""
    spans = tl.cdiv(columns, BLOCK)
    place = (tl.program_id(0) // spans).to(tl.int64)
    column = (tl.program_id(0) % spans) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(index_ptr + place).to(tl.int64)
    mask = column < columns
    is_row = (row >= 0) & (row < rows)
    w = tl.load(w_ptr + row * w_stride + column, mask & is_row, other=float("nan"))
    tl.store(y_ptr + place * columns + column, w, mask, eviction_policy=HINT)


@triton.jit
def summed_runs(
    index_ptr, order_ptr, dy_ptr, dw_ptr, count, rows, columns, dy_stride, padding, BLOCK: tl.constexpr,
    RUN: tl.constexpr,
):  # fmt: skip
    """A span of one row of dw, by the program whose place is the first of that row's run; the others have nothing."""
    spans = tl.cdiv(columns, BLOCK)
    place = (tl.program_id(0) // spans).to(tl.int64)
    column = (tl.program_id(0) % spans) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(index_ptr + place)
    before = tl.load(index_ptr + place - 1, place > 0, other=-1)
    if (row != before) & (row >= 0) & (row < rows) & (row != padding):
        total = tl.zeros((RUN, BLOCK), tl.float64 if dw_ptr.dtype.element_ty == tl.float64 else tl.float32)
        first = place
        members = RUN
        while members == RUN:
            lane = first + tl.arange(0, RUN)
            is_member = tl.load(index_ptr + lane, lane < count, other=-1) == row
            source = tl.load(order_ptr + lane, is_member, other=0)
            mask = is_member[:, None] & (column < columns)[None, :]
            total += widened(tl.load(dy_ptr + source[:, None] * dy_stride + column[None, :], mask, other=0.0))
            members = tl.sum(is_member.to(tl.int32), 0)
            first += RUN
        dw = tl.sum(total, 0)
        tl.store(dw_ptr + row * columns + column, dw.to(dw_ptr.dtype.element_ty), column < columns)


def launch_forward(index: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """y, in one launch."""
    y = output(index, weight)
    if not index.is_cuda:
        _require_rows(index, weight.shape[0])
    if y.numel() == 0:
        return y
    table = as_rows(weight)
    rows, columns = table.shape
    block = min(SPAN, int(triton.next_power_of_2(columns)))
    launcher(gathered_rows, (index.numel() * triton.cdiv(columns, block),))(
        index.contiguous(), table, y, rows, columns, table.stride(0), block, num_warps=4
    )
    return y


def launch_backward(dy: torch.Tensor, index: torch.Tensor, rows: int, padding: int) -> torch.Tensor:
    """dw [rows, columns], zero where no index points: a sort and a launch."""
    columns = dy.shape[-1]
    dw = dy.new_zeros(rows, columns)
    if dy.numel() == 0:
        return dw
    ordered, order = torch.sort(index.reshape(-1), stable=True)
    grads = as_rows(dy)
    block = min(SPAN, int(triton.next_power_of_2(columns)))
    launcher(summed_runs, (order.numel() * triton.cdiv(columns, block),))(
        ordered.to(torch.int64), order, grads, dw, order.numel(), rows, columns, grads.stride(0), padding, block, RUN,
        num_warps=4,
    )  # fmt: skip
    return dw


def _require_rows(index: torch.Tensor, rows: int) -> None:
    wrong = index[(index < 0) | (index >= rows)]
    if wrong.numel():
        raise IndexError(f"index out of range in self: {int(wrong[0])}, of a table of {rows} rows")


def output(index: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """What the forward operator returns, not filled."""
    return weight.new_empty(*index.shape, weight.shape[1])


forward_operator = define("embedding(Tensor index, Tensor weight) -> Tensor", launch_forward, output)
backward_operator = define(
    "embedding_backward(Tensor dy, Tensor index, SymInt rows, SymInt padding) -> Tensor",
    launch_backward,
    lambda dy, index, rows, padding: dy.new_empty(rows, dy.shape[-1]),
)


class _Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, index: torch.Tensor, weight: torch.Tensor, padding: int) -> torch.Tensor:
        ctx.save_for_backward(index)
        ctx.rows, ctx.padding = weight.shape[0], padding
        return forward_operator(index, weight)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[None, torch.Tensor, None]:
        return None, backward_operator(grad_outputs[0], *ctx.saved_tensors, ctx.rows, ctx.padding), None


@remembered
@torch_when_transformed
def embedding(
    input: torch.Tensor,
    weight: torch.Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> torch.Tensor:
    """weight[input], as `torch.nn.functional.embedding`; with a gradient of weight.

    Args:
        input: int64 or int32, row numbers
        weight: [rows, columns] float16, bfloat16, float32 or float64
        padding_idx: a row that gets no gradient; from the end where negative
        max_norm, norm_type, scale_grad_by_freq, sparse: of torch's signature, with its defaults only
    Returns: [*input.shape, columns]
    Raises:
        IndexError: for a number that is no row, on a CPU; on a GPU, which would have to be waited for, NaN
        RuntimeError: for other shapes and dtypes of input, a padding_idx out of range, an argument not supported
        TypeError: for a weight that is not of a floating-point dtype
    """
    require_floats("embedding", weight)
    if max_norm is not None or scale_grad_by_freq or sparse:
        raise RuntimeError("embedding supports neither max_norm nor scale_grad_by_freq nor sparse")
    if input.dtype not in (torch.int64, torch.int32):
        raise RuntimeError(f"embedding: expected indices of dtype torch.int64 or torch.int32, got {input.dtype}")
    if weight.ndim != 2:
        raise RuntimeError(f"embedding: 'weight' must be 2-D, got {list(weight.shape)}")
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise RuntimeError(f"padding_idx must be within the {rows} rows of weight, got {padding_idx}")
    if input.device != weight.device:
        raise RuntimeError(f"expected input and weight on one device, got {input.device} and {weight.device}")
    padding = -1 if padding_idx is None else padding_idx % rows
    return _Embedding.apply(input, weight, padding) if needs_gradient(weight) else forward_operator(input, weight)
