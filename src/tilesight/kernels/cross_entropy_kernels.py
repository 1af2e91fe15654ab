"""The kernels of cross-entropy: whole rows, shared rows, and the loss alone of a long row."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from tilesight.kernels.elements import span_of
from tilesight.kernels.row_split import HINT, share, turn_of, widened
from tilesight.kernels.softmax import finite_or_zero, share_exponentials

WALKED = 2048
"""Elements of a step through a row."""
WALK_WARPS = 4


@triton.jit
def gradient_weights(counts, is_class, counted_ptr, columns, like, SMOOTHING: tl.constexpr, MEAN: tl.constexpr) -> Any:
    """What a row's gradient is made of: what multiplies it, and what is taken from the target's class and from others.

    All are 0 for a row that does not count, and NaN for a target that is no class.
    """
    weight = tl.where(counts, tl.where(is_class, 1.0, float("nan")), 0.0).to(like.dtype)
    if MEAN:
        weight /= tl.maximum(tl.load(counted_ptr), 1)
    smooth = tl.full((), SMOOTHING, like.dtype)
    return weight, weight * (1 - smooth + smooth / columns), weight * (smooth / columns)


@triton.jit
def cross_entropy_rows(
    x_ptr, target_ptr, counted_ptr, loss_ptr, dx_ptr, rows, columns, x_stride, dx_stride, ignored, ROWS: tl.constexpr,
    BLOCK: tl.constexpr, SMOOTHING: tl.constexpr, Z_LOSS: tl.constexpr, MEAN: tl.constexpr, GRAD: tl.constexpr,
):  # fmt: skip
    """Whole rows: a program has ROWS of them in registers."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)[None, :]
    target = tl.load(target_ptr + row, row < rows, other=ignored)
    counts = target != ignored
    is_class = (target >= 0) & (target < columns)
    mask = counts[:, None] & (column < columns)
    at = row.to(tl.int64)[:, None]
    x = widened(tl.load(x_ptr + at * x_stride + column, mask, other=float("-inf"), eviction_policy=HINT))
    shift = finite_or_zero(tl.max(x, 1))
    e = tl.exp(x - shift[:, None])
    total = tl.where(counts, tl.sum(e, 1), 1.0)
    lse = shift + tl.log(total)
    is_target = column == tl.where(is_class, target, -1).to(tl.int32)[:, None]
    chosen = tl.sum(tl.where(is_target, x, 0.0), 1)
    if SMOOTHING != 0:
        chosen += SMOOTHING * (tl.sum(tl.where(mask, x, 0.0), 1) / columns - chosen)
    loss = (shift - chosen) + tl.log(total)
    if Z_LOSS != 0:
        loss += Z_LOSS * lse * lse
    tl.store(loss_ptr + row, tl.where(counts, tl.where(is_class, loss, float("nan")), 0.0), row < rows)
    if GRAD:
        weight, own, other = gradient_weights(counts, is_class, counted_ptr, columns, total, SMOOTHING, MEAN)  # pyright: ignore[reportGeneralTypeIssues]
        slope = ((1 + 2 * Z_LOSS * lse) / total * weight)[:, None]
        dx = e * slope - tl.where(is_target, own[:, None], other[:, None])
        there = (row < rows)[:, None] & (column < columns)
        tl.store(dx_ptr + at * dx_stride + column, dx.to(dx_ptr.dtype.element_ty), there, eviction_policy=HINT)


@triton.jit
def cross_entropy_parts(
    x_ptr, target_ptr, counted_ptr, loss_ptr, dx_ptr, words_ptr, plain_ptr, columns, x_stride, dx_stride, ignored,
    BLOCK: tl.constexpr, PARTS: tl.constexpr, SMOOTHING: tl.constexpr, Z_LOSS: tl.constexpr, MEAN: tl.constexpr,
    GRAD: tl.constexpr, PAIRS: tl.constexpr,
):  # fmt: skip
    """One of a row's PARTS: its maximum and its sums are shared with the others; the target's part has the loss."""
    row = tl.program_id(0) // PARTS
    part = tl.program_id(0) % PARTS
    words_ptr += row * ((1 if PAIRS else 2) * PARTS)
    column = part * BLOCK + tl.arange(0, BLOCK)
    at = row.to(tl.int64)
    target = tl.load(target_ptr + row)
    counts = target != ignored
    is_class = (target >= 0) & (target < columns)
    mask = (column < columns) & counts
    x = tl.load(x_ptr + at * x_stride + column, mask, other=float("-inf"), eviction_policy=HINT).to(tl.float32)
    turn = turn_of(words_ptr + part) + 1
    plain_ptr += row * PARTS
    plain_turn = turn_of(plain_ptr + part) + 1 if SMOOTHING != 0 else turn
    is_target = column == tl.where(is_class, target, -1).to(tl.int32)
    chosen = tl.sum(tl.where(is_target, x, 0.0), 0)
    own_top = finite_or_zero(tl.max(x, 0))
    e = tl.exp(x - own_top)
    shift, total = share_exponentials(words_ptr, part, tl.sum(e, 0), own_top, turn, PARTS, PAIRS)  # pyright: ignore[reportGeneralTypeIssues]
    total = tl.where(counts, total, 1.0)
    lse = shift + tl.log(total)
    if SMOOTHING != 0:
        plain = share(plain_ptr, part, tl.sum(tl.where(mask, x, 0.0), 0), plain_turn, PARTS)
        chosen += SMOOTHING * (tl.sum(plain, 0) / columns - chosen)
    loss = (shift - chosen) + tl.log(total)
    if Z_LOSS != 0:
        loss += Z_LOSS * lse * lse
    loss = tl.where(counts, tl.where(is_class, loss, float("nan")), 0.0)
    tl.store(loss_ptr + row, loss, part == tl.where(counts & is_class, target // BLOCK, 0))
    if GRAD:
        weight, own, other = gradient_weights(counts, is_class, counted_ptr, columns, total, SMOOTHING, MEAN)  # pyright: ignore[reportGeneralTypeIssues]
        slope = (1 + 2 * Z_LOSS * lse) * (tl.exp(own_top - shift) / total) * weight
        dx = e * slope - tl.where(is_target, own, other)
        there = column < columns
        tl.store(dx_ptr + at * dx_stride + column, dx.to(dx_ptr.dtype.element_ty), there, eviction_policy=HINT)


@triton.jit
def cross_entropy_walk(
    x_ptr, target_ptr, loss_ptr, columns, x_stride, ignored,
    BLOCK: tl.constexpr, SMOOTHING: tl.constexpr, Z_LOSS: tl.constexpr,
):  # fmt: skip
    """The loss of a row alone: read block by block, the next one on its way, the sum held to the largest so far."""
    row = tl.program_id(0)
    target = tl.load(target_ptr + row)
    counts = target != ignored
    is_class = (target >= 0) & (target < columns)
    x_ptr += row.to(tl.int64) * x_stride
    lane = tl.arange(0, BLOCK)
    chosen = tl.load(x_ptr + target, counts & is_class, other=0.0).to(tl.float32)
    top = tl.full((), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    plain = tl.zeros((BLOCK,), tl.float32)
    x = tl.load(x_ptr + lane, counts & (lane < columns), other=float("-inf"), eviction_policy=HINT)
    for first in range(0, columns, BLOCK):
        column = first + BLOCK + lane
        ahead = tl.load(x_ptr + column, counts & (column < columns), other=float("-inf"), eviction_policy=HINT)
        wide = x.to(tl.float32)
        higher = tl.maximum(top, tl.max(wide, 0))
        shift = finite_or_zero(higher)
        total = total * tl.exp(top - shift) + tl.exp(wide - shift)
        if SMOOTHING != 0:
            plain += tl.where(first + lane < columns, wide, 0.0)
        top = higher
        x = ahead
    if SMOOTHING != 0:
        chosen += SMOOTHING * (tl.sum(plain, 0) / columns - chosen)
    shift = finite_or_zero(top)
    log_total = tl.log(tl.where(counts, tl.sum(total, 0), 1.0))
    lse = shift + log_total
    loss = (shift - chosen) + log_total
    if Z_LOSS != 0:
        loss += Z_LOSS * lse * lse
    tl.store(loss_ptr + row, tl.where(counts, tl.where(is_class, loss, float("nan")), 0.0))


@triton.jit
def scale_lines(dx_ptr, scale_ptr, columns, spans, scale_stride, BLOCK: tl.constexpr):
    """A span of dx times its line's number, in place; left alone where that is 1."""
    line, first, lane, mask = span_of(columns, spans, BLOCK)  # pyright: ignore[reportGeneralTypeIssues]
    scale = widened(tl.load(scale_ptr + line * scale_stride))
    mask = mask & (scale != 1)
    target = line * columns + first + lane
    dx = widened(tl.load(dx_ptr + target, mask, other=0.0, eviction_policy=HINT))
    tl.store(dx_ptr + target, (dx * scale).to(dx_ptr.dtype.element_ty), mask, eviction_policy=HINT)
