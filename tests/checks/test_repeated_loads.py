"""Loads repeated in a loop: found where nothing changes, and nowhere else."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from tests.engine.launching import launch_of
from tilesight.checks.finding import Finding
from tilesight.checks.repeated_loads import find_repeated_loads
from tilesight.checks.replay import Replay
from tilesight.engine import ExecutionOptions
from tilesight.ir import parse_module

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false


def check(kernel: Any, grid: tuple[int, ...] = (3,), **arguments: Any) -> list[Finding]:
    launch = launch_of(kernel, grid, arguments)
    return find_repeated_loads(Replay.of(parse_module(launch.ttir), launch, ExecutionOptions()))


def marked(kernel: Any) -> list[int]:
    """The kernel's lines that end in `# repeated`."""
    lines, first = inspect.getsourcelines(kernel.fn)
    return [first + index for index, line in enumerate(lines) if line.rstrip().endswith("# repeated")]


def tensors(**changes: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    given = {"x": torch.randn(4096), "w": torch.randn(64), "out": torch.zeros(4096), "n": 512, "BLOCK": 64}
    return {**given, **changes}


@triton.jit
def weights_each_round(x, w, out, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        weight = tl.load(w + lanes)  # repeated
        total += weight * tl.load(x + start + lanes, mask=start + lanes < n, other=0.0)
    tl.store(out + tl.program_id(0) * BLOCK + lanes, total)


@triton.jit
def scale_of(w, row):
    return tl.load(w + row)  # repeated


@triton.jit
def scaled(w, row, values):
    return values * scale_of(w, row)


@triton.jit
def scale_through_helpers(x, w, out, n, BLOCK: tl.constexpr):
    """The store is to another tensor, so that the scale cannot change."""
    row = tl.program_id(0)
    for start in range(0, n, BLOCK):
        places = start + tl.arange(0, BLOCK)
        mask = places < n
        values = tl.load(x + row * n + places, mask=mask, other=0.0)
        tl.store(out + row * n + places, scaled(w, row, values), mask=mask)


@triton.jit
def looked_up(x, w, indices, out, n, BLOCK: tl.constexpr):
    """The row is looked up anew in each round, by an index that does not change either."""
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    k = 0
    while k < n:
        row = tl.load(indices)  # repeated
        total += tl.load(w + row + lanes) + k  # repeated
        k += BLOCK
    tl.store(out + lanes, total)


@triton.jit
def inner_loop(x, w, out, n, BLOCK: tl.constexpr):
    """What changes with the outer loop alone is repeated in the inner one."""
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(0, 4):  # noqa: PIE808
        for start in range(0, n, BLOCK):
            bias = tl.load(w + row)  # repeated
            total += bias * tl.load(x + start + lanes)
    tl.store(out + lanes, total)


def test_weights_in_a_loop() -> None:
    (finding,) = check(weights_each_round, **tensors())
    assert [finding.line] == marked(weights_each_round)
    assert finding.message == "the load of w is made 8 times in the loop of program 0, from the same addresses"
    assert (finding.kind, finding.level, finding.tensor) == ("contract", "warning", "w")
    assert finding.hint == "load it once before the loop"


def test_a_helper_is_named_at_its_own_line() -> None:
    (finding,) = check(scale_through_helpers, **tensors())
    assert [finding.line] == marked(scale_of)


def test_a_pointer_that_is_loaded_does_not_change_either() -> None:
    found = check(looked_up, **tensors(indices=torch.zeros(1, dtype=torch.int32)))
    assert [finding.line for finding in found] == marked(looked_up)


def test_the_innermost_loop_counts() -> None:
    (finding,) = check(inner_loop, **tensors())
    assert [finding.line] == marked(inner_loop)
    assert "8 times" in finding.message


@triton.jit
def accumulated_in_memory(x, w, out, n, BLOCK: tl.constexpr):
    """The loop stores where it loads."""
    lanes = tl.arange(0, BLOCK)
    for start in range(0, n, BLOCK):
        total = tl.load(out + lanes)
        tl.store(out + lanes, total + tl.load(x + start + lanes))


@triton.jit
def tiles_of_an_outer_loop(x, w, out, n, BLOCK: tl.constexpr):
    """The weights of all columns do not fit a program: each row reads them again, tile by tile."""
    lanes = tl.arange(0, BLOCK)
    for row in range(0, 4):  # noqa: PIE808
        for start in range(0, 64, BLOCK):
            weight = tl.load(w + start + lanes)
            tl.store(out + row * 64 + start + lanes, weight * tl.load(x + row * 64 + start + lanes))


@triton.jit
def loaded_in_one_round(x, w, out, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        if start == 0:
            total += tl.load(w + lanes)
        total += tl.load(x + start + lanes)
    tl.store(out + lanes, total)


@triton.jit
def waits_for_a_flag(x, w, out, n, BLOCK: tl.constexpr):
    """A flag is polled; what is behind it is read when it is set."""
    flag = tl.load(w, volatile=True)
    while flag == 0.0:
        flag = tl.load(w, volatile=True)
    tl.store(out, flag)


@triton.jit
def counts_with_atomics(x, w, out, n, BLOCK: tl.constexpr):
    """The atomic orders this program's loads with other programs' stores."""
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(0, n, BLOCK):
        tl.atomic_add(out + 100, 1.0)
        total += tl.load(w + lanes)
    tl.store(out + lanes, total)


@pytest.mark.parametrize(
    "changes",
    [
        (accumulated_in_memory, {}),
        (tiles_of_an_outer_loop, {"BLOCK": 16}),
        (loaded_in_one_round, {}),
        (waits_for_a_flag, {"w": torch.ones(64)}),
        (counts_with_atomics, {}),
        (weights_each_round, {"n": 64}),
    ],
    ids=lambda given: given[0].__name__,
)
def test_loads_that_a_loop_needs_are_quiet(changes: tuple[Any, dict[str, Any]]) -> None:
    kernel, given = changes
    assert check(kernel, **tensors(**given)) == []


def test_tensors_that_overlap_may_change() -> None:
    whole = torch.randn(4096)
    assert check(scale_through_helpers, **tensors(w=whole, out=whole)) == []
    assert len(check(scale_through_helpers, **tensors(w=whole[:1000], out=whole[1000:]))) == 1


def test_the_tensors_are_left_as_they_were() -> None:
    given = tensors()
    check(weights_each_round, **given)
    assert not given["out"].any()
