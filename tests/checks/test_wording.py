"""How findings are worded."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tilesight import Case, check
from tilesight.checks.finding import Finding
from tilesight.checks.wording import counted, with_coordinates

# pyright: basic, reportArgumentType=false, reportOperatorIssue=false


def test_counted() -> None:
    assert [counted(count, "lane") for count in (0, 1, 2)] == ["0 lanes", "1 lane", "2 lanes"]


@pytest.mark.parametrize(
    ("grid", "place"),
    [((60, 1, 1), ""), ((1, 60, 1), ""), ((4, 15, 1), " (x 3, y 4)"), ((4, 1, 15), " (x 3, z 4)"),
     ((4, 3, 5), " (x 3, y 1, z 1)")],
)  # fmt: skip
def test_a_program_has_its_place_in_a_grid_of_several_axes(grid: tuple[int, int, int], place: str) -> None:
    """Program 19 of 60: x is the innermost axis, as `program_id(0)` is."""
    finding = Finding.of_line("race", ("kernel.py", 3), "lane 5 of program 19 stores to y", "")
    assert with_coordinates(finding, grid).message == f"lane 5 of program 19{place} stores to y"


@triton.jit
def one_past(x, y, rows, columns, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + row * columns + c, tl.load(x + row * columns + c, mask=c < columns), mask=c < columns + row // 2)


def test_a_check_tells_places() -> None:
    def hand(x: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        one_past[(2, 3)](x, y, *x.shape, BLOCK=32)
        return y

    found = check(Case(eager=torch.clone, hand=hand, inputs="f32[3,40]"), shapes="3,40", dtypes="f32").findings
    (out,) = (each for each in found if each.kind == "out-of-bounds")
    assert out.programs == (4,)
    assert "lane 0 of program 4 (x 0, y 2)" in out.message  # the smallest case has no column: row 2 alone is outside
