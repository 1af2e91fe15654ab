"""Padded lanes that enter reductions, and those that do no harm."""

# pyright: basic, reportArgumentType=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.checks.tracing import line_with, trace
from tilesight.checks.padding import find_padding


@triton.jit
def sum_of_exponentials(x, out, cols, PAD: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=PAD)
    total = tl.sum(tl.exp(values), axis=0)
    tl.store(out + tl.program_id(0), total)


@triton.jit
def variance(x, out, cols, SELECT: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=0.0)
    apart = values - tl.sum(values, axis=0) / cols
    if SELECT:
        apart = tl.where(c < cols, apart, 0.0)
    squares = tl.sum(apart * apart, axis=0)
    tl.store(out + tl.program_id(0), squares / cols)


@triton.jit
def shifted_softmax(x, out, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=0.0)
    e = tl.where(c < cols, tl.exp(values - tl.max(values, axis=0)), 0.0)
    tl.store(out + tl.program_id(0) * cols + c, e / tl.sum(e, axis=0), mask=c < cols)


@triton.jit
def squared_steps(x, out, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    before = tl.load(x + c - 1, mask=c > 0, other=0.0)
    step = tl.load(x + c) - before
    tl.store(out, tl.sum(step * step, axis=0))


@triton.jit
def count_in_pieces(x, out, cols, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        values = tl.load(x + c, mask=c < cols, other=0.0)
        total += tl.exp(values)
    tl.store(out, tl.sum(total, axis=0))


@triton.jit
def largest(x, out, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    values = tl.load(x + c, mask=c < cols, other=0.0)
    tl.store(out, tl.argmax(values, axis=0))


@triton.jit
def product_of_tails(a, b, out, K, BIAS: tl.constexpr, BLOCK: tl.constexpr):
    m, k = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    left = tl.load(a + m[:, None] * K + k[None, :], mask=k[None, :] < K, other=0.0) + BIAS
    right = tl.load(b + k[:, None] * BLOCK + m[None, :], mask=k[:, None] < K, other=0.0) + BIAS
    tl.store(out + m[:, None] * BLOCK + m[None, :], tl.dot(left, right, input_precision="ieee"))


@triton.jit
def running_total(x, out, first, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    values = tl.exp(tl.load(x + c, mask=c >= first, other=0.0))
    tl.store(out + c, tl.cumsum(values, axis=0), mask=c >= first)


@triton.jit
def sort_padded(x, out, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    values = tl.load(x + c, mask=c < cols, other=float("inf"))
    tl.store(out + c, tl.sort(values), mask=c < cols)


def test_padding_becomes_one() -> None:
    arguments = {"x": torch.randn(3, 20), "out": torch.zeros(3), "cols": 20, "BLOCK": 32}
    (found,) = trace(find_padding, sum_of_exponentials, (3,), **arguments, PAD=0.0)
    assert (found.kind, found.file) == ("all-masked-row", __file__)
    assert (found.line, found.tensor) == (line_with(sum_of_exponentials, "tl.sum"), "x")
    assert (found.programs, found.program_count, found.lanes, found.lane_count) == ((0, 2), 2, (20, 31), 24)
    load = line_with(sum_of_exponentials, "tl.load")
    assert found.message == (
        f"padded lanes enter a reduction: lanes 20 to 31 of program 0, masked off in the load of line {load}, "
        "hold 1 by then and change what is stored"
    )
    assert trace(find_padding, sum_of_exponentials, (3,), **arguments, PAD=float("-inf")) == []


def test_padding_becomes_the_mean() -> None:
    x, out = torch.randn(3, 20) + 2, torch.zeros(3)
    (found,) = trace(find_padding, variance, (3,), x=x, out=out, cols=20, SELECT=False, BLOCK=32)
    assert found.line == line_with(variance, "squares = ")
    assert trace(find_padding, variance, (3,), x=x, out=out, cols=20, SELECT=True, BLOCK=32) == []
    torch.testing.assert_close(out, x.var(1, correction=0))


def test_another_maximum_changes_nothing() -> None:
    x, out = -torch.rand(3, 20) - 1, torch.zeros(3, 20)
    assert trace(find_padding, shifted_softmax, (3,), x=x, out=out, cols=20, BLOCK=32) == []
    torch.testing.assert_close(out, torch.softmax(x, 1))


def test_a_lane_with_data_of_its_own_is_none_of_padding() -> None:
    assert trace(find_padding, squared_steps, (1,), x=torch.ones(16), out=torch.zeros(1), BLOCK=16) == []


def test_running_total_in_a_loop() -> None:
    arguments = {"x": torch.randn(40), "out": torch.zeros(1), "BLOCK": 16}
    (found,) = trace(find_padding, count_in_pieces, (1,), **arguments, cols=40)
    assert found.line == line_with(count_in_pieces, "total += ")
    assert (found.lanes, found.lane_count) == ((8, 15), 8)
    assert trace(find_padding, count_in_pieces, (1,), **arguments, cols=32) == []


def test_winner_is_a_padded_lane() -> None:
    out = torch.zeros(1, dtype=torch.int32)
    (found,) = trace(find_padding, largest, (1,), x=-torch.rand(20) - 1, out=out, cols=20, BLOCK=32)
    assert (found.line, found.lanes) == (line_with(largest, "argmax"), (20, 31))
    assert trace(find_padding, largest, (1,), x=torch.rand(20) + 1, out=out, cols=20, BLOCK=32) == []


def test_product_and_scan() -> None:
    arguments = {"a": torch.randn(16, 10), "b": torch.randn(10, 16), "out": torch.zeros(16, 16), "K": 10, "BLOCK": 16}
    (found,) = trace(find_padding, product_of_tails, (1,), **arguments, BIAS=0.5)
    assert found.line == line_with(product_of_tails, "tl.dot")
    assert trace(find_padding, product_of_tails, (1,), **arguments, BIAS=0.0) == []
    totals = {"x": torch.randn(16), "out": torch.zeros(16), "BLOCK": 16}
    (found,) = trace(find_padding, running_total, (1,), **totals, first=3)
    assert (found.line, found.lanes) == (line_with(running_total, "cumsum"), (0, 2))
    assert trace(find_padding, running_total, (1,), **totals, first=0) == []


def test_sorting_padded_lanes_is_fine() -> None:
    x, out = torch.randn(10), torch.zeros(10)
    assert trace(find_padding, sort_padded, (1,), x=x, out=out, cols=10, BLOCK=16) == []
    torch.testing.assert_close(out, x.sort().values)
