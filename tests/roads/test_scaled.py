"""Cases at sizes that do not fit in memory."""

from __future__ import annotations

import inspect

import pytest
import torch
import triton
import triton.language as tl

import tilesight
from tilesight.capture.inputs import parse_inputs
from tilesight.checks.finding import Finding
from tilesight.errors import InputError
from tilesight.roads.scaled import check_scaled
from tilesight.roads.scalings import scalings

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false
# pyright: reportOperatorIssue=false, reportCallIssue=false

SCALE = 2**33


@triton.jit
def add_one(x, y, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y + offsets, tl.load(x + offsets, mask=mask) + 1, mask=mask)


@triton.jit
def add_one_wide(x, y, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y + offsets, tl.load(x + offsets, mask=mask) + 1, mask=mask)


@triton.jit
def scale_rows(x, w, y, stride, columns, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    if WIDE:
        row = row.to(tl.int64)
    px = x + row * stride + tl.arange(0, BLOCK)
    py = y + row * stride + tl.arange(0, BLOCK)
    pw = w + tl.arange(0, BLOCK)
    for first in range(0, columns, BLOCK):
        mask = first + tl.arange(0, BLOCK) < columns
        tl.store(py, tl.load(px, mask=mask) * tl.load(pw, mask=mask), mask=mask)
        px += BLOCK
        py += BLOCK
        pw += BLOCK


@triton.jit
def long_rows(x, y, columns, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    """One program a row, offsets carried from round to round."""
    offsets = tl.arange(0, BLOCK)
    if WIDE:
        offsets = offsets.to(tl.int64)
    start = tl.program_id(0).to(tl.int64) * columns
    for _ in range(tl.cdiv(columns, BLOCK)):
        mask = offsets < columns
        tl.store(y + start + offsets, tl.load(x + start + offsets, mask=mask), mask=mask)
        offsets += BLOCK


@triton.jit
def copy_tiles(x, y, M, N, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (rows < M)[:, None] & (columns < N)[None, :]
    if WIDE:
        rows = rows.to(tl.int64)
    place = rows[:, None] * N + columns[None, :]
    tl.store(y + place, tl.load(x + place, mask=mask), mask=mask)


@triton.jit
def gather_pages(pages, table, lengths, y, columns, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    """y[i] = the sum of the pages that row i of the table names."""
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for place in range(tl.load(lengths + row)):
        page = tl.load(table + row * columns + place)
        if WIDE:
            page = page.to(tl.int64)
        total += tl.load(pages + page * BLOCK + lanes)
    tl.store(y + row * BLOCK + lanes, total)


@triton.jit
def sums_of_pairs(x, y, stride, S, D, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    """y[b, i, j] = x[b, i, 0] + x[b, j, 0], a program a row and batch."""
    batch = tl.program_id(1)
    if WIDE:
        batch = batch.to(tl.int64)
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    base = x + batch * stride
    for first in range(0, S, BLOCK):
        mask = first + lanes < S
        sums = tl.load(base + row * D) + tl.load(base + (first + lanes).to(tl.int64) * D, mask=mask, other=0.0)
        tl.store(y + (tl.program_id(1).to(tl.int64) * S + row) * S + first + lanes, sums, mask=mask)


def flat_launcher(kernel):
    def launch(x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y

    return launch


def row_launcher(wide):
    def launch(x, w):
        y = torch.empty_like(x)
        scale_rows[(x.shape[0],)](x, w, y, x.stride(0), x.shape[1], WIDE=wide, BLOCK=1024)
        return y

    return launch


def long_launcher(wide):
    def launch(x):
        y = torch.zeros(x.shape)
        long_rows[(x.shape[0],)](x, y, x.shape[1], WIDE=wide, BLOCK=1024)
        return y

    return launch


def tile_launcher(wide):
    def launch(x):
        y = torch.empty_like(x)
        copy_tiles[(triton.cdiv(x.shape[0], 64), triton.cdiv(x.shape[1], 64))](
            x, y, x.shape[0], x.shape[1], WIDE=wide, BLOCK=64
        )
        return y

    return launch


def page_launcher(wide):
    def launch(pages, table, lengths):
        y = torch.empty(table.shape[0], 128)
        gather_pages[(table.shape[0],)](pages, table, lengths, y, table.shape[1], WIDE=wide, BLOCK=128)
        return y

    return launch


def pair_launcher(wide):
    def launch(x):
        batches, size, width = x.shape
        assert width <= 256
        y = torch.empty(batches, size, size)
        sums_of_pairs[(size, batches)](x, y, x.stride(0), size, width, WIDE=wide, BLOCK=128)
        return y

    return launch


def look(hand, inputs: str) -> tuple[list[Finding], list[str]]:
    found = check_scaled(tilesight.Case(eager=torch.neg, hand=hand, inputs=inputs), SCALE, "h200")
    return [each for each in found if each.level != "note"], [each.message for each in found if each.level == "note"]


def line_of(kernel, text: str) -> int:
    lines, first = inspect.getsourcelines(kernel.fn)
    return first + next(index for index, line in enumerate(lines) if text in line)


def test_flat_offsets() -> None:
    """2³³ elements in blocks of 1024: program 2097152 starts at 2³¹."""
    (finding,), notes = look(flat_launcher(add_one), "f32[1048576]")
    assert (finding.kind, finding.file, finding.line) == ("overflow", __file__, line_of(add_one, "pid * BLOCK"))
    assert finding.message == (
        "pid * 1024: 2,147,483,648 wrapped to -2,147,483,648 in program 2097152; "
        f"line {line_of(add_one, 'tl.store')} loads from the wrong place of x, with f32[8589934592]"
    )
    assert finding.hint == "cast to int64 first: `pid.to(tl.int64)`"
    (note,) = notes
    assert note.startswith("add_one with f32[8589934592]: ") and note.endswith(" of 8,388,608 programs looked at")
    assert look(flat_launcher(add_one_wide), "f32[1048576]")[0] == []


def test_row_times_stride() -> None:
    found, notes = look(row_launcher(False), "f32[128,1024],f32[1024]")
    assert {each.line for each in found} == {line_of(scale_rows, "px = x + row")}
    assert found[0].message.startswith("row * stride: 2,147,483,648 wrapped to -2,147,483,648 in program 2097152; ")
    assert found[0].message.endswith("with f32[8388608,1024], f32[1024]")
    (note,) = notes
    first, second = note.split("; ")
    assert first.startswith("scale_rows with f32[8388608,1024], f32[1024]: ")
    assert second.startswith("with f32[128,67108864], f32[67108864]: ")


def test_row_times_stride_in_64_bits() -> None:
    assert look(row_launcher(True), "f32[128,1024],f32[1024]")[0] == []


def test_offsets_that_a_loop_carries() -> None:
    """8 rows of 2³⁰ elements do not wrap; 2 rows of 2³² do, in the 2097152nd round of a program."""
    assert look(long_launcher(False), "f32[8,4194304]")[0] == []
    (finding,), _ = look(long_launcher(False), "f32[2,4194304]")
    assert finding.line == line_of(long_rows, "offsets += BLOCK")
    assert finding.message.startswith("offsets + 1024: ")
    assert look(long_launcher(True), "f32[2,4194304]")[0] == []


def test_products_of_two_dimensions() -> None:
    """94208² is the least square of a multiple of 4096 from 2³³ on; row 22796 is the first past 2³¹, in block 356."""
    (finding,), _ = look(tile_launcher(False), "bf16[4096,4096]")
    assert finding.line == line_of(copy_tiles, "place = rows")
    assert finding.message == (
        f"rows * N: {22_796 * 94_208:,} wrapped to {22_796 * 94_208 - 2**32:,} in lane 12 of program 356 (x 356, y 0); "
        f"line {line_of(copy_tiles, 'tl.store')} loads from the wrong place of x, with bf16[94208,94208]"
    )
    assert look(tile_launcher(True), "bf16[4096,4096]")[0] == []


def test_pages_that_a_table_names() -> None:
    """With 0 for every loaded length nothing is gathered; page 2²⁴ of 128 is the first past 2³¹."""
    inputs = "f32[64,128],i32[8,16]<64,i32[8]<17"
    (finding,), notes = look(page_launcher(False), inputs)
    assert (finding.kind, finding.line) == ("overflow", line_of(gather_pages, "page * BLOCK"))
    assert finding.message.startswith("page * 128: 8,589,934,464 wrapped to -128 in program 1; ")
    assert finding.message.endswith("with f32[67108864,128], i32[8,16], i32[8], i32[8,16] of 67,108,863")
    assert any("i32[8,16] of 67,108,863: 7 of 8 programs looked at" in note for note in notes)
    assert look(page_launcher(True), inputs)[0] == []


def test_sizes_that_a_launcher_refuses_alone() -> None:
    """S² elements have no place for a large S, a grid takes 65,535 batches, and the heads are bounded: only batches
    of many long rows wrap."""
    inputs = "f32[4,2048,64]"
    (finding,), notes = look(pair_launcher(False), inputs)
    assert (finding.kind, finding.line) == ("overflow", line_of(sums_of_pairs, "batch * stride"))
    assert finding.message.startswith("batch * stride: ")
    for reason in ("has no place in this process", "programs along y", "AssertionError"):
        assert any(reason in note for note in notes), reason
    assert not any("looked at nothing" in note for note in notes)
    assert look(pair_launcher(True), inputs)[0] == []


def test_each_dimension_in_turn() -> None:
    shapes = [[spec.shape for spec in each.specs] for each in scalings(parse_inputs("f32[128,256],f32[256]"), 2**20)]
    assert shapes == [[(4096, 256), (256,)], [(128, 8192), (8192,)]]
    (square,) = scalings(parse_inputs("f32[100,100]"), 10**6)
    assert square.sizes == {100: 1000} and square.specs[0].shape == (1000, 1000)
    assert [each.sizes for each in scalings(parse_inputs("f32[1,3]"), 10)] == [{3: 12}]


def test_a_launcher_that_stops_is_told() -> None:
    def launch(x):
        raise ValueError("columns over 65536")

    found, notes = look(launch, "f32[8,8]")
    assert found == []
    assert notes == [
        "--scale-to looked at nothing beyond the case's own sizes",
        "the launcher stopped with f32[92688,92688]: ValueError: columns over 65536; later launches were not looked at",
    ]


@pytest.mark.parametrize(
    ("case", "text"),
    [
        (lambda: None, "--scale-to needs a Case"),
        (tilesight.Case(eager=torch.neg, inputs="f32[8]"), "--scale-to needs a launcher"),
        (tilesight.Case(eager=torch.neg, hand=torch.neg, inputs="f32[1]"), "cannot be scaled"),
        (tilesight.Case(eager=torch.neg, hand=torch.neg, inputs=lambda: [torch.ones(4, 4).T[1:]]), "has strides"),
        (tilesight.Case(eager=torch.neg, hand=torch.neg, inputs=lambda: [torch.ones(4), 4]), "is the integer 4"),
    ],
)
def test_what_cannot_be_scaled(case, text) -> None:
    with pytest.raises(InputError, match=text):
        check_scaled(case, SCALE, "h200")
