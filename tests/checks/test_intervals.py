"""Intervals hold for every value that NumPy finds, and are as narrow as their rule promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilesight.checks.intervals import Interval, Intervals
from tilesight.ir import Operation, Value, parse_module

INT32 = (-(2**31), 2**31 - 1)

MODULE = """
module {{
  tt.func public @k(%n: i32, %m: i32) {{
    %a = tt.make_range {{end = 11 : i32, start = 3 : i32}} : tensor<8xi32>
    %b = arith.constant dense<[{numbers}]> : tensor<8xi32>
    %r = {operation} : tensor<8xi32>
    tt.return
  }}
}}
"""
A = np.arange(3, 11, dtype=np.int64)


def interval_of(operation: str, numbers: list[int]) -> Interval:
    module = parse_module(MODULE.format(numbers=", ".join(map(str, numbers)), operation=operation))
    return Intervals(module).of(result_of(list(module.kernel.walk())))


def result_of(operations: list[Operation]) -> Value:
    return operations[-2].results[0]


RULES: dict[str, Callable[[Any, Any], Any]] = {
    "arith.addi %a, %b": lambda a, b: a + b,
    "arith.subi %a, %b": lambda a, b: a - b,
    "arith.muli %a, %b": lambda a, b: a * b,
    "arith.divsi %a, %b": lambda a, b: a // b,
    "arith.remsi %a, %b": lambda a, b: a % b,
    "arith.andi %a, %b": lambda a, b: a & b,
    "arith.ori %a, %b": lambda a, b: a | b,
    "arith.xori %a, %b": lambda a, b: a ^ b,
    "arith.minsi %a, %b": np.minimum,
    "arith.maxsi %a, %b": np.maximum,
    "arith.shrsi %a, %b": lambda a, b: a >> b,
}


@pytest.mark.parametrize("operation", RULES)
@pytest.mark.parametrize("numbers", [[1] * 8, [1, 2, 3, 4, 5, 6, 7, 8], [7, 1, 30, 2, 9, 4, 11, 5]])
def test_every_lane_lies_in_the_interval(operation: str, numbers: list[int]) -> None:
    found = interval_of(operation, numbers)
    pairs = RULES[operation](A[:, None], np.array(numbers)[None, :])
    assert found.low <= pairs.min()
    assert pairs.max() <= found.high
    assert (found.low, found.high) != INT32


@pytest.mark.parametrize("operation", ["arith.addi %a, %b", "arith.subi %a, %b", "arith.muli %a, %b"])
@pytest.mark.parametrize("numbers", [[-5, 2, -1, 7, 0, 3, -9, 1], [4] * 8])
def test_sums_and_products_are_exact(operation: str, numbers: list[int]) -> None:
    found = interval_of(operation, numbers)
    pairs = RULES[operation](A[:, None], np.array(numbers)[None, :])
    assert (found.low, found.high) == (pairs.min(), pairs.max())


@pytest.mark.parametrize("operation", ["arith.divsi %a, %b", "arith.shrui %a, %b", "arith.minui %a, %b"])
def test_what_may_be_negative_is_not_known(operation: str) -> None:
    found = interval_of(operation, [-1] * 8)
    assert (found.low, found.high) == INT32


@pytest.mark.parametrize("divisors", [[7] * 8, [1, 2, 3, 4, 5, 6, 7, 8]])
@pytest.mark.parametrize("shift", [-40, -6, 5])
def test_a_remainder_has_the_sign_of_what_is_divided(shift: int, divisors: list[int]) -> None:
    """As in C: -7 % 5 is -2."""
    numbers = ", ".join(map(str, divisors))
    module = parse_module(SHIFTED.format(shift=shift, numbers=numbers))
    found = Intervals(module).of(result_of(list(module.kernel.walk())))
    remainders = np.fmod((A + shift)[:, None], np.array(divisors)[None, :])
    assert found.low <= remainders.min()
    assert remainders.max() <= found.high <= max(divisors) - 1
    assert found.low >= -(max(divisors) - 1)


def test_a_factor_that_makes_products_wrap_is_not_known() -> None:
    found = interval_of("arith.muli %a, %b", [747796405] * 8)
    assert (found.low, found.high) == INT32


SHIFTED = """
module {{
  tt.func public @k(%n: i32, %m: i32) {{
    %a = tt.make_range {{end = 11 : i32, start = 3 : i32}} : tensor<8xi32>
    %s = arith.constant dense<{shift}> : tensor<8xi32>
    %b = arith.constant dense<[{numbers}]> : tensor<8xi32>
    %d = arith.addi %a, %s : tensor<8xi32>
    %r = arith.remsi %d, %b : tensor<8xi32>
    tt.return
  }}
}}
"""


LOOP = """
module {
  tt.func public @k(%n: i32, %m: i32) {
    %c0 = arith.constant 0 : i32
    %c4 = arith.constant 4 : i32
    %c5 = arith.constant 5 : i32
    %r:2 = scf.for %i = %c5 to %n step %c4 iter_args(%up = %c0, %down = %c0) -> (i32, i32) : i32 {
      %more = arith.addi %up, %i : i32
      %less = arith.subi %down, %i : i32
      scf.yield %more, %less : i32, i32
    }
    tt.return
  }
}
"""


def test_a_loop_runs_from_its_lower_bound_to_below_its_upper() -> None:
    module = parse_module(LOOP)
    loop = next(inner for inner in module.kernel.walk() if inner.name == "scf.for")
    induction, up, down = loop.regions[0].entry.arguments
    intervals = Intervals(module)
    assert intervals.of(induction).low == 5
    assert intervals.of(induction).is_below(intervals.of(module.kernel.arguments[0]))
    assert not intervals.of(induction).is_below(intervals.of(module.kernel.arguments[1]))
    assert intervals.of(up).low == 0
    assert intervals.of(down).low == INT32[0]


def test_what_holds_of_both_sides_of_a_choice() -> None:
    one, other = Interval(0, 5), Interval(3, 9)
    assert (one.joined(other).low, one.joined(other).high) == (0, 9)
    assert one.is_below(Interval(6, 9))
    assert not one.is_below(Interval(5, 9))
    assert one.is_below(Interval(5, 9), 0)
