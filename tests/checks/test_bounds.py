"""Out-of-bounds accesses: who, where, how many, and what to do."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tests.engine.launching import run
from tilesight.checks.bounds import BoundsCheck
from tilesight.checks.finding import Finding

# pyright: basic, reportArgumentType=false


@triton.jit
def copy_unmasked(x, y, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.load(x + offsets))


@triton.jit
def copy_masked(x, y, n, shift, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offsets, tl.load(x + offsets - shift, mask=offsets < n), mask=offsets < n)


@triton.jit
def add_far(x, BLOCK: tl.constexpr):
    tl.atomic_add(x + tl.program_id(0) * 1000000000 + tl.arange(0, BLOCK), 1.0)


def check(kernel, grid, **arguments) -> list[Finding]:
    listener = BoundsCheck()
    run(kernel, grid, (listener,), **arguments)
    return listener.findings()


def test_missing_mask() -> None:
    x, y = torch.randn(100_000), torch.zeros(100_352)
    (finding,) = check(copy_unmasked, (98,), x=x, y=y, BLOCK=1024)
    assert finding.kind == "out-of-bounds"
    assert finding.file == __file__
    assert finding.message == (
        "load of x reads past its end: lanes 672 to 1023 of program 97 (352 lanes); x has 100000 elements"
    )
    assert finding.hint == "mask with offsets < 100000 (the mask is missing)"
    assert (finding.programs, finding.program_count, finding.lanes, finding.lane_count) == ((97,), 1, (672, 1023), 352)
    assert torch.equal(y[:100_000], x)
    assert y[100_000:].isnan().all()


def test_store_past_the_end_is_dropped() -> None:
    around = torch.zeros(64)
    x, y = torch.ones(32), around[16:40]
    (finding,) = check(copy_unmasked, (2,), x=x, y=y, BLOCK=16)
    assert finding.message.startswith("store of y writes past its end: lanes 8 to 15 of program 1 (8 lanes)")
    assert around.tolist() == [0.0] * 16 + [1.0] * 24 + [0.0] * 24


def test_mask_that_lets_too_many_through() -> None:
    findings = check(copy_masked, (2,), x=torch.ones(30), y=torch.zeros(30), n=31, shift=0, BLOCK=16)
    assert [f.message.split(":")[0] for f in findings] == [
        "load of x reads past its end",
        "store of y writes past its end",
    ]
    assert {f.hint for f in findings} == {"mask with offsets < 30 (the mask lets too many lanes through)"}
    assert {f.lanes for f in findings} == {(14, 14)}


def test_before_the_start() -> None:
    (finding,) = check(copy_masked, (2,), x=torch.ones(32), y=torch.zeros(32), n=32, shift=3, BLOCK=16)
    assert finding.message == "load of x reads before its start: lanes 0 to 2 of program 0 (3 lanes); x has 32 elements"
    assert finding.hint == "mask with offsets >= 0 (the mask lets too many lanes through)"


def test_wrapped_offset() -> None:
    (finding,) = check(add_far, (3,), x=torch.zeros(8), BLOCK=8)
    assert finding.program_count == 2
    assert finding.message.startswith("atomic of x updates past its end")
    (wrapped,) = check(add_far_wrapped, (1,), x=torch.zeros(8), start=1_500_000_000)
    assert "int64" in wrapped.hint


@triton.jit
def add_far_wrapped(x, start):
    tl.atomic_add(x + (start + start), 1.0)


def test_many_programs_show_eight() -> None:
    (finding, _) = check(copy_unmasked, (20,), x=torch.ones(4), y=torch.zeros(4), BLOCK=16)
    assert finding.programs == tuple(range(8))
    assert finding.program_count == 20
    assert finding.lane_count == 12 + 19 * 16


@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 32])
def test_right_kernels_are_quiet(n: int) -> None:
    assert check(copy_masked, (2,), x=torch.ones(32), y=torch.zeros(32), n=n, shift=0, BLOCK=16) == []
