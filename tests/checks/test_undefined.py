"""Undefined lanes: where they come from, where they end, and what is fine."""

# pyright: basic, reportArgumentType=false

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tests.checks.tracing import line_with, trace
from tests.engine import kernels
from tilesight.checks.undefined import find_undefined


@triton.jit
def sum_row(x, out, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols)
    tl.store(out + tl.program_id(0), tl.max(values, axis=0))


@triton.jit
def largest_size(x, out, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols)
    tl.store(out + tl.program_id(0), tl.max(tl.abs(values), axis=0))


@triton.jit
def sum_selected(x, out, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols)
    tl.store(out + tl.program_id(0), tl.sum(tl.where(c < cols, values, 0.0), axis=0))


@triton.jit
def read_value(x, i, n):
    return tl.load(x + i, mask=i < n)


@triton.jit
def mask_by_value(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = read_value(x, i, n)
    tl.store(out + i, value, mask=value > 0)


@triton.jit
def mask_by_both(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = read_value(x, i, n)
    tl.store(out + i, value, mask=(i < n) & (value > 0))


@triton.jit
def read_at_index(x, index, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(index + i, mask=i < n)
    tl.store(out + i, tl.load(x + at, mask=i < n), mask=i < n)


@triton.jit
def loop_to_value(counts, out, n):
    p = tl.program_id(0)
    total = 0
    for i in range(tl.load(counts + p, mask=p < n) & 7):
        total += i
    tl.store(out + p, total, mask=p < n)


@triton.jit
def sum_in_pieces(x, out, cols, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        values = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols)
        total += values
    tl.store(out + tl.program_id(0), tl.sum(total, axis=0))


@triton.jit
def rows_beside_the_matrix(a, b, out, M, K: tl.constexpr, BLOCK: tl.constexpr):
    m, k = tl.arange(0, BLOCK), tl.arange(0, K)
    left = tl.load(a + m[:, None] * K + k[None, :], mask=m[:, None] < M)
    right = tl.load(b + k[:, None] * K + k[None, :])
    tl.store(out + m[:, None] * K + k[None, :], tl.dot(left, right), mask=m[:, None] < M)


def test_reduction_mixes_undefined_lanes() -> None:
    (found,) = trace(find_undefined, sum_row, (3,), x=torch.randn(3, 20), out=torch.zeros(3), cols=20, BLOCK=32)
    end = line_with(sum_row, "tl.store")
    assert found.kind == "unmasked-undefined"
    assert (found.file, found.line) == (__file__, line_with(sum_row, "tl.load"))
    assert (found.programs, found.program_count, found.lanes, found.lane_count) == ((0, 2), 2, (20, 31), 24)
    assert found.message == (
        "lanes 20 to 31 of program 0 are masked off and hold no defined value: the load of x has no other=; "
        f"they reach a store in line {end} through a maximum in line {end}"
    )
    assert found.hint.startswith('give the load other=float("-inf")')


def test_the_hint_keeps_the_result_where_something_lies_between() -> None:
    """other=-inf would make the largest absolute value infinite."""
    (found,) = trace(find_undefined, largest_size, (3,), x=torch.randn(3, 20), out=torch.zeros(3), cols=20, BLOCK=32)
    assert found.hint == 'replace the lanes with tl.where(mask, ..., float("-inf")) before the maximum'


def test_line_is_the_helper_s_and_the_mask_is_undefined() -> None:
    x, out = torch.randn(20), torch.zeros(32)
    (found,) = trace(find_undefined, mask_by_value, (2,), x=x, out=out, n=20, BLOCK=16)
    assert found.line == line_with(read_value, "tl.load")
    assert (found.programs, found.lanes) == ((1,), (4, 15))
    assert trace(find_undefined, mask_by_both, (2,), x=x, out=out, n=20, BLOCK=16) == []


def test_bound_of_a_loop() -> None:
    counts, out = torch.tensor([3, 4], dtype=torch.int32), torch.zeros(3, dtype=torch.int32)
    (found,) = trace(find_undefined, loop_to_value, (2,), counts=counts, out=out, n=1)
    assert found.message.endswith(f"they reach a loop's bound in line {line_with(loop_to_value, 'for i in')}")
    assert found.message.startswith("lane 0 of program 1 is masked off and holds no defined value")
    assert trace(find_undefined, loop_to_value, (2,), counts=counts, out=out, n=2) == []


def test_loop_carries_undefined_lanes() -> None:
    x, out = torch.randn(2, 40), torch.zeros(2)
    (found,) = trace(find_undefined, sum_in_pieces, (2,), x=x, out=out, cols=40, BLOCK=16)
    assert (found.line, found.lanes) == (line_with(sum_in_pieces, "tl.load"), (8, 15))
    assert trace(find_undefined, sum_in_pieces, (2,), x=torch.randn(2, 48), out=out, cols=48, BLOCK=16) == []


def test_what_is_dropped_is_fine() -> None:
    x, out = torch.randn(3, 20), torch.zeros(3)
    assert trace(find_undefined, sum_selected, (3,), x=x, out=out, cols=20, BLOCK=32) == []
    index = torch.randperm(20, dtype=torch.int32)
    arguments = {"x": torch.randn(20), "index": index, "out": torch.zeros(20), "n": 20}
    assert trace(find_undefined, read_at_index, (2,), **arguments, BLOCK=16) == []
    matrices = {"a": torch.randn(5, 16), "b": torch.randn(16, 16), "out": torch.zeros(5, 16)}
    assert trace(find_undefined, rows_beside_the_matrix, (1,), **matrices, M=5, K=16, BLOCK=16) == []
    assert trace(find_undefined, kernels.add, (2,), x=x, y=x, out=torch.zeros(3, 20), n=60, BLOCK=32) == []


@triton.jit
def places_in_order(values, bounds, out, n, SIZE: tl.constexpr, BLOCK: tl.constexpr):
    """How many of SIZE - 1 ascending bounds lie below each value: by halving."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(values + i, mask=i < n)
    low, high = tl.zeros((BLOCK,), tl.int32), tl.full((BLOCK,), SIZE - 1, tl.int32)
    left = SIZE
    while left > 1:
        middle = (low + high) // 2
        bound = tl.load(bounds + middle, mask=middle < SIZE - 1, other=0.0)
        above = value > bound
        low, high = tl.where(above & (middle < SIZE - 1), middle + 1, low), tl.where(above, high, middle)
        left = (left + 1) // 2
    tl.store(out + i, low, mask=i < n)


@triton.jit
def chosen_address(x, at, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    sign = tl.load(x + i, mask=i < n)
    tl.store(out + i, tl.load(at + tl.where(sign > 0, 1, 0)))


@triton.jit
def loaded_address(index, x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(index + i, mask=i < n)
    tl.store(out + i, tl.load(x + tl.where(at > 5, at, 5)), mask=i < n)


def test_a_choice_between_defined_addresses_is_followed_to_where_it_ends() -> None:
    """A search by halving looks at one bound or another: for lanes that are not stored that is no fault."""
    values, bounds = torch.randn(20), torch.linspace(-1, 1, 7)
    out = torch.full((20,), -1, dtype=torch.int32)
    assert (
        trace(find_undefined, places_in_order, (2,), values=values, bounds=bounds, out=out, n=20, SIZE=8, BLOCK=16)
        == []
    )
    assert torch.equal(out.long(), torch.bucketize(values, bounds))


def test_a_choice_that_is_stored_is_a_leak() -> None:
    (found,) = trace(
        find_undefined, chosen_address, (1,), x=torch.randn(5), at=torch.randn(2), out=torch.zeros(8), n=5, BLOCK=8
    )
    assert (found.line, found.lanes) == (line_with(chosen_address, "sign = "), (5, 7))
    assert found.message.endswith(f"they reach a store in line {line_with(chosen_address, 'tl.store')}")


def test_an_address_that_is_undefined_itself_is_a_leak_in_the_load() -> None:
    index = torch.arange(8, dtype=torch.int32)
    arguments = {"index": index, "x": torch.randn(4096), "out": torch.zeros(8), "n": 6}
    (found,) = trace(find_undefined, loaded_address, (1,), **arguments, BLOCK=8)
    assert found.line == line_with(loaded_address, "at = ")
    assert found.message.endswith(f"they reach an address or a mask in line {line_with(loaded_address, 'tl.store')}")


@triton.jit
def sum_through_a_block_pointer(x, y, n, LARGEST: tl.constexpr, BLOCK: tl.constexpr):
    block = tl.make_block_ptr(x, (n,), (1,), (tl.program_id(0) * BLOCK,), (BLOCK,), (0,))
    values = tl.load(block, boundary_check=(0,))
    tl.store(y + tl.program_id(0), tl.max(values, axis=0) if LARGEST else tl.sum(values, axis=0))


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize(
    ("largest", "hint"),
    [
        (False, 'give the load padding_option="zero", or replace the lanes with tl.where before they are used'),
        (True, 'replace the lanes with tl.where(mask, ..., float("-inf")) before the maximum'),
    ],
)
def test_a_block_pointer_takes_no_other(largest: bool, hint: str) -> None:
    """Triton refuses mask and other where the pointer is a block's."""
    arguments = {"x": torch.randn(100), "y": torch.zeros(2), "n": 100, "LARGEST": largest, "BLOCK": 64}
    (found,) = trace(find_undefined, sum_through_a_block_pointer, (2,), **arguments)
    assert found.hint == hint
    assert "the load of x has no padding_option=; they reach a store" in found.message


@triton.jit
def counted(x, out, n, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    values = tl.load(x + i, mask=i < n)
    mask = i < n if MASKED else i >= 0
    tl.store(out + tl.arange(0, 16), tl.histogram(values, 16, mask=mask))


def test_a_histogram_does_not_count_the_lanes_that_its_mask_leaves_out() -> None:
    x, out = torch.arange(20, dtype=torch.int32) % 16, torch.zeros(16, dtype=torch.int32)
    assert trace(find_undefined, counted, (1,), x=x, out=out, n=20, MASKED=True, BLOCK=32) == []
    assert torch.equal(out.long(), torch.bincount(x, minlength=16))
    (found,) = trace(find_undefined, counted, (1,), x=x, out=out, n=20, MASKED=False, BLOCK=32)
    assert (found.line, found.lanes) == (line_with(counted, "values = "), (20, 31))
