"""Branches between blocks: early returns and functions that return from several places."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tilesight.engine import Argument, ExecutionOptions, Launch, execute
from tilesight.errors import ExecutionError
from tilesight.ir import parse_module

from .. import kernels
from ..launching import run
from .elementwise import memory

CHUNKS = [1, 4, 100]
LOOP = """
module { tt.func public @k(%counts: !tt.ptr<i32>, %out: !tt.ptr<i32>) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %program = tt.get_program_id x : i32
  %source = tt.addptr %counts, %program : !tt.ptr<i32>, i32
  %limit = tt.load %source : !tt.ptr<i32>
  cf.br ^head(%zero, %zero : i32, i32)
^head(%i: i32, %sum: i32):
  %next = arith.addi %i, %one : i32
  %more = arith.cmpi slt, %i, %limit : i32
  cf.cond_br %more, ^body(%sum : i32), ^exit(%sum : i32)
^body(%partial: i32):
  %grown = arith.addi %partial, %next : i32
  cf.br ^head(%next, %grown : i32, i32)
^exit(%total: i32):
  %target = tt.addptr %out, %program : !tt.ptr<i32>, i32
  %both = arith.addi %total, %next : i32
  tt.store %target, %both : !tt.ptr<i32>
  tt.return
} }
"""
DIAMOND = """
module { tt.func public @k(%out: !tt.ptr<i32>) {
  %two = arith.constant 2 : i32
  %zero = arith.constant 0 : i32
  %program = tt.get_program_id x : i32
  %rest = arith.remsi %program, %two : i32
  %even = arith.cmpi eq, %rest, %zero : i32
  cf.cond_br %even, ^left, ^right
^left:
  %doubled = arith.muli %program, %two : i32
  cf.br ^join(%doubled, %two : i32, i32)
^right:
  %less = arith.subi %zero, %program : i32
  cf.br ^join(%less, %zero : i32, i32)
^join(%a: i32, %b: i32):
  %target = tt.addptr %out, %program : !tt.ptr<i32>, i32
  %sum = arith.addi %a, %b : i32
  tt.store %target, %sum : !tt.ptr<i32>
  tt.return
} }
"""


@pytest.mark.parametrize("chunk", CHUNKS)
def test_values_meet_where_branches_join(chunk: int) -> None:
    out = np.zeros(7, np.int32)
    launch = Launch("k", DIAMOND, (Argument("out", memory("out", out)),), (7, 1, 1))
    execute(parse_module(DIAMOND), launch, options=ExecutionOptions(chunk_programs=chunk))
    assert out.tolist() == [2 * p + 2 if p % 2 == 0 else -p for p in range(7)]


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("limit", [0, 3, 10])
def test_return_early(limit: int, chunk: int) -> None:
    x, out = torch.randn(10, 8), torch.zeros(10, 8)
    options = ExecutionOptions(chunk_programs=chunk)
    run(kernels.return_early, (10,), options=options, x=x, out=out, limit=limit, BLOCK=8)
    assert torch.equal(out[:limit], x[:limit] * 2)
    assert not out[limit:].any()


@pytest.mark.parametrize("chunk", CHUNKS)
def test_function_with_two_returns(chunk: int) -> None:
    x = torch.randn(6, 16)
    x[0, :6] = torch.tensor([3.0, -2.0, 0.5, -0.0, 1.0, 5.0])
    out = torch.zeros_like(x)
    run(kernels.call_function, (6,), options=ExecutionOptions(chunk_programs=chunk), x=x, out=out, BLOCK=16)
    first = x.reshape(-1)[:6]
    added = torch.where(first < 0, first, torch.minimum(first * first, 2 * first))
    assert torch.equal(out, x + added[:, None])


@pytest.mark.parametrize("chunk", CHUNKS)
def test_loop_of_blocks(chunk: int) -> None:
    """Programs leave at different times and each keeps the values it left with."""
    counts, out = np.array([3, 0, 7, 1, 1, 5], np.int32), np.zeros(6, np.int32)
    arguments = (Argument("counts", memory("counts", counts)), Argument("out", memory("out", out)))
    launch = Launch("k", LOOP, arguments, (6, 1, 1))
    execute(parse_module(LOOP), launch, options=ExecutionOptions(chunk_programs=chunk))
    assert out.tolist() == [n * (n + 1) // 2 + n + 1 for n in counts.tolist()]


def test_cf_assert() -> None:
    text = """module { tt.func public @k(%x: i32) {
      %zero = arith.constant 0 : i32
      %fine = arith.cmpi ne, %x, %zero : i32
      cf.assert %fine, "zero"
      tt.return
    } }"""
    execute(parse_module(text), Launch("k", text, (Argument("x", 1),), (1, 1, 1)))
    with pytest.raises(ExecutionError, match="device assert failed in program 0, lane 0: zero"):
        execute(parse_module(text), Launch("k", text, (Argument("x", 0),), (1, 1, 1)))
