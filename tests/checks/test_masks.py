"""Masks that are always true: found where no shape needs them, and nowhere else."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.compiler import ASTSource

from tests.engine.launching import TARGET, launch_of
from tilesight.capture.variants import other_values, vary_constants
from tilesight.checks.finding import Finding
from tilesight.checks.masks import find_wasted_masks
from tilesight.ir import Module, parse_module

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false, reportAssignmentType=false


def source_of(kernel: Any, arguments: dict[str, Any]) -> Any:
    """Triton's ASTSource of a kernel, an integer argument that is 1 taken for a constant as its launcher does."""
    names = {p.name: p.is_constexpr for p in kernel.params}
    constants = {name for name, is_constant in names.items() if is_constant or arguments[name] is ONE}
    kinds = {name: "constexpr" if name in constants else _kind(arguments[name]) for name in names}
    given = {name: 1 if arguments[name] is ONE else arguments[name] for name in constants}
    return ASTSource(kernel, kinds, given)


ONE = object()


def _kind(value: Any) -> str:
    return "*fp32" if isinstance(value, torch.Tensor) else "i32"


def check(kernel: Any, **arguments: Any) -> list[Finding]:
    source = source_of(kernel, arguments)
    plain = {name: 1 if value is ONE else value for name, value in arguments.items()}
    launch = launch_of(kernel, (4,), plain)
    options = {"target": TARGET, "arch": "sm90"}
    return find_wasted_masks(parse_module(launch.ttir), launch, partial(vary_constants, source, options))


def marked(kernel: Any) -> list[int]:
    """The kernel's lines that end in `# wasted`."""
    lines, first = inspect.getsourcelines(kernel.fn)
    return [first + index for index, line in enumerate(lines) if line.rstrip().endswith("# wasted")]


X, Y = torch.zeros(4096), torch.zeros(4096)


@triton.jit
def range_below_block(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    inside = offsets < BLOCK  # wasted
    tl.store(y + offsets, tl.load(x + offsets, mask=inside, other=0.0), mask=offsets < n)


@triton.jit
def not_negative(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    low = offsets >= 0  # wasted
    mask = low & (offsets < n)
    tl.store(y + offsets, tl.load(x + offsets, mask=mask, other=0.0), mask=mask)


@triton.jit
def wrapped(x, y, n, BLOCK: tl.constexpr):
    offsets = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) % n
    values = tl.load(x + offsets, mask=offsets < n, other=0.0)  # wasted
    tl.store(y + tl.arange(0, BLOCK), values)


@triton.jit
def wrapped_after_a_shift(x, y, n, shift, BLOCK: tl.constexpr):
    """Whatever the shift, the remainder is below n; before the tensor it may be negative."""
    offsets = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) + shift) % n
    high = offsets < n  # wasted
    values = tl.load(x + offsets, mask=high & (offsets >= 0), other=0.0)
    tl.store(y + tl.arange(0, BLOCK), values)


@triton.jit
def clamped(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.minimum(tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), n - 1)
    values = tl.load(x + offsets, mask=offsets < n, other=0.0)  # wasted
    tl.store(y + tl.arange(0, BLOCK), values)


@triton.jit
def below_loop_bound(x, y, n, BLOCK: tl.constexpr):
    total = 0.0
    for start in range(n):
        total += tl.load(x + start, mask=start < n, other=0.0)  # wasted
    tl.store(y, total)


@triton.jit
def carried_offsets(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(0, n, BLOCK):
        low = offsets >= 0  # wasted
        total += tl.load(x + offsets, mask=low & (offsets < n), other=0.0)
        offsets += BLOCK
    tl.store(y + tl.arange(0, BLOCK), total)


@triton.jit
def rows_of(x, y, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, COLUMNS)
    wide = (c < COLUMNS)[None, :]  # wasted
    mask = (r < rows)[:, None] & wide
    places = r[:, None] * columns + c[None, :]
    tl.store(y + places, tl.load(x + places, mask=mask, other=0.0), mask=(r < rows)[:, None] & (c < columns)[None, :])


@triton.jit
def inner_mask(offsets, n):
    return (offsets < n) & (offsets > -1)  # wasted


@triton.jit
def outer_mask(offsets, n):
    return inner_mask(offsets, n)


@triton.jit
def through_helpers(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = outer_mask(offsets, n)
    tl.store(y + offsets, tl.load(x + offsets, mask=mask, other=0.0), mask=mask)


BLOCKED = {"x": X, "y": Y, "n": 1000, "BLOCK": 256}


@pytest.mark.parametrize(
    "kernel",
    [range_below_block, not_negative, wrapped, clamped, below_loop_bound, carried_offsets],
    ids=lambda kernel: kernel.__name__,
)
def test_a_wasted_mask_is_found_on_its_line(kernel: Any) -> None:
    found = check(kernel, **BLOCKED)
    assert [finding.line for finding in found] == marked(kernel)
    assert {(finding.kind, finding.file) for finding in found} == {("contract", __file__)}


@triton.jit
def nowhere_outside(x, y, n, BLOCK: tl.constexpr):
    """Two comparisons, and neither is ever false."""
    offsets = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) & 15
    tl.store(y + offsets, 1.0, mask=(offsets >= 0) & (offsets < 16))  # wasted


@pytest.mark.parametrize(
    ("kernel", "level", "hint"),
    [
        (wrapped, "warning", "leave the mask out"),
        (nowhere_outside, "warning", "leave the mask out"),
        (not_negative, "note", "leave this comparison out of the mask"),
    ],
)
def test_a_comparison_too_many_in_a_needed_mask_is_a_note(kernel: Any, level: str, hint: str) -> None:
    (found,) = check(kernel, **BLOCKED)
    assert [found.line] == marked(kernel)
    assert (found.level, found.hint) == (level, hint)


def test_a_remainder_is_below_its_divisor_whatever_is_divided() -> None:
    (finding,) = check(wrapped_after_a_shift, **BLOCKED, shift=7)
    assert [finding.line] == marked(wrapped_after_a_shift)
    assert finding.hint == "leave this comparison out of the mask"


def test_a_wasted_part_of_a_mask_in_two_dimensions() -> None:
    (finding,) = check(rows_of, x=X, y=Y, rows=5, columns=100, ROWS=4, COLUMNS=128)
    assert [finding.line] == marked(rows_of)
    assert finding.hint == "leave this comparison out of the mask"


def test_a_helper_is_named_at_its_own_line() -> None:
    (finding,) = check(through_helpers, **BLOCKED)
    assert [finding.line] == marked(inner_mask)
    lines = inspect.getsourcelines(through_helpers.fn)[1]
    assert finding.message.startswith(f"a part of the mask of line {lines + 4} is true in every lane")


@triton.jit
def masked(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y + offsets, tl.load(x + offsets, mask=mask, other=0.0), mask=mask)


@triton.jit
def static_columns(x, y, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    mask = c < COLUMNS
    tl.store(y + c, tl.load(x + c, mask=mask, other=0.0), mask=mask)


@triton.jit
def looped_columns(x, y, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, COLUMNS, BLOCK):
        c = start + tl.arange(0, BLOCK)
        total += tl.load(x + c, mask=c < COLUMNS, other=0.0)
    tl.store(y + tl.arange(0, BLOCK), total)


@triton.jit
def literal_columns(x, y, BLOCK: tl.constexpr):
    """The number of columns is written into the kernel, as generated kernels do."""
    total = tl.zeros((BLOCK,), tl.float32)
    columns = 3072
    for start in range(0, columns, BLOCK):
        c = start + tl.arange(0, BLOCK)
        total += tl.load(x + c, mask=c < columns, other=0.0)
    tl.store(y + tl.arange(0, BLOCK), total)


COLUMNS = tl.constexpr(64)


@triton.jit
def columns_of_the_module(x, y, BLOCK: tl.constexpr):
    """A block as large as the number of columns that the module fixes."""
    c = tl.arange(0, 64)
    mask = c < COLUMNS
    tl.store(y + c, tl.load(x + c, mask=mask, other=0.0), mask=mask)


@triton.jit
def columns_of_the_body(x, y, BLOCK: tl.constexpr):
    """A generated reduction whose block is as large as the columns: other columns need the mask."""
    columns = 16
    R0_BLOCK: tl.constexpr = 16
    c = tl.arange(0, R0_BLOCK)
    mask = c < columns
    tl.store(y + c, tl.load(x + c, mask=mask, other=0.0), mask=mask)


@triton.jit
def from_the_left(x, y, n, shift, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK) - shift
    mask = (offsets >= 0) & (offsets < n)
    tl.store(y + offsets, tl.load(x + offsets, mask=mask, other=0.0), mask=mask)


@triton.jit
def hashed(x, y, n, BLOCK: tl.constexpr):
    """The product wraps around on purpose: its sign is no matter of course."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mixed = offsets * 747796405
    mask = (mixed >= 0) & (offsets < n)
    tl.store(y + offsets, tl.load(x + offsets, mask=mask, other=0.0), mask=mask)


@triton.jit
def twice_through_a_helper(x, y, n, BLOCK: tl.constexpr):
    """The helper's second comparison is needed by one of its two callers."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x + offsets - 1, mask=inner_mask(offsets - 1, n), other=0.0)
    tl.store(y + offsets, left, mask=inner_mask(offsets, n))


@triton.jit
def other_branch(x, y, n, m, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    if row < n:
        tl.store(y + row, tl.load(x + row, mask=row < m, other=0.0))
    else:
        tl.store(y + row, 1.0, mask=row < m)


@triton.jit
def loaded_where_columns_are(x, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    return tl.load(x + columns, mask=columns < COLUMNS, other=0.0) if COLUMNS < BLOCK else tl.load(x + columns)


@triton.jit
def masked_where_it_is_needed(x, y, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    """With fewer columns the two comparisons are one, which stands under the place of the first."""
    values = loaded_where_columns_are(x, COLUMNS, BLOCK)
    columns = tl.arange(0, BLOCK)
    tl.store(y + columns, values, mask=columns < COLUMNS)


@pytest.mark.parametrize(
    ("kernel", "arguments"),
    [
        (masked, BLOCKED),
        (masked, {**BLOCKED, "n": ONE, "BLOCK": 1}),
        (static_columns, {"x": X, "y": Y, "COLUMNS": 256, "BLOCK": 256}),
        (static_columns, {"x": X, "y": Y, "COLUMNS": 1000, "BLOCK": 256}),
        (looped_columns, {"x": X, "y": Y, "COLUMNS": 4096, "BLOCK": 256}),
        (literal_columns, {"x": X, "y": Y, "BLOCK": 256}),
        (columns_of_the_module, {"x": X, "y": Y, "BLOCK": 256}),
        (columns_of_the_body, {"x": X, "y": Y, "BLOCK": 256}),
        (from_the_left, {"x": X, "y": Y, "n": 1000, "shift": 3, "BLOCK": 256}),
        (hashed, BLOCKED),
        (twice_through_a_helper, BLOCKED),
        (other_branch, {**BLOCKED, "m": 7}),
        (masked_where_it_is_needed, {"x": X, "y": Y, "COLUMNS": 256, "BLOCK": 256}),
    ],
)
def test_a_mask_that_another_shape_needs_is_quiet(kernel: Any, arguments: dict[str, Any]) -> None:
    assert check(kernel, **arguments) == []


def test_a_module_that_was_compiled_in_another_folder() -> None:
    """Triton's cache keeps the path of the first compilation; the variants are made from the file that is here."""
    arguments = {"x": X, "y": Y, "COLUMNS": 32, "BLOCK": 32}
    launch = launch_of(static_columns, (4,), arguments)
    moved = parse_module(launch.ttir.replace(__file__, "/another/checkout/test_masks.py"))
    assert "/another/checkout/" in launch.ttir.replace(__file__, "/another/checkout/test_masks.py")
    variants = partial(vary_constants, source_of(static_columns, arguments), {"target": TARGET, "arch": "sm90"})
    assert find_wasted_masks(moved, launch, variants) == []


def test_without_variants_compile_time_constants_prove_nothing() -> None:
    launch = launch_of(range_below_block, (1,), BLOCKED)
    module = parse_module(launch.ttir)

    def no_variants() -> Iterator[Module]:
        return iter(())

    assert find_wasted_masks(module, launch, no_variants) == []


def test_other_values() -> None:
    assert list(other_values(1)) == [2, 2, 8, 32, 128, 512, 2048, 8192, 32768, 131072, 524288]
    assert list(other_values(1024))[:3] == [1025, 512, 2048]
    assert list(other_values(0)) == [1]


def test_variants_are_made_once_a_kernel() -> None:
    """Launches of one module with the same constants have one answer; other constants are asked after again."""
    arguments = {"x": X, "y": Y, "n": 100, "BLOCK": 256}
    launch = launch_of(range_below_block, (4,), arguments)
    module, asked = parse_module(launch.ttir), list[int]()
    source = source_of(range_below_block, arguments)

    def variants() -> Iterator[Module]:
        asked.append(1)
        yield from vary_constants(source, {"target": TARGET, "arch": "sm90"})

    lines = [[each.line for each in find_wasted_masks(module, launch, variants)] for _ in range(2)]
    assert lines == [marked(range_below_block)] * 2
    assert len(asked) == 1
    other = launch_of(range_below_block, (4,), {**arguments, "BLOCK": 128})
    find_wasted_masks(module, other, variants)
    assert len(asked) == 2
