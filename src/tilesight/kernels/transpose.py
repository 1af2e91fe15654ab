"""Two axes of a tensor swapped, and the result laid out densely.

    y[a, n, b, m, c] = x[a, m, b, n, c]

Fewest bytes: x once, y once. Where the last axis is one of the two, a program turns a tile on chip, so that it reads
along x and writes along y; else whole runs of c are moved.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from tilesight.kernels.axis import own_axis
from tilesight.kernels.launching import launcher
from tilesight.kernels.operators import define, needs_gradient
from tilesight.kernels.references import torch_when_transformed
from tilesight.kernels.remembered import remembered
from tilesight.kernels.row_split import HINT

SIDE = 64
"""Of a tile: 128 bytes of 16-bit numbers each way."""
RUN = 2048


@triton.jit
def turned_tiles(
    x_ptr, y_ptr, m_size, b_size, n_size, x_a, x_m, x_b, x_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    """A tile of one matrix [m, n], one for each a and b."""
    m_tiles = tl.cdiv(m_size, BLOCK_M)
    n_tiles = tl.cdiv(n_size, BLOCK_N)
    tile = tl.program_id(0)
    matrix = (tile // (m_tiles * n_tiles)).to(tl.int64)
    a = matrix // b_size
    b = matrix % b_size
    m = ((tile // n_tiles % m_tiles) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    n = ((tile % n_tiles) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    mask = (m < m_size)[:, None] & (n < n_size)[None, :]
    x = tl.load(x_ptr + a * x_a + b * x_b + m[:, None] * x_m + n[None, :] * x_n, mask, eviction_policy=HINT)
    y_ptr += ((a * n_size + n)[:, None] * b_size + b) * m_size + m[None, :]
    turned = (n < n_size)[:, None] & (m < m_size)[None, :]
    tl.store(y_ptr, tl.trans(x), turned, eviction_policy=HINT)


@triton.jit
def moved_runs(
    x_ptr, y_ptr, rows, m_size, b_size, n_size, columns, x_a, x_m, x_b, x_n, x_c, ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """ROWS runs of y, or a span of one."""
    spans = tl.cdiv(columns, BLOCK)
    row = (tl.program_id(0) // spans).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    column = ((tl.program_id(0) % spans) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)[None, :]
    m = row % m_size
    b = row // m_size % b_size
    n = row // m_size // b_size % n_size
    a = row // m_size // b_size // n_size
    mask = (row < rows)[:, None] & (column < columns)
    at = (a * x_a + m * x_m + b * x_b + n * x_n)[:, None]
    x = tl.load(x_ptr + at + column * x_c, mask, eviction_policy=HINT)
    tl.store(y_ptr + row[:, None] * columns + column, x, mask, eviction_policy=HINT)


def launch(x: torch.Tensor, first: int, second: int) -> torch.Tensor:
    """y, in one launch; first < second."""
    y = output(x, first, second)
    if x.numel() == 0:
        return y
    sizes = x.shape
    merged = [sizes[:first].numel(), sizes[first], sizes[first + 1 : second].numel(), sizes[second]]
    plain = x.view(torch.uint8) if x.dtype == torch.bool else x
    target = y.view(torch.uint8) if x.dtype == torch.bool else y
    source = plain.reshape(*merged, sizes[second + 1 :].numel())
    a_size, m_size, b_size, n_size, columns = source.shape
    strides = source.stride()
    if columns == 1:
        block_m, block_n = (min(SIDE, int(triton.next_power_of_2(size))) for size in (m_size, n_size))
        grid = (a_size * b_size * triton.cdiv(m_size, block_m) * triton.cdiv(n_size, block_n),)
        launcher(turned_tiles, grid)(
            source, target, m_size, b_size, n_size, *strides[:4], block_m, block_n, num_warps=4
        )
        return y
    rows, block = y.numel() // columns, min(RUN, int(triton.next_power_of_2(columns)))
    count = min(RUN // block, int(triton.next_power_of_2(rows)))
    grid = (triton.cdiv(rows, count) * triton.cdiv(columns, block),)
    launcher(moved_runs, grid)(
        source, target, rows, m_size, b_size, n_size, columns, *strides, count, block, num_warps=4
    )
    return y


def output(x: torch.Tensor, first: int, second: int) -> torch.Tensor:
    """What the operator returns, not filled."""
    return torch.empty_like(x.transpose(first, second), memory_format=torch.contiguous_format)


operator = define("transpose(Tensor x, int first, int second) -> Tensor", launch, output)


class _Transpose(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, first: int, second: int) -> torch.Tensor:
        ctx.axes = first, second
        return operator(x, first, second)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[torch.Tensor, None, None]:
        return grad_outputs[0].transpose(*ctx.axes), None, None


@remembered
@torch_when_transformed
def transpose(input: torch.Tensor, dim0: int, dim1: int) -> torch.Tensor:
    """The tensor with two axes swapped, as `torch.transpose(...).contiguous()`; with a gradient.

    Never a view: whoever reads the result reads it densely.

    Args:
        input: of a floating-point dtype, of integers or bool
        dim0, dim1: the axes; the same one twice copies
    Raises:
        IndexError: for an axis that the tensor does not have
        TypeError: for other dtypes
    """
    first, second = sorted(own_axis("transpose", input, dim) for dim in (dim0, dim1))
    if first == second:
        return input.clone(memory_format=torch.contiguous_format)
    return _Transpose.apply(input, first, second) if needs_gradient(input) else operator(input, first, second)
