"""What depends on the order of programs, and what is tried again under autotune."""

# pyright: basic, reportArgumentType=false

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tests.checks.sanitizing import sanitize
from tests.checks.tracing import line_with


@triton.jit
def append(x, free, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + i, mask=i < n, other=0.0)
    place = tl.atomic_add(free, BLOCK)
    tl.store(out + place + tl.arange(0, BLOCK), values, mask=i < n)


@triton.jit
def append_each_lane(x, free, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + i, mask=i < n, other=0)
    place = tl.atomic_add(free + i * 0, 1, mask=i < n)
    tl.store(out + place, values, mask=i < n)


@triton.jit
def last_comer(x, out, BLOCK: tl.constexpr):
    value = tl.load(x + tl.program_id(0))
    tl.atomic_xchg(out, value)


@triton.jit
def from_a_queue(x, queue, out, n, tiles, BLOCK: tl.constexpr):
    tile = tl.atomic_add(queue, 1)
    while tile < tiles:
        i = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, mask=i < n, other=0.0) * 2, mask=i < n)
        tile = tl.atomic_add(queue, 1)


@triton.jit
def sum_under_lock(x, lock, total, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    part = tl.sum(tl.load(x + i, mask=i < n, other=0.0), axis=0)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total, tl.load(total) + part)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def count(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum((tl.load(x + i, mask=i < n, other=0.0) > 0).to(tl.int32), axis=0))


@triton.jit
def add_up(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n, other=0.0), axis=0))


def of_order(kernel, grid, **arguments):
    found = sanitize(kernel, grid, **arguments)
    return [(each.line, each.level) for each in found if each.kind == "non-determinism"]


def counter():
    return torch.zeros(1, dtype=torch.int32)


def test_places_that_are_handed_out_on_arrival() -> None:
    arguments = {"x": torch.randn(256), "free": counter(), "n": 256, "BLOCK": 64}
    found = of_order(append, (4,), **arguments, out=torch.zeros(256))
    assert found == [(line_with(append, "tl.atomic_add"), "warning")]


def test_places_of_whole_numbers() -> None:
    arguments = {"x": torch.arange(100), "free": counter(), "n": 100, "BLOCK": 32}
    found = of_order(append_each_lane, (4,), **arguments, out=torch.zeros(100, dtype=torch.int64))
    assert found == [(line_with(append_each_lane, "tl.atomic_add"), "warning")]


def test_equal_values_at_other_places_are_the_same_result() -> None:
    arguments = {"x": torch.full((256,), 2.0), "free": counter(), "n": 256, "BLOCK": 64}
    assert of_order(append, (4,), **arguments, out=torch.zeros(256)) == []


def test_the_last_one_to_come_leaves_its_value() -> None:
    found = of_order(last_comer, (6,), x=torch.randn(6), out=torch.zeros(1), BLOCK=1)
    assert found == [(line_with(last_comer, "tl.atomic_xchg"), "warning")]
    assert of_order(last_comer, (1,), x=torch.randn(6), out=torch.zeros(1), BLOCK=1) == []


def test_a_queue_that_only_chooses_who_works_is_fine() -> None:
    arguments = {"x": torch.randn(500), "queue": counter(), "n": 500, "tiles": 8, "BLOCK": 64}
    assert of_order(from_a_queue, (3,), **arguments, out=torch.zeros(500)) == []


def test_a_sum_under_a_lock_is_a_note_and_an_atomic_sum_a_warning() -> None:
    torch.manual_seed(0)
    x = torch.randn(640)
    locked = {"x": x, "lock": counter(), "total": torch.zeros(1), "n": 640, "BLOCK": 32}
    assert [level for _, level in of_order(sum_under_lock, (20,), **locked)] == ["note"]
    found = of_order(add_up, (20,), x=x, out=torch.zeros(1), n=640, BLOCK=32)
    assert found == [(line_with(add_up, "tl.atomic_add"), "warning")]


def test_a_sum_that_comes_out_the_same_in_two_other_orders() -> None:
    x = torch.tensor([0.0, 1.0, 256.0, 0.0, 1.0], dtype=torch.bfloat16)
    arguments = {"x": x, "out": torch.zeros(1, dtype=torch.bfloat16), "n": 5, "BLOCK": 1}
    assert of_order(add_up, (5,), **arguments) == [(line_with(add_up, "tl.atomic_add"), "warning")]


@pytest.mark.parametrize("programs", [1, 20])
def test_whole_numbers_add_up_to_the_same_in_every_order(programs: int) -> None:
    assert of_order(count, (programs,), x=torch.randn(640), out=counter(), n=640, BLOCK=32) == []
