"""Offsets that wrap around in 32 bits: who, where, and what is no fault."""

from __future__ import annotations

import inspect

import pytest
import torch
import triton
import triton.language as tl

from tests.engine import inductor_kernels, kernels
from tests.engine.launching import launch_of
from tilesight.checks.bounds import BoundsCheck
from tilesight.checks.finding import Finding
from tilesight.checks.overflow import OverflowCheck
from tilesight.checks.replay import Replay
from tilesight.engine import ExecutionOptions, execute
from tilesight.ir import parse_module

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false
# pyright: reportOperatorIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false


def check(kernel, grid, programs=None, **arguments) -> tuple[list[Finding], OverflowCheck, list[Finding]]:
    """The overflows, the listener, and what the bounds check says of the same launch."""
    launch = launch_of(kernel, grid, arguments)
    module = parse_module(launch.ttir)
    options = ExecutionOptions(programs=programs)
    overflow, bounds = OverflowCheck(), BoundsCheck()
    replay = Replay.of(module, launch, options)
    execute(module, launch, (overflow, bounds), options)
    return overflow.findings(replay), overflow, bounds.findings()


def line_of(kernel, text: str) -> int:
    lines, first = inspect.getsourcelines(kernel.fn)
    return first + next(index for index, line in enumerate(lines) if text in line)


@triton.jit
def flat(x, y, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    start = pid * BLOCK
    offsets = start + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y + offsets, tl.load(x + offsets, mask=mask), mask=mask)


@triton.jit
def flat_wide(x, y, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y + offsets, tl.load(x + offsets, mask=mask), mask=mask)


LAST = 1 << 31  # elements: program 2097152 of 1024 lanes is the first whose start wraps


def test_flat_offset_and_its_mask() -> None:
    """The mask lets the wrapped lanes through: -2147483648 < n."""
    x, y = torch.zeros(64), torch.zeros(64)
    ids = (2_097_150, 2_097_151, 2_097_152, 2_097_153)
    found, overflow, outside = check(flat, (2_097_154,), ids, x=x, y=y, n=LAST - 2048, BLOCK=1024)
    (finding,) = found
    assert (finding.kind, finding.level, finding.file) == ("overflow", "error", __file__)
    assert finding.line == line_of(flat, "start = pid * BLOCK")
    assert finding.programs == (2_097_152, 2_097_153)
    assert finding.message == (
        "pid * 1024: 2,147,483,648 wrapped to -2,147,483,648 in program 2097152; "
        f"line {line_of(flat, 'tl.store')} loads from the wrong place of x"
    )
    assert finding.hint == "cast to int64 first: `pid.to(tl.int64)`"
    assert len(outside) == 2 and all(overflow.explains(each) for each in outside)


def test_flat_offset_in_64_bits() -> None:
    found, overflow, _ = check(
        flat_wide, (2_097_154,), (2_097_153,), x=torch.zeros(64), y=torch.zeros(64), n=1, BLOCK=1024
    )
    assert found == [] and overflow.wrapped == {}


def test_wrapped_lanes_that_access_nothing_are_no_fault() -> None:
    """With -2147483648 as the limit no lane of any program has a true mask, wrapped or not: twins agree."""
    found, overflow, _ = check(
        flat_low, (2_097_154,), (2_097_152,), x=torch.zeros(64), y=torch.zeros(64), n=1024, BLOCK=1024
    )
    assert found == [] and overflow.wrapped


@triton.jit
def flat_low(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = (offsets >= 0) & (offsets < n)
    tl.store(y + offsets, tl.load(x + offsets, mask=mask), mask=mask)


@triton.jit
def row(x, y, stride, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    tl.store(y + pid * BLOCK + columns, tl.load(x + pid * stride + columns))


@triton.jit
def batch(x, y, batch_stride, row_stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    index = tl.program_id(1)
    rows = tl.arange(0, ROWS)[:, None]
    columns = tl.arange(0, BLOCK)[None, :]
    base = x + index * batch_stride
    tl.store(y + rows * BLOCK + columns, tl.load(base + rows * row_stride + columns))


@triton.jit
def product(x, y, M, N, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lanes = pid * BLOCK + tl.arange(0, BLOCK)
    mask = lanes < M * N
    tl.store(y + lanes, tl.load(x + lanes, mask=mask), mask=mask)


@triton.jit
def moved(x, y, rounds, step, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    for _ in range(rounds):
        tl.store(y + tl.arange(0, BLOCK), tl.load(x + offsets))
        offsets += step


@triton.jit
def offset_of(pid, stride):
    return pid * stride


@triton.jit
def helped(x, y, stride, BLOCK: tl.constexpr):
    place = offset_of(tl.program_id(0), stride) + tl.arange(0, BLOCK)
    tl.store(y + tl.arange(0, BLOCK), tl.load(x + place))


@triton.jit
def narrowed(x, y, n, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * n
    tl.store(y + tl.arange(0, BLOCK), tl.load(x + place.to(tl.int32) + tl.arange(0, BLOCK)))


@triton.jit
def shifted(x, y, bits, BLOCK: tl.constexpr):
    place = tl.program_id(0) << bits
    tl.store(y + tl.arange(0, BLOCK), tl.load(x + place + tl.arange(0, BLOCK)))


@triton.jit
def branched(x, y, n):
    end = tl.program_id(0) * n + n
    if end > 0:
        tl.store(y, tl.load(x))


@triton.jit
def bounded(x, y, n):
    total = 0.0
    for index in range((tl.program_id(0) * n + n) // n):
        total += tl.load(x + index)
    tl.store(y, total)


BIG = 1 << 30
FAULTS = [
    (row, (3,), {"stride": BIG, "BLOCK": 16}, "x + pid * stride", "pid * stride", 1 << 31, -(1 << 31), 2),
    (
        batch,
        (1, 3),
        {"batch_stride": BIG, "row_stride": 16, "ROWS": 4, "BLOCK": 16},
        "base = x",
        "index * batch_stride",
        1 << 31,
        -(1 << 31),
        2,
    ),
    (product, (2,), {"M": 1 << 16, "N": 1 << 16, "BLOCK": 16}, "mask = lanes", "M * N", 1 << 32, 0, 0),
    (moved, (1,), {"rounds": 3, "step": BIG, "BLOCK": 16}, "offsets += step", "offsets + step", 1 << 31, -(1 << 31), 0),
    (helped, (3,), {"stride": BIG, "BLOCK": 16}, "return pid", "tl.program_id(0) * stride", 1 << 31, -(1 << 31), 2),
    (narrowed, (3,), {"n": BIG, "BLOCK": 16}, "place.to(tl.int32)", "place.to(tl.int32)", 1 << 31, -(1 << 31), 2),
    (shifted, (3,), {"bits": 30, "BLOCK": 16}, "<< bits", "tl.program_id(0) << bits", 1 << 31, -(1 << 31), 2),
    (branched, (2,), {"n": BIG}, "end = ", "(tl.program_id(0) * n) + n", 1 << 31, -(1 << 31), 1),
    (bounded, (2,), {"n": BIG}, "for index", "(tl.program_id(0) * n) + n", 1 << 31, -(1 << 31), 1),
]
WRITTEN_AT = {helped: offset_of}


@pytest.mark.parametrize(
    ("kernel", "grid", "sizes", "text", "shown", "true", "got", "program"),
    FAULTS,
    ids=lambda each: getattr(each, "__name__", None),
)
def test_faults(kernel, grid, sizes, text, shown, true, got, program) -> None:
    found, _, _ = check(kernel, grid, x=torch.zeros(64), y=torch.zeros(64), **sizes)
    (finding,) = found
    assert finding.line == line_of(WRITTEN_AT.get(kernel, kernel), text)
    assert finding.message.startswith(f"{shown}: {true:,} wrapped to {got:,} in ")
    assert finding.message.split(";")[0].endswith(f"program {program}")


@triton.jit
def back_and_forth(x, y, big, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK) + big + big - big - big
    tl.store(y + tl.arange(0, BLOCK), tl.load(x + offsets))


@triton.jit
def hashed(x, y, n, BLOCK: tl.constexpr):
    """Murmur's finaliser: products that wrap on purpose, a bucket by an unsigned remainder."""
    h = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.uint32)
    h = (h ^ (h >> 16)) * 0x85EBCA6B
    h = (h ^ (h >> 13)) * 0xC2B2AE35
    bucket = (h ^ (h >> 16)) % n.to(tl.uint32)
    tl.store(y + tl.arange(0, BLOCK), tl.load(x + bucket))


@triton.jit
def masked_low_bits(x, y, BLOCK: tl.constexpr):
    bucket = (tl.arange(0, BLOCK) * 1103515245 + 12345) & 63
    tl.store(y + tl.arange(0, BLOCK), tl.load(x + bucket))


@triton.jit
def unsigned(x, y, n, BLOCK: tl.constexpr):
    """Right up to 2³² in uint32; the load is masked off beyond the tensor."""
    offsets = tl.program_id(0).to(tl.uint32) * n.to(tl.uint32) + tl.arange(0, BLOCK).to(tl.uint32)
    tl.store(y + tl.arange(0, BLOCK), tl.load(x + offsets, mask=offsets < 64, other=0.0))


@triton.jit
def random_data(x, y, seed, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(y + lanes, tl.rand(seed, lanes) + tl.load(x + lanes))


@triton.jit
def wrapped_data(x, y, big, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(y + lanes, ((lanes + big) * big).to(tl.float32))


@pytest.mark.parametrize(
    ("kernel", "grid", "sizes"),
    [
        (back_and_forth, (1,), {"big": BIG + (BIG >> 1)}),
        (hashed, (2,), {"n": 61}),
        (masked_low_bits, (1,), {}),
        (unsigned, (3,), {"n": BIG}),
        (random_data, (1,), {"seed": 7}),
        (wrapped_data, (1,), {"big": BIG}),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_wraps_that_are_no_fault(kernel, grid, sizes) -> None:
    found, overflow, _ = check(kernel, grid, x=torch.zeros(64), y=torch.zeros(64), BLOCK=64, **sizes)
    assert found == []
    assert bool(overflow.wrapped) == (kernel not in (random_data, wrapped_data))


def test_what_else_is_out_of_bounds_is_not_explained() -> None:
    _, overflow, outside = check(row, (3,), x=torch.zeros(8), y=torch.zeros(64), stride=BIG, BLOCK=16)
    assert [overflow.explains(each) for each in outside] == [False]
    _, overflow, outside = check(row, (3,), (2,), x=torch.zeros(8), y=torch.zeros(64), stride=BIG, BLOCK=16)
    assert [overflow.explains(each) for each in outside] == [True]


def test_right_kernels_are_quiet() -> None:
    x, y, z = (torch.randn(3000) for _ in range(3))
    a, b, c = torch.randn(33, 40), torch.randn(40, 35), torch.zeros(33, 35)
    launches = [
        (kernels.add, (3,), {"x": x, "y": y, "out": z, "n": 3000, "BLOCK": 1024}),
        (kernels.softmax, (30,), {"x": x, "out": y, "columns": 100, "stride": 100, "BLOCK": 128}),
        (
            kernels.matmul,
            (3, 3),
            {"a": a, "b": b, "c": c, "M": 33, "N": 35, "K": 40, "BLOCK": 16, "BLOCK_N": 16, "PRECISION": "ieee"},
        ),
        (inductor_kernels.add_relu, (3,), {"in_ptr0": x, "in_ptr1": y, "out_ptr0": z, "xnumel": 3000, "XBLOCK": 1024}),
        (inductor_kernels.gelu, (3,), {"in_out_ptr0": x, "xnumel": 3000, "XBLOCK": 1024}),
    ]
    for kernel, grid, arguments in launches:
        found, overflow, _ = check(kernel, grid, **arguments)
        assert found == [] and overflow.wrapped == {}, kernel
