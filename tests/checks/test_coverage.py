"""Grids that end early, told apart from masks and loops that do."""

# pyright: basic, reportArgumentType=false, reportOperatorIssue=false

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tilesight.checks.finding import Finding
from tilesight.roads.check import check_launch


@triton.jit
def copy_rows(x, out, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    at = tl.program_id(0) * cols + c
    tl.store(out + at, tl.load(x + at, mask=c < cols, other=0.0), mask=c < cols)


@triton.jit
def copy_left_halves(x, out, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    at = tl.program_id(0) * 2 * cols + c
    tl.store(out + at, tl.load(x + at, mask=c < cols, other=0.0), mask=c < cols)


@triton.jit
def copy_slices(x, out, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r, c = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    at = (tl.program_id(1) * rows + r[:, None]) * cols + c[None, :]
    inside = (r[:, None] < rows) & (c[None, :] < cols)
    tl.store(out + at, tl.load(x + at, mask=inside, other=0.0), mask=inside)


@triton.jit
def copy_tiles(x, out, tiles, BLOCK: tl.constexpr):
    """Each program takes every so-many-th tile."""
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        i = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + i, tl.load(x + i))


@triton.jit
def copy_rows_ahead(x, out, rows, cols, BLOCK: tl.constexpr):
    """The next row is loaded before this one is stored; the first by a load of its own."""
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * cols + c, mask=(c < cols) & (row < rows), other=0.0)
    for at in range(row, rows, tl.num_programs(0)):
        ahead = at + tl.num_programs(0)
        following = tl.load(x + ahead * cols + c, mask=(c < cols) & (ahead < rows), other=0.0)
        tl.store(out + at * cols + c, value, mask=c < cols)
        value = following


@triton.jit
def total(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n, other=0), axis=0))


@triton.jit
def total_of_chunks(x, out, n, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    found = tl.zeros((BLOCK,), tl.int32)
    for number in range(ROUNDS):
        i = (tl.program_id(0) * ROUNDS + number) * BLOCK + tl.arange(0, BLOCK)
        found += tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(out, tl.sum(found, axis=0))


@triton.jit
def partial_totals(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0), tl.sum(tl.load(x + i, mask=i < n, other=0), axis=0))


@triton.jit
def total_from(x, out, base, n, BLOCK: tl.constexpr):
    i = base + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n, other=0), axis=0))


@triton.jit
def total_of_all(x, out, n, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        i = start + tl.arange(0, BLOCK)
        tl.atomic_add(out, tl.sum(tl.load(x + i, mask=i < n, other=0), axis=0))


@triton.jit
def every_other(x, out, n, BLOCK: tl.constexpr):
    i = 2 * (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.store(out + i, tl.load(x + i, mask=i < n, other=0), mask=i < n)


@triton.jit
def pool(x, out, length, outputs, BLOCK: tl.constexpr):
    """Windows of three at a distance of three: what is over at the end is left out on purpose."""
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first, last = 3 * o, 3 * o + 2
    most = tl.load(x + first, mask=first < length, other=0)
    most = tl.maximum(most, tl.load(x + last, mask=last < length, other=0))
    tl.store(out + o, most, mask=o < outputs)


@triton.jit
def differences(x, out, n, BLOCK: tl.constexpr):
    """The last element has no right neighbour."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = tl.load(x + i, mask=i < n, other=0)
    tl.store(out + i, tl.load(x + i + 1, mask=i + 1 < n, other=0) - here, mask=i < n - 1)


def findings(kernel, grid, *arguments, **constants) -> list[Finding]:
    """Of one launch into its second argument, which the launching function returns."""

    def launch():
        kernel[grid](*arguments, **constants)
        return arguments[1]

    return [each for each in check_launch(launch).findings if each.level != "note"]


def kinds(found: list[Finding]) -> list[str]:
    return sorted(each.kind for each in found)


def test_programs_missing_along_an_axis_without_a_mask_that_tells() -> None:
    """The programs' own stores tell the distance: 6 of them reach the end."""

    def launch():
        x, out = torch.randn(2, 3, 40, 16), torch.empty(2, 3, 40, 16)
        copy_slices[(3, 2)](x, out, 40, 16, ROWS=16, BLOCK=16)
        return out

    found = check_launch(launch).findings
    assert kinds(found) == ["grid", "never-written"]
    (grid,) = [each for each in found if each.kind == "grid"]
    assert "its 2 programs along y end where 6 reach the end" in grid.message
    assert grid.hint.startswith("launch 6 programs along y")
    assert grid.line == launch.__code__.co_firstlineno + 2


@triton.jit
def copy_heads(x, out, stride_t, stride_h, T, BLOCK: tl.constexpr, D: tl.constexpr):
    t = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    places = t[:, None] * stride_t + tl.program_id(1) * stride_h + tl.arange(0, D)[None, :]
    mask = (t < T)[:, None]
    tl.store(out + places, tl.load(x + places, mask=mask, other=0), mask=mask)


def test_programs_missing_along_an_inner_axis() -> None:
    """Each head's elements lie apart, 8 heads a token: 2 programs along y store 2 of them in every token."""

    def launch():
        x, out = torch.randn(40, 8, 32), torch.empty(40, 8, 32)
        copy_heads[(3, 2)](x, out, 256, 32, 40, BLOCK=16, D=32)
        return out

    found = check_launch(launch).findings
    assert kinds(found) == ["grid", "never-written"]
    (grid,) = [each for each in found if each.kind == "grid"]
    assert "its 2 programs along y end where 8 reach the end" in grid.message


@triton.jit
def sums_of_parts(x, out, n, part, RETURNS: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0) * part
    if RETURNS:  # noqa: SIM102, Triton knows it when it compiles
        if first >= n:
            return
    total = 0.0
    for start in range(first, tl.minimum(first + part, n), BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x + i, mask=i < n, other=0.0), axis=0)
    tl.store(out + tl.program_id(0), total, mask=first < n)


@pytest.mark.parametrize(("returns", "levels"), [(True, ["note"]), (False, ["warning"])])
def test_programs_that_the_kernel_sends_home_are_a_note(returns: bool, levels: list[str]) -> None:
    def launch():
        out = torch.zeros(4)
        sums_of_parts[(4,)](torch.randn(100), out, 100, 64, RETURNS=returns, BLOCK=32)
        return out

    assert [each.level for each in check_launch(launch).findings if each.kind == "grid"] == levels


@pytest.mark.parametrize("shape", [(7, 20), (7, 20, 1), (1, 7, 20)])
def test_the_last_row_left_out(shape: tuple[int, ...]) -> None:
    def launch():
        x, out = torch.randn(shape), torch.empty(shape)
        copy_rows[(6,)](x, out, 20, BLOCK=32)
        return out

    assert kinds(check_launch(launch).findings) == ["grid", "never-written"]


def test_a_loop_that_ends_early_is_no_short_grid() -> None:
    def launch():
        x, out = torch.randn(800), torch.empty(800)
        copy_tiles[(5,)](x, out, 24, BLOCK=32)
        return out

    assert kinds(check_launch(launch).findings) == ["never-written"]


def test_a_mask_that_is_too_tight_is_no_short_grid() -> None:
    def launch():
        x, out = torch.randn(100), torch.empty(100)
        differences[(4,)](x, out, 100, BLOCK=32)
        return out

    assert kinds(check_launch(launch).findings) == ["never-written"]


def test_columns_that_no_program_would_store_are_no_short_grid() -> None:
    def launch():
        x, out = torch.randn(6, 20), torch.empty(6, 20)
        copy_left_halves[(6,)](x, out, 10, BLOCK=16)
        return out

    assert kinds(check_launch(launch).findings) == ["never-written"]


@pytest.mark.parametrize("kernel", [total, partial_totals], ids=["atomic", "partial results"])
def test_a_tail_that_nothing_reads(kernel) -> None:
    x = torch.randint(0, 9, (1000,), dtype=torch.int32)
    out = torch.zeros(8, dtype=torch.int32)
    assert kinds(findings(kernel, (8,), x, out, 1000, BLOCK=128)) == []
    (found,) = findings(kernel, (7,), x, torch.zeros(7, dtype=torch.int32), 1000, BLOCK=128)
    assert (found.kind, found.level, found.tensor) == ("grid", "warning", "x")
    assert "i reaches 895 where the mask" in found.message
    assert "everything below 1000" in found.message


def test_a_part_of_a_tensor_is_asked_for_in_one_of_several_launches() -> None:
    x, out = torch.randint(0, 9, (1024,), dtype=torch.int32), torch.zeros(1, dtype=torch.int32)

    def launch():
        for base in (0, 512):
            total_from[(4,)](x, out, base, 1024, BLOCK=128)
        return out

    assert check_launch(launch).findings == ()
    assert out.item() == x.sum().item()


def test_a_prefix_that_is_shorter_than_the_tensor_is_no_fault() -> None:
    x, out = torch.randint(0, 9, (1000,), dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    assert findings(total, (2,), x, out, 256, BLOCK=128) == []


def test_few_programs_that_go_round_until_all_is_done() -> None:
    x, out = torch.randint(0, 9, (1000,), dtype=torch.int32), torch.zeros(1, dtype=torch.int32)
    assert findings(total_of_all, (3,), x, out, 1000, BLOCK=128) == []


def test_offsets_that_step_over_the_last_element() -> None:
    x, out = torch.randn(256), torch.zeros(256)
    assert findings(every_other, (2,), x, out, 256, BLOCK=64) == []
    assert kinds(findings(every_other, (1,), x, torch.zeros(256), 256, BLOCK=64)) == ["grid"]


def test_windows_that_do_not_reach_the_end() -> None:
    x, out = torch.randn(100), torch.zeros(32)
    assert findings(pool, (1,), x, out, 100, 32, BLOCK=32) == []


def test_rows_that_a_later_round_loads_are_not_left_out() -> None:
    x, out = torch.rand(20, 60), torch.empty(20, 60)
    assert not check_launch(lambda: copy_rows_ahead[(4,)](x, out, 20, 60, BLOCK=64)).findings
    assert torch.equal(out, x)


@pytest.mark.parametrize(("programs", "expected"), [(3, ["grid"]), (4, [])])
def test_programs_of_several_rounds_that_end_before_the_tensor_does(programs: int, expected: list[str]) -> None:
    """Each takes 4 rounds of 16: 3 programs reach 191, and the 10 elements behind are summed by none."""
    x, out = torch.ones(202, dtype=torch.int32), torch.zeros((), dtype=torch.int32)
    findings = check_launch(lambda: total_of_chunks[(programs,)](x, out, 202, ROUNDS=4, BLOCK=16)).findings
    assert [finding.kind for finding in findings] == expected
    assert all("reaches 191 where the mask" in finding.message for finding in findings)
    assert all("where a share is all that one program takes" in finding.hint for finding in findings)
    assert int(out) == min(202, 64 * programs)


@triton.jit
def pairs(x, out, n, FIRST: tl.constexpr, BLOCK: tl.constexpr):
    """Two neighbours an element; one of the two stores goes by the wrong bound."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(out + 2 * i, value, mask=i < (n // 2 if FIRST else n))  # first
    tl.store(out + 2 * i + 1, value, mask=i < (n if FIRST else n // 2))  # second


@pytest.mark.parametrize("first", [True, False])
def test_of_several_stores_the_one_that_keeps_elements_back(first: bool) -> None:
    def launch():
        x, out = torch.randn(50), torch.empty(100)
        pairs[(4,)](x, out, 50, FIRST=first, BLOCK=16)
        return out

    (found,) = [each for each in check_launch(launch).findings if each.kind == "never-written"]
    assert found.source.endswith("# first" if first else "# second")
