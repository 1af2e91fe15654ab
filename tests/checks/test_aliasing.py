"""Overlapping arguments: found where the result depends on it, and quiet where it does not."""

# pyright: basic, reportArgumentType=false

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tests.checks.sanitizing import sanitize
from tests.checks.tracing import line_with


@triton.jit
def two_outputs(x, first, second, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(first + i, tl.load(x + i, mask=i < n, other=0.0) * 2, mask=i < n)
    again = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(second + i, again * 3, mask=i < n)


@triton.jit
def neighbour(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = tl.load(x + i, mask=i < n, other=0.0)
    left = tl.load(x + i - 1, mask=(i > 0) & (i < n), other=0.0)
    tl.store(out + i, here - left, mask=i < n)


@triton.jit
def centre(x, out, cols, BLOCK: tl.constexpr):
    row, total = tl.program_id(0), 0.0
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x + row * cols + c, mask=c < cols, other=0.0), axis=0)
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * cols + c, mask=c < cols, other=0.0)
        tl.store(out + row * cols + c, values - total / cols, mask=c < cols)


@triton.jit
def rotate(re, im, out_re, out_im, n, BLOCK: tl.constexpr):
    i = 2 * (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    a = tl.load(re + i, mask=i < 2 * n, other=0.0)
    b = tl.load(im + i, mask=i < 2 * n, other=0.0)
    tl.store(out_re + i, -b, mask=i < 2 * n)
    tl.store(out_im + i, a, mask=i < 2 * n)


@triton.jit
def sum_and_mean(x, total, mean, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    values = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=0.0)
    tl.store(total + tl.program_id(0), tl.sum(values, axis=0))
    tl.store(mean + tl.program_id(0), tl.sum(values, axis=0) / cols)


@triton.jit
def rescale(x, limit, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(out + i, values * 0 + 1, mask=i < n)
    most = tl.load(limit + i, mask=i < n, other=0.0)
    tl.store(out + i, tl.minimum(tl.maximum(most, 1.0), 1.0), mask=i < n)


def test_a_lane_that_reads_again_what_it_stored_through_another_argument() -> None:
    x, second = torch.randn(100), torch.zeros(100)
    apart = torch.zeros(100)
    found = sanitize(two_outputs, (4,), x=x, first=x, second=second, n=100, BLOCK=32)
    assert [(each.kind, each.level) for each in found] == [("alias", "error")]
    assert (found[0].file, found[0].line) == (__file__, line_with(two_outputs, "again = tl.load"))
    assert "in second 100 elements differ" in found[0].message
    assert sanitize(two_outputs, (4,), x=torch.randn(100), first=apart, second=second, n=100, BLOCK=32) == []


def test_programs_that_meet_through_two_arguments_are_no_race_of_the_kernel() -> None:
    x = torch.randn(100)
    (found,) = sanitize(neighbour, (4,), x=x, out=x, n=100, BLOCK=32)
    assert (found.kind, found.line) == ("alias", line_with(neighbour, "left ="))
    assert "nothing orders the two" in found.message
    buffer = torch.randn(101)
    (found,) = sanitize(neighbour, (4,), x=buffer[1:], out=buffer[:-1], n=100, BLOCK=32)
    assert (found.kind, found.line) == ("alias", line_with(neighbour, "here ="))
    assert sanitize(neighbour, (4,), x=torch.randn(100), out=torch.zeros(100), n=100, BLOCK=32) == []


def test_in_place_is_fine_where_each_element_is_read_before_it_is_written() -> None:
    x = torch.randn(5, 40)
    expected = x - x.double().mean(1, keepdim=True)
    assert sanitize(centre, (5,), x=x, out=x, cols=40, BLOCK=16) == []
    assert torch.allclose(x.double(), expected, atol=1e-6)


def test_views_that_interleave_share_no_element() -> None:
    pair = torch.randn(50, 2)
    re, im = pair[:, 0], pair[:, 1]
    assert sanitize(rotate, (2,), re=re, im=im, out_re=re, out_im=im, n=50, BLOCK=32) == []


def test_two_outputs_in_one_tensor() -> None:
    x, out = torch.randn(5, 40), torch.zeros(5)
    found = sanitize(sum_and_mean, (5,), x=x, total=out, mean=out, cols=40, BLOCK=64)
    (alias,) = [each for each in found if each.kind == "alias"]
    assert alias.line == line_with(sum_and_mean, "tl.store(mean")


def test_what_is_read_again_and_changes_nothing_is_fine() -> None:
    """The value that is read anew comes out as 1 either way."""
    x = torch.rand(100)
    found = sanitize(rescale, (4,), x=torch.rand(100), limit=x, out=x, n=100, BLOCK=32)
    assert [each for each in found if each.kind == "alias"] == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32])
def test_every_dtype(dtype: torch.dtype) -> None:
    x = torch.arange(1, 101).to(dtype)
    found = sanitize(two_outputs, (4,), x=x, first=x, second=torch.zeros(100, dtype=dtype), n=100, BLOCK=32)
    assert "alias" in {each.kind for each in found}
