"""Reads of torch.empty's elements, told from those whose values are thrown away."""

# pyright: basic, reportArgumentType=false

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tests.checks.tracing import line_with
from tilesight import check
from tilesight.roads.model import CheckedFinding


@triton.jit
def choose(x, scratch, out, n, first, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    here = tl.load(x + offsets, mask=offsets < n, other=0.0)
    there = tl.load(scratch + offsets, mask=offsets < n, other=0.0)
    tl.store(out + offsets, tl.where(offsets < first, there, here), mask=offsets < n)


@triton.jit
def choose_sum(scratch, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    total = tl.sum(tl.load(scratch + offsets, mask=offsets < n, other=0.0), axis=0)
    tl.store(out + offsets, tl.where(offsets < n, 1.0, total), mask=offsets < n)


@triton.jit
def weigh(scratch, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    there = tl.load(scratch + offsets, mask=offsets < n, other=0.0)
    tl.store(out + offsets, tl.where(offsets < n, 0.0, 1.0) * there, mask=offsets < n)


@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets, mask=offsets < n), mask=offsets < n)


def found_in(first: int) -> list[CheckedFinding]:
    def launch() -> torch.Tensor:
        out = torch.zeros(20)
        choose[(1,)](torch.ones(20), torch.empty(20), out, 20, first, BLOCK=32)
        return out

    return [each for each in check(launch).findings if each.kind == "uninitialised-read"]


def test_a_value_that_is_thrown_away_is_a_note() -> None:
    (finding,) = found_in(0)
    assert (finding.level, finding.line) == ("note", line_with(choose, "there = tl.load"))
    assert finding.message.endswith("what it reads there changes no output")


def test_a_sum_that_is_thrown_away_is_a_warning() -> None:
    def launch() -> torch.Tensor:
        out = torch.zeros(20)
        choose_sum[(1,)](torch.empty(20), out, 20, BLOCK=32)
        return out

    levels = [each.level for each in check(launch).findings if each.kind == "uninitialised-read"]
    assert levels == ["warning"]


def test_a_weight_of_zero_does_not_throw_a_value_away() -> None:
    """0 times what lies there is NaN where that is NaN."""

    def launch() -> torch.Tensor:
        out = torch.zeros(20)
        weigh[(1,)](torch.empty(20), out, 20, BLOCK=32)
        return out

    levels = [each.level for each in check(launch).findings if each.kind == "uninitialised-read"]
    assert levels == ["error"]


def test_a_value_that_one_lane_keeps_is_an_error() -> None:
    (finding,) = found_in(1)
    assert (finding.level, finding.line) == ("error", line_with(choose, "there = tl.load"))


def test_a_copy_of_nothing_into_nothing_is_an_error_and_leaves_the_input_alone() -> None:
    held: list[torch.Tensor] = []

    def launch() -> torch.Tensor:
        x, out = torch.empty(20), torch.empty(20)
        held.extend((x, x.view(torch.int32).numpy().copy()))  # the flags of x are not set: NumPy only reads
        copy[(1,)](x, out, 20, BLOCK=32)
        return out

    levels = [each.level for each in check(launch).findings if each.kind == "uninitialised-read"]
    assert levels == ["error"]
    x, before = held
    assert (x.view(torch.int32).numpy() == before).all()
