"""Reductions and scans, with one operation and with whole regions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tilesight.engine import Argument, ExecutionOptions, Launch, execute
from tilesight.ir import parse_module

from .. import kernels
from ..launching import run
from .elementwise import BFLOAT16, TYPE_NAMES, Array, memory

CHUNKS = [1, 2, 50]


@pytest.mark.parametrize("chunk", CHUNKS)
def test_reductions_of_a_tile(chunk: int) -> None:
    tiles = torch.randn(5, 8, 16)
    tiles[1, 2] = 3.0
    sums, largest = torch.zeros(5, 16), torch.zeros(5, 8)
    where, every = torch.zeros(5, 8, dtype=torch.int32), torch.zeros(5)
    running = torch.zeros(5, 8, 16)
    results = {"sums": sums, "largest": largest, "where": where, "every": every, "running": running}
    options = ExecutionOptions(chunk_programs=chunk)
    run(kernels.reductions, (5,), (), options, x=tiles, **results, BLOCK_M=8, BLOCK_N=16)  # pyright: ignore[reportArgumentType]
    torch.testing.assert_close(sums.double(), tiles.double().sum(1), rtol=1e-5, atol=1e-5)
    assert torch.equal(largest, tiles.amax(2))
    assert torch.equal(where.long(), tiles.argmax(2))
    assert every.tolist() == [16.0] * 5
    torch.testing.assert_close(running.double(), tiles.double().flip(2).cumsum(2).flip(2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_scan_of_pairs_keeps_the_order(chunk: int) -> None:
    a, b = torch.rand(3, 32), torch.randn(3, 32)
    out = torch.zeros(3, 32)
    run(kernels.linear_recurrence, (3,), options=ExecutionOptions(chunk_programs=chunk), a=a, b=b, out=out, BLOCK=32)
    state, expected = torch.zeros(3, dtype=torch.float64), []
    for i in range(32):
        state = a[:, i].double() * state + b[:, i].double()
        expected.append(state)
    torch.testing.assert_close(out.double(), torch.stack(expected, 1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_sum_of_a_block_that_does_not_vary(chunk: int) -> None:
    out = torch.zeros(4)
    run(kernels.sum_of_constant, (4,), options=ExecutionOptions(chunk_programs=chunk), out=out, BLOCK=128)
    assert out.tolist() == [384.0, 385.0, 386.0, 387.0]


def combine(kind: str, combiner: str, values: Array, reverse: bool = False) -> Array:
    """tt.reduce or tt.scan of one block by a region of one operation."""
    size, type_ = len(values), TYPE_NAMES[values.dtype.name]
    block, pointers = f"tensor<{size}x{type_}>", f"tensor<{size}x!tt.ptr<{type_}>>"
    attributes = f"axis = 0 : i32, reverse = {str(reverse).lower()}" if kind == "scan" else "axis = 0 : i32"
    result = block if kind == "scan" else type_
    stored = ("%q1, %r", pointers) if kind == "scan" else ("%out, %r", f"!tt.ptr<{type_}>")
    text = f"""module {{ tt.func public @k(%x: !tt.ptr<{type_}>, %out: !tt.ptr<{type_}>) {{
      %range = tt.make_range {{end = {size} : i32, start = 0 : i32}} : tensor<{size}xi32>
      %s0 = tt.splat %x : !tt.ptr<{type_}> -> {pointers}
      %q0 = tt.addptr %s0, %range : {pointers}, tensor<{size}xi32>
      %s1 = tt.splat %out : !tt.ptr<{type_}> -> {pointers}
      %q1 = tt.addptr %s1, %range : {pointers}, tensor<{size}xi32>
      %v = tt.load %q0 : {pointers}
      %r = "tt.{kind}"(%v) <{{{attributes}}}> ({{
      ^bb0(%a: {type_}, %b: {type_}):
        %c = {combiner} %a, %b : {type_}
        tt.{kind}.return %c : {type_}
      }}) : ({block}) -> {result}
      tt.store {stored[0]} : {stored[1]}
      tt.return
    }} }}"""
    out = np.zeros(size if kind == "scan" else 1, values.dtype)
    arguments = (Argument("x", memory("x", values)), Argument("out", memory("out", out)))
    execute(parse_module(text), Launch("k", text, arguments, (1, 1, 1)))
    return out


INTEGER: dict[str, Callable[[int, int], int]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.muli": lambda a, b: a * b,
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.xori": lambda a, b: a ^ b,
    "arith.maxsi": max,
    "arith.minsi": min,
    "arith.maxui": lambda a, b: max(a % 2**32, b % 2**32),
}


WORDS = st.integers(-(2**31), 2**31 - 1)


def wrap(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=17), st.sampled_from(sorted(INTEGER)), st.booleans()
)
def test_integer_scans_and_reductions(values: list[int], combiner: str, reverse: bool) -> None:
    """Odd extents too; a reduction is the last element of a scan where the order does not matter."""
    array = np.array(values, np.int32)
    ordered = values[::-1] if reverse else values
    running = list(accumulate(ordered, lambda a, b: wrap(INTEGER[combiner](a, b))))
    assert combine("scan", combiner, array, reverse).tolist() == (running[::-1] if reverse else running)
    assert combine("reduce", combiner, array).tolist() == [running[-1]]


@pytest.mark.parametrize("combiner", ["arith.xori", "arith.andi", "arith.ori", "arith.addi"])
@pytest.mark.parametrize("bits", [[True], [True, False, True, True], [False] * 4])
def test_booleans(combiner: str, bits: list[bool]) -> None:
    expected = bits[0]
    for bit in bits[1:]:
        expected = bool(INTEGER[combiner](expected, bit) & 1)
    assert combine("reduce", combiner, np.array(bits)).tolist() == [expected]


@pytest.mark.parametrize(("combiner", "ignores"), [("arith.maxnumf", True), ("arith.maximumf", False)])
@pytest.mark.parametrize("dtype", [np.dtype("float32"), BFLOAT16], ids=str)
def test_maximum_and_nan(dtype: np.dtype, combiner: str, ignores: bool) -> None:  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType]
    values = np.array([1, np.nan, 3, -np.inf], np.float32).astype(dtype)
    (largest,) = combine("reduce", combiner, values).astype(np.float32).tolist()
    assert largest == 3 if ignores else largest != largest


def test_bfloat16_sums_round_at_every_step() -> None:
    """256 + 1 is 256 in bf16, so summing ones by halves is exact and a running sum stops at 256."""
    ones = np.ones(1024, np.float32).astype(BFLOAT16)
    assert combine("reduce", "arith.addf", ones).astype(np.float32).tolist() == [1024.0]
    big = np.array([256, 1, 0, 0], np.float32).astype(BFLOAT16)
    assert combine("scan", "arith.addf", big).astype(np.float32).tolist() == [256.0] * 4


def test_long_float32_sum_is_accurate() -> None:
    values = np.random.default_rng(6).uniform(0, 1, 1 << 16).astype(np.float32)
    exact = float(values.astype(np.float64).sum())
    assert abs(float(combine("reduce", "arith.addf", values)[0]) - exact) < 1e-6 * exact
