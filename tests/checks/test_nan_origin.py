"""Who made a NaN or an infinity."""

# pyright: basic, reportArgumentType=false

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from tests.checks.tracing import line_with, trace
from tilesight.checks.nan_origin import find_nan_origins


@triton.jit
def softmax_without_maximum(x, out, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=float("-inf"))
    e = tl.exp(values)
    tl.store(out + tl.program_id(0) * cols + c, e / tl.sum(e, axis=0), mask=c < cols)


@triton.jit
def softmax(x, out, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=float("-inf"))
    e = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + tl.program_id(0) * cols + c, e / tl.sum(e, axis=0), mask=c < cols)


@triton.jit
def softmax_of_kept(x, keep, out, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    at = tl.program_id(0) * cols + c
    kept = tl.load(keep + at, mask=c < cols, other=0) != 0
    values = tl.where(kept, tl.load(x + at, mask=c < cols, other=0.0), float("-inf"))
    largest = tl.max(values, axis=0)
    e = tl.exp(values - tl.where(largest == float("-inf"), 0.0, largest))
    tl.store(out + at, e / tl.sum(e, axis=0), mask=c < cols)


@triton.jit
def divide_by_norm(x, out, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=0.0)
    quotient = values / tl.sum(values, axis=0)
    tl.store(out + tl.program_id(0) * cols + c, quotient, mask=c < cols)


@triton.jit
def narrow(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i).to(tl.float16))


@triton.jit
def fill(out, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), tl.full((BLOCK,), float("inf"), tl.float32))


@triton.jit
def add_up(x, out, BLOCK: tl.constexpr):
    tl.store(out, tl.sum(tl.load(x + tl.arange(0, BLOCK)), axis=0))


def rows(**arguments):
    return {"out": torch.zeros(4, 10), "cols": 10, "BLOCK": 16, **arguments}


def test_exponential_overflows() -> None:
    x = torch.zeros(4, 10)
    x[2, 3] = 88.9
    (found,) = trace(find_nan_origins, softmax_without_maximum, (4,), **rows(x=x))
    assert math.isinf(torch.exp(x)[2, 3].item())
    assert (found.kind, found.file, found.line) == (
        "nan-origin",
        __file__,
        line_with(softmax_without_maximum, "tl.exp"),
    )
    assert found.message == "exp(88.9) is inf in program 2, lane 3; it is stored to out"
    assert (found.programs, found.program_count, found.lanes, found.lane_count) == ((2,), 1, (3, 3), 1)
    assert "maximum" in found.hint
    assert trace(find_nan_origins, softmax, (4,), **rows(x=x)) == []


def test_row_of_nothing_but_minus_infinity() -> None:
    x = torch.zeros(4, 10)
    x[1] = float("-inf")
    (found,) = trace(find_nan_origins, softmax, (4,), **rows(x=x))
    assert (found.kind, found.line) == ("all-masked-row", line_with(softmax, "tl.exp"))
    assert (found.programs, found.lanes, found.lane_count) == ((1,), (0, 9), 10)
    assert found.message.startswith("-inf - -inf is nan in program 1, lane 0")


def test_sum_over_no_lane() -> None:
    keep = torch.ones(4, 10, dtype=torch.int32)
    keep[3] = 0
    (found,) = trace(find_nan_origins, softmax_of_kept, (4,), **rows(x=torch.randn(4, 10), keep=keep))
    assert (found.kind, found.line) == ("all-masked-row", line_with(softmax_of_kept, "tl.sum"))
    assert found.message.startswith("0 / 0 is nan in program 3, lane 0")


def test_row_of_zeros_is_no_masked_row() -> None:
    x = torch.ones(4, 10)
    x[2] = 0
    (found,) = trace(find_nan_origins, divide_by_norm, (4,), **rows(x=x))
    assert (found.kind, found.programs) == ("nan-origin", (2,))
    assert found.line == line_with(divide_by_norm, "quotient = ")


def test_half_overflows() -> None:
    x = torch.tensor([1.0, 71000.0, 65504.0, -3.0])
    (found,) = trace(find_nan_origins, narrow, (1,), x=x, out=torch.zeros(4, dtype=torch.float16), BLOCK=4)
    assert found.message == "71000 in f32 is inf in f16 in program 0, lane 1; it is stored to out"
    halves = torch.full((4,), 3e4, dtype=torch.float16)
    (found,) = trace(find_nan_origins, add_up, (1,), x=halves, out=torch.zeros(1, dtype=torch.float16), BLOCK=4)
    assert "is inf" in found.message
    assert found.line == line_with(add_up, "tl.sum")


def test_what_was_given_or_meant_is_fine() -> None:
    assert trace(find_nan_origins, fill, (1,), out=torch.zeros(4), BLOCK=4) == []
    given = torch.tensor([1.0, float("nan"), float("inf"), float("-inf")])
    out = torch.zeros(4, dtype=torch.float16)
    assert trace(find_nan_origins, narrow, (1,), x=given, out=out, BLOCK=4) == []
    assert trace(find_nan_origins, add_up, (1,), x=given, out=torch.zeros(1), BLOCK=4) == []


@triton.jit
def reciprocal(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, 1 / tl.load(x + i))


@triton.jit
def scaled_logarithm(x, scale, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    logarithm = tl.log(tl.load(x + i))
    tl.store(out + i, tl.load(scale + i) * logarithm)


@triton.jit
def inverse_hyperbolic_tangent(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, libdevice.atanh(tl.load(x + i)))


@triton.jit
def share(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    values = tl.load(x + i)
    tl.store(out + i, values / tl.sum(values, axis=0))


def levels(kernel, x, **more):
    found = trace(find_nan_origins, kernel, (1,), x=x, **more, out=torch.zeros(4), BLOCK=4)
    return [(each.kind, each.level) for each in found]


def test_the_infinity_of_a_function_at_a_point_is_a_note() -> None:
    """IEEE 754 calls 1/0 and log 0 exact: torch gives the same infinities for the same numbers."""
    x = torch.tensor([1.0, 0.0, 0.5, -0.0])
    assert torch.isinf(1 / x).tolist() == [False, True, False, True]
    assert levels(reciprocal, x) == [("nan-origin", "note")]
    assert levels(scaled_logarithm, x, scale=torch.ones(4)) == [("nan-origin", "note")]
    assert levels(inverse_hyperbolic_tangent, torch.tensor([0.0, 1.0, -1.0, 0.5])) == [("nan-origin", "note")]


def test_an_infinity_that_becomes_a_nan_is_an_error() -> None:
    """0 · log 0, as in an entropy."""
    x = torch.tensor([1.0, 0.0, 0.5, 0.25])
    assert levels(scaled_logarithm, x, scale=x) == [("nan-origin", "error")]


def test_a_number_that_grew_too_large_is_an_error() -> None:
    """1 / 1e-39 has no float32; 1 / 0 has its infinity."""
    assert levels(reciprocal, torch.tensor([1.0, 2.0, 1e-39, 1.0])) == [("nan-origin", "error")]


def test_a_divisor_made_of_many_lanes_is_the_author_s() -> None:
    """The sum of a row that cancels: its author forgot the case."""
    assert levels(share, torch.tensor([1.0, -1.0, 2.0, -2.0])) == [("nan-origin", "error")]


def test_a_root_of_a_negative_number_is_an_error() -> None:
    x = torch.tensor([1.0, -1.0, 0.5, 0.25])
    assert levels(scaled_logarithm, x, scale=torch.ones(4)) == [("nan-origin", "error")]


@triton.jit
def quantise_rows(x, out, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=0.0)
    scaled = values / (tl.max(tl.abs(values), axis=0) / 127.0)
    tl.store(out + tl.program_id(0) * cols + c, libdevice.rint(scaled).to(tl.int8), mask=c < cols)


@triton.jit
def quantise_kept_rows(x, out, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=0.0)
    largest = tl.max(tl.abs(values), axis=0)
    scaled = tl.where(largest > 0, values / (largest / 127.0), 0.0)
    tl.store(out + tl.program_id(0) * cols + c, libdevice.rint(scaled).to(tl.int8), mask=c < cols)


@triton.jit
def sign_by_ratio(x, out, TEST: tl.constexpr, BLOCK: tl.constexpr):
    values = tl.load(x + tl.arange(0, BLOCK))
    ratio = tl.sum(values, axis=0) / tl.max(values, axis=0)
    if (ratio != ratio) if TEST else (ratio > 0.5):
        tl.store(out + tl.arange(0, BLOCK), values)
    else:
        tl.store(out + tl.arange(0, BLOCK), -values)


def test_an_integer_hides_a_nan() -> None:
    x = torch.randn(4, 10, generator=torch.Generator().manual_seed(0))
    x[2] = 0
    (found,) = trace(find_nan_origins, quantise_rows, (4,), **rows(x=x, out=torch.zeros(4, 10, dtype=torch.int8)))
    assert (found.kind, found.line) == ("nan-origin", line_with(quantise_rows, "scaled = "))
    assert (found.programs, found.lanes, found.lane_count, found.level) == ((2,), (0, 9), 10, "error")
    assert found.message == "0 / 0 is nan in program 2, lane 0; what is stored to out as an integer comes of it"
    assert not trace(find_nan_origins, quantise_kept_rows, (4,), **rows(x=x, out=torch.zeros(4, 10, dtype=torch.int8)))


def test_a_branch_hides_a_nan() -> None:
    same = {"x": torch.zeros(16), "out": torch.zeros(16), "BLOCK": 16}
    (found,) = trace(find_nan_origins, sign_by_ratio, (1,), TEST=False, **same)
    assert (found.kind, found.line) == ("nan-origin", line_with(sign_by_ratio, "ratio = "))
    assert found.message == "0 / 0 is nan in program 0, lane 0; a branch depends on it"
    assert not trace(find_nan_origins, sign_by_ratio, (1,), TEST=True, **same), "a test for NaN is no fault"


@triton.jit
def scale_by_root_mean_square(x, out, cols, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=0.0)
    if WIDE:
        values = values.to(tl.float32)
    mean = tl.sum((values * values).to(tl.float32), axis=0) / cols
    tl.store(out + tl.program_id(0) * cols + c, values * tl.rsqrt(mean + 1e-6), mask=c < cols)


@triton.jit
def square_and_clamp(x, out, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=0.0)
    tl.store(out + tl.program_id(0) * cols + c, tl.minimum((values * values).to(tl.float32), 100.0), mask=c < cols)


def test_an_overflow_of_float16_that_ends_in_a_finite_number() -> None:
    """700² is over 65504: the root of an infinite mean makes the row 0. A clamp gives what float32 would."""
    x = torch.randn(4, 10, generator=torch.Generator().manual_seed(0)).half()
    x[2, 3] = 700
    arguments = rows(x=x, out=torch.zeros(4, 10, dtype=torch.float16))
    (found,) = trace(find_nan_origins, scale_by_root_mean_square, (4,), **arguments, WIDE=False)
    assert (found.kind, found.line) == ("nan-origin", line_with(scale_by_root_mean_square, "values * values"))
    assert (found.programs, found.lanes, found.level, found.tensor) == ((2,), (3, 3), "error", "out")
    assert found.message.startswith("700 * 700 is inf in program 2, lane 3; what is stored to out is off by ")
    assert not trace(find_nan_origins, scale_by_root_mean_square, (4,), **arguments, WIDE=True)
    assert not trace(find_nan_origins, square_and_clamp, (4,), **arguments)


@triton.jit
def means_of_sequences(x, ends, out, BLOCK: tl.constexpr):
    first, last = tl.load(ends + tl.program_id(0)), tl.load(ends + tl.program_id(0) + 1)
    total, count = 0.0, 0.0
    for start in range(first, last, BLOCK):
        i = start + tl.arange(0, BLOCK)
        weights = tl.exp(tl.load(x + i, mask=i < last, other=float("-inf")))
        total += tl.sum(weights * tl.load(x + i, mask=i < last, other=0.0), axis=0)
        count += tl.sum(weights, axis=0)
    tl.store(out + tl.program_id(0), total / count)


def test_a_loop_that_adds_up_nothing() -> None:
    """An empty sequence runs no round: 0 / 0 of what the sums began with."""
    arguments = {"x": torch.randn(20), "ends": torch.tensor([0, 5, 5, 20]), "out": torch.zeros(3), "BLOCK": 8}
    (found,) = trace(find_nan_origins, means_of_sequences, (3,), **arguments)
    assert (found.kind, found.line) == ("all-masked-row", line_with(means_of_sequences, "total / count"))
    assert found.programs == (1,)
