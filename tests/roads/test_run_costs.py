"""Runs that would take long: known before they run, made smaller, and told."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false
# pyright: reportOperatorIssue=false

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tilesight import Case, check
from tilesight.roads import matrix_plan, run_costs
from tilesight.roads.run_costs import MOST_STEPS, RunCosts

OWN = {30: 30, 70: 70}


def costs(*runs: tuple[int, int, int]) -> RunCosts:
    """Of runs that are given as their two sizes and their steps."""
    found = RunCosts(OWN)
    for rows, columns, steps in runs:
        found.note({30: rows, 70: columns}, steps)
    return found


def test_steps_grow_with_the_size_that_a_loop_runs_over() -> None:
    """Two accesses a round, and nothing for more columns, which run together."""
    seen = costs((30, 70, 60), (97, 70, 194), (1009, 70, 2018), (30, 97, 60), (30, 1009, 60))
    assert seen.expected({30: 65_537, 70: 8}) == pytest.approx(131_074)
    assert seen.expected({30: 15, 70: 65_537}) == pytest.approx(30)


def test_the_size_that_costs_most_is_made_smaller_and_no_other() -> None:
    seen = costs((30, 70, 60), (97, 70, 194), (1009, 70, 2018), (30, 97, 60), (30, 1009, 60))
    assert seen.affordable({30: 65_537, 70: 8}) == {30: 4_099, 70: 8}
    assert seen.expected({30: 4_099, 70: 8}) <= MOST_STEPS


def test_where_no_size_between_is_short_none_is_left() -> None:
    seen = costs((30, 70, 60_000), (97, 70, 194_000))
    assert seen.affordable({30: 65_537, 70: 70}) is None


def test_what_is_not_known_is_not_held_to_be_long() -> None:
    assert costs().expected({30: 65_537, 70: 70}) == 0
    assert costs((30, 70, 60)).expected({30: 65_537, 70: 70}) == 60
    assert costs((97, 70, 194), (1009, 70, 2018)).expected({30: 65_537, 70: 70}) == 0


def test_fewer_steps_for_a_larger_size_is_no_growth() -> None:
    assert costs((30, 70, 60), (97, 70, 20)).expected({30: 65_537, 70: 70}) == 60


@triton.jit
def running_totals(x, out, rows, columns, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(rows):
        total += tl.load(x + row * columns + c, mask=c < columns, other=0.0).to(tl.float32)
        tl.store(out + row * columns + c, total.to(out.dtype.element_ty), mask=c < columns)


def totals(x: torch.Tensor) -> torch.Tensor:
    x = x.contiguous()
    out = torch.empty_like(x)
    running_totals[(triton.cdiv(x.shape[1], 16),)](x, out, *x.shape, BLOCK=16)
    return out


def summed(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(0)


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> int:
    """A run may take 400 steps: 200 rounds of two accesses."""
    for module in (run_costs, matrix_plan):
        monkeypatch.setattr(module, "MOST_STEPS", 400)
    return 400


def shapes_of(found: object) -> set[tuple[int, ...]]:
    return {case.shape[0] for case in found.cases if case.strides == "contiguous"}


def test_a_loop_over_rows_is_tried_with_as_many_as_are_short(short: int) -> None:
    found = check(Case(summed, totals, "f32[12,20]"), dtypes="f32")
    shapes = shapes_of(found)
    assert max(rows for rows, columns in shapes) == 97
    assert any(columns > 50_000 for _, columns in shapes)
    left = [note for note in found.notes if "was not run" in note]
    assert any(note.startswith("f32[65537,") and "about 131,074 loads and stores would follow" in note for note in left)
    assert all("f32[97," in note for note in left)
    assert len(left) == len({note.split(" was")[0] for note in left})


def test_what_is_asked_for_runs_and_layouts_are_tried_on_what_is_short(short: int) -> None:
    found = check(Case(summed, totals, "f32[12,20]"), shapes="257,20", dtypes="f32")
    assert (257, 20) in shapes_of(found)
    assert {case.shape[0] for case in found.cases if case.strides != "contiguous"} == {(12, 20)}
    assert found.notes == ("layouts were tried on f32[12,20]: a run of the shape that was asked for is long",)


def test_a_case_that_is_long_itself(short: int) -> None:
    """Its own shape runs once; other dtypes and layouts on smaller ones."""
    found = check(Case(summed, totals, "f32[300,20]"))
    own = [case for case in found.cases if case.shape[0] == (300, 20)]
    assert [(case.dtype, case.strides) for case in own] == [("f32", "contiguous")]
    assert any(case.dtype == "bf16" and case.shape[0][0] > 1 for case in found.cases)
    laid_out = {case.shape[0] for case in found.cases if "transposed" in case.strides}
    assert laid_out and all(2 * rows <= short for rows, _ in laid_out)
    assert "other dtypes were not tried on f32[300,20]: a run of the case's own shape is long" in found.notes


def test_programs_that_run_together_are_not_long(short: int) -> None:
    """An element-wise kernel takes as many steps for many rows as for few."""

    def doubled(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.shape, dtype=x.dtype)
        twice[(triton.cdiv(x.numel(), 256),)](x.contiguous(), out, x.numel(), BLOCK=256)
        return out

    found = check(Case(lambda x: 2 * x, doubled, "f32[12,20]"), dtypes="f32")
    assert any(rows == 65_537 for rows, _ in shapes_of(found))
    assert found.notes == ()


@triton.jit
def twice(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n, other=0.0), mask=i < n)
