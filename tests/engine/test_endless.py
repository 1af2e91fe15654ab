"""Loops that go in a circle are given up at once; those that go on, or wait for memory, are not."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tilesight.engine import ExecutionOptions, Launch, execute
from tilesight.engine.endless import deciding_values
from tilesight.errors import EndlessLoopError
from tilesight.ir import parse_module
from tilesight.ir.module import Module

from .launching import launch_of


@triton.jit
def stands_still(x, y, n):
    i = 0
    while i < n:
        tl.store(y + i, tl.load(x + i))
        i += 0


@triton.jit
def stands_still_in_one_program(x, y, n):
    i = 0
    while i < n:
        tl.store(y + tl.program_id(0), i)
        i += 1 - tl.program_id(0)


@triton.jit
def swings(x, y, n):
    i = 0
    k = 1
    while i < n:
        k = -k
        i = i + k
    tl.store(y, i)


@triton.jit
def sums_until(x, y, n):
    i = 0
    total = 0.0
    while total < n:
        total += tl.load(x)
        i += 1
    tl.store(y, i)


@triton.jit
def halves(x, y, n):
    rest = n
    i = 0
    while rest > 1:
        i += 1
        if i % 8 == 0:
            rest = rest // 2
    tl.store(y, i)


def module_of(kernel: object, n: int, programs: int = 1) -> tuple[Module, Launch, torch.Tensor]:
    y = torch.zeros(8)
    launch = launch_of(kernel, (programs,), {"x": torch.ones(8), "y": y, "n": n})
    return parse_module(launch.ttir), launch, y


@pytest.mark.parametrize(("kernel", "programs"), [(stands_still, 1), (stands_still_in_one_program, 2)])
def test_a_loop_that_changes_nothing_is_given_up_at_once(kernel: object, programs: int) -> None:
    module, launch, _ = module_of(kernel, 5, programs)
    with pytest.raises(EndlessLoopError, match=r"test_endless.py:\d+: a loop never ends: .* 256th and its 257th"):
        execute(module, launch, (), ExecutionOptions(threads=1))


def test_a_circle_of_two_rounds_is_given_up_by_its_rounds() -> None:
    module, launch, _ = module_of(swings, 5)
    with pytest.raises(EndlessLoopError, match="a loop is in its 3,001th round"):
        execute(module, launch, (), ExecutionOptions(threads=1, loop_limit=3000))


@pytest.mark.parametrize(("kernel", "n", "rounds"), [(sums_until, 2000, 2000), (halves, 2**30, 240)])
def test_a_loop_that_goes_on_ends(kernel: object, n: int, rounds: int) -> None:
    module, launch, y = module_of(kernel, n)
    execute(module, launch, (), ExecutionOptions(threads=1))
    assert int(y[0]) == rounds


def test_what_a_condition_is_made_of() -> None:
    def found(kernel: object) -> tuple[int, ...] | None:
        module, *_ = module_of(kernel, 5)
        (loop,) = [operation for operation in module.walk() if operation.name == "scf.while"]
        return deciding_values(loop)

    assert found(stands_still) == ()
    assert found(stands_still_in_one_program) == (0,)
    assert found(swings) == (0, 1)
    assert found(halves) == (0, 1)
    assert found(sums_until) is None
