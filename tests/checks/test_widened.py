"""Twins change nothing and agree with what they are twins of; short loops touch what the ends of long ones touch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from tests.engine import inductor_kernels, kernels
from tests.engine.launching import launch_of
from tilesight.checks.overflow import Comparison, OverflowCheck
from tilesight.checks.replay import Replay
from tilesight.checks.shortened import ROUNDS, shorten
from tilesight.engine import Access, ExecutionOptions, Listener, execute
from tilesight.ir import parse_module, verify

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false
# pyright: reportOperatorIssue=false, reportCallIssue=false, reportGeneralTypeIssues=false


@triton.jit
def wander(x, y, n, limit, BLOCK: tl.constexpr):
    """Loops, conditions and casts that offsets pass through."""
    start = tl.program_id(0) * BLOCK
    if start >= limit:
        return
    offsets = start + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    place = start
    rounds = 0
    while place < n:
        step = BLOCK
        if rounds % 2 == 0:
            step += 1
        inside = (offsets < n) & (offsets >= 0)
        total += tl.load(x + tl.where(inside, offsets, 0), mask=inside, other=0.0)
        offsets += step
        place += step
        rounds += 1
    lanes = tl.minimum(start.to(tl.int64) + tl.arange(0, BLOCK), n - 1).to(tl.int32).to(tl.uint32)
    tl.store(y + lanes, total)


@triton.jit(noinline=True)
def place_of(row, stride, column):
    return row * stride + column, row + 1


@triton.jit
def called(x, y, stride, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS
    for _ in range(ROWS):
        place, row = place_of(row, stride, 0)
        tl.store(y + place + tl.arange(0, BLOCK), tl.load(x + place + tl.arange(0, BLOCK)))


@triton.jit
def through_descriptor(x, y, M, N, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [M, N], [N, 1], [BLOCK, BLOCK])
    target = tl.make_tensor_descriptor(y, [M, N], [N, 1], [BLOCK, BLOCK])
    row, column = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    target.store([row, column], source.load([row, column]))


@triton.jit
def by_both_ends(x, y, n, stride, BLOCK: tl.constexpr):
    """A pointer, an offset that falls and the counter, all carried into addresses."""
    pointer = x + tl.arange(0, BLOCK)
    back = n * stride - BLOCK + tl.arange(0, BLOCK)
    for index in range(n):
        value = tl.load(pointer) + tl.load(x + back)
        tl.store(y + index * stride + tl.arange(0, BLOCK), value)
        pointer += stride
        back -= stride


def launches():
    torch.manual_seed(0)
    x, y = torch.randn(3000), torch.zeros(3000)
    a, b, c = torch.randn(33, 80), torch.randn(80, 35), torch.zeros(33, 35)
    product = {"a": a, "b": b, "c": c, "M": 33, "N": 35, "K": 80, "BLOCK": 16, "BLOCK_N": 16, "PRECISION": "ieee"}
    norm = {"in_ptr0": x, "out_ptr2": y, "xnumel": 10, "r0_numel": 300, "XBLOCK": 4, "R0_BLOCK": 64}
    return {
        "add": (kernels.add, (3,), {"x": x, "y": x, "out": y, "n": 2999, "BLOCK": 1024}),
        "matmul": (kernels.matmul, (3, 3), product),
        "transpose": (kernels.transpose, (3, 5), {"x": a, "out": y, "M": 33, "N": 80, "BLOCK": 16}),
        "online_softmax": (inductor_kernels.online_softmax, (3,), norm),
        "wander": (wander, (9,), {"x": x, "y": y, "n": 500, "limit": 448, "BLOCK": 64}),
        "called": (called, (4,), {"x": x, "y": y, "stride": 40, "ROWS": 3, "BLOCK": 32}),
        "descriptor": (through_descriptor, (3, 5), {"x": a, "y": torch.zeros(33, 80), "M": 33, "N": 80, "BLOCK": 16}),
        "both_ends": (by_both_ends, (1,), {"x": x, "y": y, "n": 40, "stride": 70, "BLOCK": 64}),
    }


NAMES = list(launches())


class Touched(Listener):
    """Bytes that active lanes touch, by kind of access."""

    def __init__(self) -> None:
        self.found: dict[str, list[np.ndarray]] = {}

    def after_access(self, access: Access) -> None:
        address = np.broadcast_to(access.address, access.shape)
        mask = np.broadcast_to(True if access.mask is None else access.mask, access.shape)
        self.found.setdefault(access.kind, []).append(np.unique(address[mask]))

    def all(self) -> set[int]:
        return {int(each) for lists in self.found.values() for part in lists for each in part}


@pytest.mark.parametrize("name", NAMES)
def test_twins_agree_and_change_nothing(name: str) -> None:
    """Every narrow operation of the slice gets a twin; right offsets are equal at every sink."""
    kernel, grid, arguments = launches()[name]
    launch = launch_of(kernel, grid, arguments)
    module = parse_module(launch.ttir)
    operations = tuple(OverflowCheck().watched(module))
    assert operations
    replay = Replay.of(module, launch, ExecutionOptions())
    comparison = Comparison(module, launch, operations)
    verify(comparison._widened.module)
    assert comparison._widened.markers
    assert comparison.run(replay, range(launch.programs)) is None
    assert comparison.harms() == []
    plain = replay.run()
    twin = replay.run(module=comparison._widened.module)
    for left, right in zip(plain.memories, twin.memories, strict=True):
        assert np.array_equal(left.data, right.data)


@pytest.mark.parametrize("name", NAMES)
def test_short_loops_touch_nothing_else(name: str) -> None:
    kernel, grid, arguments = launches()[name]
    launch = launch_of(kernel, grid, arguments)
    module = parse_module(launch.ttir)
    short = shorten(module)
    verify(short.module)
    assert short.cut == () or name == "called"
    whole, part = Touched(), Touched()
    execute(module, launch, [whole])
    execute(short.module, launch, [part])
    assert part.all() and part.all() <= whole.all()


def test_short_loops_run_both_ends() -> None:
    """Of 40 rounds the first and the last two, at the addresses that they have in a run of all."""
    kernel, grid, arguments = launches()["both_ends"]
    launch = launch_of(kernel, grid, arguments)
    short = shorten(parse_module(launch.ttir))
    touched = Touched()
    execute(short.module, launch, [touched])
    x, y = (arguments[name].data_ptr() for name in ("x", "y"))
    rounds = [*range(ROUNDS), *range(40 - ROUNDS, 40)]
    forward = [(place - x) // 4 for place in (int(each[0]) for each in touched.found["load"][::2])]
    back = [(place - x) // 4 for place in (int(each[0]) for each in touched.found["load"][1::2])]
    stored = [(int(each[0]) - y) // 4 for each in touched.found["store"]]
    assert forward == [70 * index for index in rounds]
    assert back == [40 * 70 - 64 - 70 * index for index in rounds]
    assert stored == [70 * index for index in rounds]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5])
def test_short_loops_of_few_rounds_are_whole(n: int) -> None:
    kernel, grid, arguments = launches()["both_ends"]
    launch = launch_of(kernel, grid, {**arguments, "n": n})
    module = parse_module(launch.ttir)
    whole, part = Touched(), Touched()
    execute(module, launch, [whole])
    execute(shorten(module).module, launch, [part])
    if n <= 2 * ROUNDS:
        assert part.all() == whole.all() and len(part.all()) == 3 * 64 * n - _twice(n)
    else:
        assert part.all() < whole.all()


def _twice(n: int) -> int:
    """Lanes that both loads of a run of n rounds touch: the tiles at 70 i and at 70 n − 64 − 70 j of x."""
    forward = {70 * index + lane for index in range(n) for lane in range(64)}
    back = {70 * n - 64 - 70 * index + lane for index in range(n) for lane in range(64)}
    return len(forward & back)


@triton.jit
def doubling(x, y, n, BLOCK: tl.constexpr):
    place = 1
    for _ in range(n):
        tl.store(y + place, tl.load(x + place))
        place = place * 2


def test_what_grows_by_no_fixed_step_is_cut_and_said() -> None:
    launch = launch_of(doubling, (1,), {"x": torch.zeros(3000), "y": torch.zeros(3000), "n": 10, "BLOCK": 16})
    short = shorten(parse_module(launch.ttir))
    touched = Touched()
    execute(short.module, launch, [touched])
    assert [loop.name for loop in short.cut] == ["scf.for"]
    assert len(touched.found["load"]) == ROUNDS
