"""Labels follow values through control flow, calls and operations that move lanes."""

# pyright: basic, reportArgumentType=false

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import triton
import triton.language as tl

from tests.engine.launching import launch_of
from tilesight.checks.lane_labels import ALONG_AXIS, MOVES, join_everything, join_lanes, move_lanes
from tilesight.checks.program_trace import Labels, ProgramTrace, Step, trace_programs
from tilesight.checks.replay import Replay
from tilesight.checks.suspects import Suspects
from tilesight.engine import ExecutionOptions, execute
from tilesight.ir import parse_module
from tilesight.ir.module import Operation


class LoadTrace(ProgramTrace):
    """Labels each lane of a load with its number plus 1 and keeps what is stored."""

    def __init__(self, module) -> None:
        super().__init__(module)
        self.stored: dict[int, Labels | None] = {}

    def is_source(self, operation: Operation) -> bool:
        return operation.name in ("tt.load", "tt.store")

    def label(self, step: Step) -> Sequence[Labels | None]:
        name = step.operation.name
        if name == "tt.store":
            self.stored[step.program] = step.labels[1]
            return []
        if name == "tt.load":
            shape = step.accesses[0].shape
            return [np.arange(1, 1 + np.prod(shape), dtype=np.int16).reshape(shape)]
        if name in MOVES:
            return move_lanes(step)
        return join_everything(step) if name in ALONG_AXIS else [join_lanes(step)] * len(step.results)


@triton.jit
def carry(x, out, steps, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    first, second = tl.load(x + i), tl.zeros((BLOCK,), tl.float32)
    for step in range(steps):
        first, second = second, first
        if step == 3:
            second = second + 1.0
    tl.store(out + tl.program_id(0) * BLOCK + i, second)


@triton.jit
def turn(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tile = tl.load(x + i[:, None] * BLOCK + i[None, :])
    tl.store(out + i[:, None] * BLOCK + i[None, :], tl.trans(tile))


@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def copy_sum(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + i, mask=i < n, other=0.0), axis=0))


def labels_stored(kernel, programs, **arguments):
    launch = launch_of(kernel, (4,), arguments)
    module = parse_module(launch.ttir)
    trace = LoadTrace(module)
    trace_programs(Replay.of(module, launch, ExecutionOptions()), programs, trace)
    return trace.stored


def suspects_of(kernel, grid, **arguments) -> Suspects:
    launch = launch_of(kernel, grid, arguments)
    module = parse_module(launch.ttir)
    suspects = Suspects(module)
    execute(module, launch, (suspects,))
    return suspects


def test_loops_carry_labels() -> None:
    x, out = torch.randn(8), torch.zeros(4, 8)
    for steps in (1, 3, 5, 4, 6):
        stored = labels_stored(carry, (0, 3), x=x, out=out, steps=steps, BLOCK=8)
        assert list(stored) == [0, 3]
        for labels in stored.values():
            got = [] if labels is None else labels.reshape(-1).tolist()
            assert got == ([*range(1, 9)] if steps % 2 else []), steps
    assert not out.any(), "a trace writes to copies"


def test_labels_move_with_their_lanes() -> None:
    (labels,) = labels_stored(turn, (2,), x=torch.randn(4, 4), out=torch.zeros(4, 4), BLOCK=4).values()
    assert labels is not None
    assert labels.tolist() == [torch.arange(1, 17).reshape(4, 4).T.tolist()]


def test_programs_with_masked_lanes() -> None:
    x, out = torch.randn(100), torch.zeros(100)
    suspects = suspects_of(copy, (9,), x=x, out=out, n=100, BLOCK=16)
    assert suspects.undefined == (6, 7, 8)
    assert suspects.padded == suspects.non_finite == ()
    assert suspects_of(copy, (6,), x=x, out=out, n=100, BLOCK=16).undefined == ()
    assert suspects_of(copy_sum, (7,), x=x, out=out, n=100, BLOCK=16).padded == (6,)


def test_programs_that_store_what_is_not_finite() -> None:
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e5m2):
        x = torch.zeros(100)
        x[[33, 70]] = torch.tensor([float("nan"), float("-inf")])
        out = torch.zeros(100).to(dtype)
        suspects = suspects_of(copy, (7,), x=x.to(dtype), out=out, n=100, BLOCK=16)
        assert (suspects.non_finite, suspects.non_finite_count) == ((2, 4), 2), dtype
    large = torch.full((100,), 3e38)
    assert suspects_of(copy, (7,), x=large, out=torch.zeros(100), n=100, BLOCK=16).non_finite == ()
