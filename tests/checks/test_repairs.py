"""The repair that a finding names is one that repairs: what is launched, masked, stored or dealt out by it is whole."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false
# pyright: reportOperatorIssue=false, reportCallIssue=false

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from tilesight.roads.check import check_launch
from tilesight.roads.model import CheckedFinding


def line_of(kernel: Any, text: str) -> int:
    lines, first = inspect.getsourcelines(kernel.fn)
    return next(first + index for index, line in enumerate(lines) if text in line)


def found_in(launch: Callable[[], Any], *kinds: str) -> list[CheckedFinding]:
    """The faults, which are of these kinds."""
    found = [each for each in check_launch(launch).findings if each.level != "note"]
    assert sorted(each.kind for each in found) == sorted(kinds)
    return found


@triton.jit
def copy_unrolled(x, out, n, UNROLL: tl.constexpr, BLOCK: tl.constexpr):
    for part in tl.static_range(UNROLL):  # pyright: ignore[reportGeneralTypeIssues]
        i = (tl.program_id(0) * UNROLL + part) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def copy_blocks(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


def unrolled(programs: int, n: int = 1000) -> torch.Tensor:
    x, out = torch.randn(n), torch.empty(n)
    copy_unrolled[(programs,)](x, out, n, UNROLL=4, BLOCK=64)
    return out


def test_too_many_programs_of_several_blocks() -> None:
    """Each takes 4 blocks: triton.cdiv(n, BLOCK) is what was launched, and 4 times too many."""
    (found,) = found_in(lambda: unrolled(16), "grid")
    assert found.hint.startswith("launch 4 programs along x for these sizes: triton.cdiv(n, share)")
    found_in(lambda: unrolled(4))


def test_too_few_programs_of_several_blocks() -> None:
    grid, _ = sorted(found_in(lambda: unrolled(2), "grid", "never-written"), key=lambda each: each.kind)
    assert grid.hint.startswith("launch 4 programs along x")


def test_too_few_programs_of_several_blocks_for_a_tensor_that_was_defined() -> None:
    def launch() -> torch.Tensor:
        x, out = torch.randn(1000), torch.zeros(1000)
        copy_unrolled[(2,)](x, out, 1000, UNROLL=4, BLOCK=64)
        return out

    (found,) = found_in(launch, "grid")
    assert found.hint == "launch triton.cdiv(1000, 256) = 4 programs: each begins 256 after the one before"


def test_programs_of_one_block_are_told_as_ever() -> None:
    def launch(programs: int) -> torch.Tensor:
        x, out = torch.randn(1000), torch.zeros(1000)
        copy_blocks[(programs,)](x, out, 1000, BLOCK=64)
        return out

    (few,) = found_in(lambda: launch(8), "grid")
    assert few.hint == "launch triton.cdiv(n, BLOCK) programs along each axis, with the BLOCK of this launch"
    (many,) = found_in(lambda: launch(20), "grid")
    assert many.hint == "launch triton.cdiv(n, BLOCK) programs, with the BLOCK that this launch uses"


@triton.jit
def copy_in_shares(x, out, n, PROGRAMS: tl.constexpr, BLOCK: tl.constexpr):
    share = tl.cdiv(n, BLOCK) // PROGRAMS
    for tile in range(tl.program_id(0) * share, (tl.program_id(0) + 1) * share):  # deals out
        i = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def copy_in_turns(x, out, n, TILES: tl.constexpr, BLOCK: tl.constexpr):
    for tile in range(tl.program_id(0), TILES, tl.num_programs(0)):  # deals out
        i = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def copy_in_steps(x, out, n, STEP: tl.constexpr, BLOCK: tl.constexpr):
    for tile in range(tl.program_id(0), tl.cdiv(n, BLOCK), STEP):  # deals out
        i = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)


def test_shares_that_leave_a_rest() -> None:
    """54 tiles among 12 programs: 4 each, and 6 left over, whatever the grid is called."""

    def launch() -> torch.Tensor:
        x, out = torch.randn(54 * 16), torch.empty(54 * 16)
        copy_in_shares[(12,)](x, out, 54 * 16, PROGRAMS=12, BLOCK=16)
        return out

    (found,) = found_in(launch, "never-written")
    assert found.hint.startswith(
        f"the programs deal out tiles in the loop of line {line_of(copy_in_shares, '# deals out')}: let it reach all"
    )


@pytest.mark.parametrize("make", [torch.empty, torch.zeros])
def test_turns_that_end_early(make: Callable[..., torch.Tensor]) -> None:
    """The launcher counts 7 of 8 tiles: more programs would change nothing."""

    def launch(tiles: int) -> torch.Tensor:
        x, out = torch.randn(8 * 16), make(8 * 16)
        copy_in_turns[(3,)](x, out, 8 * 16, TILES=tiles, BLOCK=16)
        return out

    line = line_of(copy_in_turns, "# deals out")
    (found,) = found_in(lambda: launch(7), "never-written" if make is torch.empty else "grid")
    assert f"in the loop of line {line}: let it reach all of them" in found.hint
    if make is torch.zeros:
        assert found.line == line
        assert found.message.startswith("the loop over tiles ends early: i reaches 111 where the mask in line ")
    found_in(lambda: launch(8))


def test_fewer_programs_than_the_kernel_counts_with() -> None:
    def launch(programs: int) -> torch.Tensor:
        x, out = torch.randn(20 * 16), torch.empty(20 * 16)
        copy_in_steps[(programs,)](x, out, 20 * 16, STEP=5, BLOCK=16)
        return out

    grid, _ = sorted(found_in(lambda: launch(4), "grid", "never-written"), key=lambda each: each.kind)
    assert grid.hint.endswith(", or launch as many programs as the kernel counts with")
    found_in(lambda: launch(5))


@triton.jit
def sum_rows(x, out, rows, ROWS_TOLD: tl.constexpr, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    tile = tl.make_tensor_descriptor(x, [ROWS_TOLD, COLUMNS], [COLUMNS, 1], [BLOCK, COLUMNS])
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + r, tl.sum(tile.load([tl.program_id(0) * BLOCK, 0]), 1), mask=r < rows)


def test_a_descriptor_takes_no_mask() -> None:
    def launch(told: int) -> torch.Tensor:
        x, out = torch.randn(10, 8), torch.empty(10)
        sum_rows[(3,)](x, out, 10, ROWS_TOLD=told, COLUMNS=8, BLOCK=4)
        return out

    (found,) = found_in(lambda: launch(12), "out-of-bounds")
    assert found.hint == "a descriptor masks by its own shape: make it with shape=[10, 8], that of x"
    found_in(lambda: launch(10))


@triton.jit
def copy_unmasked(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i), mask=i < n)


def test_an_empty_tensor_says_nothing_of_the_bound() -> None:
    (found,) = found_in(lambda: copy_unmasked[(1,)](torch.empty(0), torch.empty(0), 0, BLOCK=8), "out-of-bounds")
    assert found.hint.startswith("mask with the number of elements of x, which is empty here")


@triton.jit
def swapped_tiles(x, out, ROWS: tl.constexpr, BM: tl.constexpr, STEP: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [ROWS, 8], [8, 1], [BM, 8])
    target = tl.make_tensor_descriptor(out, [ROWS, 8], [8, 1], [BM, 8])
    target.store([tl.program_id(0) * STEP, 0], source.load([tl.program_id(0) * BM, 0]))


def test_a_program_that_stores_outside_is_not_one_too_many() -> None:
    def launch(step: int) -> torch.Tensor:
        x, out = torch.randn(20, 8), torch.empty(20, 8)
        swapped_tiles[(2,)](x, out, ROWS=20, BM=16, STEP=step)
        return out

    found_in(lambda: launch(32), "never-written")
    found_in(lambda: launch(16))


@triton.jit
def finish(parts, out, COUNT: tl.constexpr):
    p = tl.arange(0, COUNT)
    tl.store(out, tl.sum(tl.load(parts + p, mask=p < tl.num_programs(0), other=0), 0))


@triton.jit
def sum_by_ticket(x, parts, ticket, out, EARLY: tl.constexpr, BARRIER: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    part = tl.sum(tl.load(x + pid * BLOCK + tl.arange(0, BLOCK)), 0)
    if EARLY:
        tl.store(parts + pid, part)
        tl.debug_barrier()
    drawn = tl.atomic_add(ticket, 1)  # the ticket
    if BARRIER:
        tl.debug_barrier()
    if not EARLY:
        tl.store(parts + pid, part)
    if BARRIER:
        tl.debug_barrier()
    if drawn == tl.num_programs(0) - 1:
        finish(parts, out, 8)


def ticketed(early: bool, barrier: bool) -> torch.Tensor:
    x, out = torch.arange(8 * 16, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    parts, ticket = torch.zeros(8, dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    sum_by_ticket[(8,)](x, parts, ticket, out, EARLY=early, BARRIER=barrier, BLOCK=16)
    return out


@pytest.mark.parametrize("barrier", [False, True])
def test_the_last_one_reads_what_is_stored_after_the_ticket(barrier: bool) -> None:
    """No barrier orders two programs: the repair is the place of the store."""
    found = [each for each in check_launch(lambda: ticketed(False, barrier)).findings if each.kind == "race"]
    assert found
    for each in found:
        assert each.hint.startswith(
            "store before the ticket is taken: move the store of parts above the atomic of line "
        )
        assert f"line {line_of(sum_by_ticket, '# the ticket')}, with tl.debug_barrier() between" in each.hint
    found_in(lambda: ticketed(True, False))


@triton.jit
def two_tiles(x, parts, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(parts + i, tl.load(x + i))
    tl.store(out + i, tl.load(parts + BLOCK - 1 - i))


def test_without_a_ticket_a_barrier_is_the_repair() -> None:
    x, parts, out = torch.randn(256), torch.zeros(256), torch.empty(256)
    (found,) = found_in(lambda: two_tiles[(1,)](x, parts, out, BLOCK=256), "race")
    assert found.hint.startswith("put tl.debug_barrier() between the two")


@triton.jit
def gather_rows(x, slots, out, columns, RETURNS: tl.constexpr, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    slot = tl.load(slots + row)
    if RETURNS:
        if slot < 0:  # returns
            return
        tl.store(out + row * columns + c, tl.load(x + slot * columns + c, mask=c < columns), mask=c < columns)
    else:
        if slot >= 0:  # guards
            tl.store(out + row * columns + c, tl.load(x + slot * columns + c, mask=c < columns), mask=c < columns)


@pytest.mark.parametrize(("returns", "text"), [(True, "# returns"), (False, "# guards")])
def test_rows_of_programs_that_a_branch_turns_away(returns: bool, text: str) -> None:
    def launch(slots: list[int]) -> torch.Tensor:
        x, out = torch.randn(4, 10), torch.empty(len(slots), 10)
        gather_rows[(len(slots),)](x, torch.tensor(slots, dtype=torch.int32), out, 10, RETURNS=returns, BLOCK=16)
        return out

    (found,) = found_in(lambda: launch([2, -1, 0, -1, 3]), "never-written")
    line = line_of(gather_rows, text)
    assert found.hint.startswith(f"let programs that line {line} turns away store their part of out too")
    found_in(lambda: launch([2, 1, 0]))
