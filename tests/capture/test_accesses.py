"""What each road reads and writes of a tensor where that is not all of it, against figures worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import tilesight
from tilesight.capture.inductor.on_engine import capture
from tilesight.capture.inputs import parse_inputs
from tilesight.ledger.graph import OpTraffic, moved_bytes
from tilesight.roads.observe import eager_record
from tilesight.roads.region_ledger import estimates
from tilesight.targets import target

H200 = target("h200")


def eager(function: Callable[..., Any], inputs: str, *, backward: bool = False) -> list[OpTraffic]:
    ops, _ = eager_record(function, parse_inputs(inputs), H200, backward=backward)
    return [op for op in ops if not op.is_view]


def compiled(function: Callable[..., Any], inputs: str) -> list[tuple[list[int], list[int], bool]]:
    """(bytes read of each tensor, bytes written of each, whether they are bounds) of each call."""
    (region,) = capture(function, parse_inputs(inputs), H200).regions
    found = estimates(region)
    return [
        ([size for _, size in step.reads], [size for _, size in step.writes], step.is_bound) for step in found if step
    ]


def sides(op: OpTraffic) -> tuple[list[int], list[int]]:
    return [size for _, size in op.reads], [size for _, size in op.writes]


def test_a_bias_is_added_after_the_convolution_in_eager_mode() -> None:
    """cuDNN's result [1, 8, 6, 6] of 1,152 bytes is loaded and stored again, with the bias of 32 bytes."""
    ops = eager(F.conv2d, "f32[1,4,8,8],f32[8,4,3,3],f32[8]")
    x, weight, y = 4 * 4 * 64, 4 * 8 * 4 * 9, 4 * 8 * 36
    assert [op.target for op in ops] == ["aten.convolution.default", "aten.add_.Tensor"]
    assert [sides(op) for op in ops] == [([x, weight], [y]), ([y, 32], [y])]


def test_a_depthwise_convolution_adds_its_bias_itself() -> None:
    (op,) = eager(lambda x, w, b: F.conv2d(x, w, b, groups=8), "f32[1,8,8,8],f32[8,1,3,3],f32[8]")  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert sides(op) == ([4 * 8 * 64, 4 * 8 * 9, 32], [4 * 8 * 36])


def test_the_gradient_of_a_bias_is_a_pass_over_the_gradient() -> None:
    ops = eager(F.conv2d, "f32[1,4,8,8],f32[8,4,3,3],f32[8]", backward=True)
    x, weight, y = 4 * 4 * 64, 4 * 8 * 4 * 9, 4 * 8 * 36
    assert [op.target for op in ops[2:]] == ["aten.convolution_backward.default", "aten.sum.dim_IntList"]
    assert [sides(op) for op in ops[2:]] == [([y, x, weight], [x, weight]), ([y], [32])]


def test_convolution_with_bias_and_relu_on_both_roads() -> None:
    """Eager: convolution, bias, ReLU; compiled: the convolution, then bias and ReLU in one kernel.

    Inductor lays image and filters channels last, and says so.
    """

    def block(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        return F.relu(F.conv2d(x, w, b))

    seen = tilesight.observe(block, "f32[1,4,8,8],f32[8,4,3,3],f32[8]")
    x, weight, y = 4 * 4 * 64, 4 * 8 * 4 * 9, 4 * 8 * 36
    assert seen.ledger.eager_bytes == (x + weight + y) + (y + 32 + y) + (y + y)
    copies = 2 * x + 2 * weight
    assert seen.ledger.compiled_bytes == copies + (x + weight + y) + (y + 32 + y)
    said = f"2 kernels copy tensors into the layout that Inductor chose for a library call: {copies:,} bytes"
    assert any(note.startswith(said) for note in seen.notes)


@pytest.mark.parametrize("first", [0, 40])
def test_a_slice_counts_as_what_it_holds(first: int) -> None:
    def columns(x: Tensor) -> Tensor:
        return x[:, first : first + 24] * 2

    (op,) = eager(columns, "f32[64,100]")
    assert sides(op) == ([64 * 24 * 4], [64 * 24 * 4])
    assert compiled(columns, "f32[64,100]") == [([64 * 24 * 4], [64 * 24 * 4], False)]


def test_slices_of_one_tensor_are_added_up() -> None:
    """Two thirds of a packed tensor: each half counts, and so it does ideally."""

    def gated(packed: Tensor) -> Tensor:
        a, b, _ = packed.chunk(3, dim=1)
        return a * b

    part = 32 * 16 * 4
    seen = tilesight.observe(gated, "f32[32,48]")
    figures = (seen.ledger.eager_bytes, seen.ledger.compiled_bytes, seen.ledger.ideal_bytes)
    assert figures == (3 * part, 3 * part, 3 * part)


def test_a_tensor_and_its_transpose_are_one() -> None:
    (op,) = eager(lambda x: x @ x.t(), "f32[16,16]")  # pyright: ignore[reportUnknownLambdaType, reportUnknownMemberType, reportUnknownArgumentType]
    assert sides(op) == ([1024], [1024])


def test_cropped_images_that_are_joined_count_without_their_margins() -> None:
    """[2, 3, 10, 10] cropped to [2, 3, 6, 6], beside [2, 5, 6, 6]: one kernel, which loads each under a condition."""

    def join(image: Tensor, other: Tensor) -> Tensor:
        return torch.cat([image[..., 2:8, 2:8], other], dim=1) + 1

    cropped, other = 2 * 3 * 36 * 4, 2 * 5 * 36 * 4
    (cat, add) = eager(join, "f32[2,3,10,10],f32[2,5,6,6]")
    assert sides(cat) == ([cropped, other], [cropped + other])
    assert sides(add) == ([cropped + other], [cropped + other])
    assert compiled(join, "f32[2,3,10,10],f32[2,5,6,6]") == [([cropped, other], [cropped + other], False)]


def test_a_slice_that_an_extern_call_is_given_counts_alone() -> None:
    def product(x: Tensor, w: Tensor) -> Tensor:
        return x[:, 64:128] @ w

    sizes = [256 * 64 * 4, 64 * 32 * 4]
    (op,) = eager(product, "f32[256,192],f32[64,32]")
    assert sides(op) == (sizes, [256 * 32 * 4])
    assert compiled(product, "f32[256,192],f32[64,32]") == [(sizes, [256 * 32 * 4], False)]


TABLE, ROW = 1000 * 32 * 4, 32 * 4


@pytest.mark.parametrize(("indices", "rows"), [(48, 48), (5000, 1000)])
def test_an_embedding_reads_a_row_an_index_and_no_more_than_the_table(indices: int, rows: int) -> None:
    inputs = f"i64[{indices}]<1000,f32[1000,32]"
    expected = ([rows * ROW, indices * 8], [indices * ROW])
    (op,) = eager(F.embedding, inputs)
    assert sides(op) == expected and op.is_bound
    ((reads, writes, is_bound),) = compiled(F.embedding, inputs)
    assert (sorted(reads), writes, is_bound) == (sorted(expected[0]), expected[1], True)
    seen = tilesight.observe(F.embedding, inputs)
    total = rows * ROW + indices * 8 + indices * ROW
    figures = (seen.ledger.eager_bytes, seen.ledger.compiled_bytes, seen.ledger.ideal_bytes)
    assert figures == (total, total, total)
    said = "bytes are bounds for 1 operator of eager mode and 1 kernel that look rows up by an index"
    assert any(note.startswith(said) for note in seen.notes)


def test_an_embedding_bag_reads_a_row_an_index_on_both_roads() -> None:
    def bags(indices: Tensor, table: Tensor) -> Tensor:
        return F.embedding_bag(indices, table, mode="sum")

    (op,) = [each for each in eager(bags, "i64[16,2]<1000,f32[1000,32]") if each.is_bound]
    assert op.reads[0][1] == 32 * ROW
    (reads, _, _) = next(step for step in compiled(bags, "i64[16,2]<1000,f32[1000,32]") if step[2])
    assert reads[0] == 32 * ROW


def test_rows_that_are_added_to_are_read_and_written() -> None:
    def add_rows(into: Tensor, index: Tensor, rows: Tensor) -> Tensor:
        return into.index_add_(0, index, rows)

    inputs = "f32[1000,32],i64[8]<1000,f32[8,32]"
    (op,) = eager(add_rows, inputs)
    assert sides(op) == ([8 * ROW, 64, 8 * ROW], [8 * ROW]) and op.is_bound
    found = [step for step in compiled(add_rows, inputs) if step[2]]
    assert [(sorted(reads), writes) for reads, writes, _ in found] == [([64, 8 * ROW, 8 * ROW], [8 * ROW])]


def test_the_gradient_of_a_table_is_zeros_and_rows() -> None:
    def loss(indices: Tensor, table: Tensor) -> Tensor:
        return F.embedding(indices, table)

    ops = eager(loss, "i64[48]<1000,f32[1000,32]", backward=True)
    zeros, rows = ops[1:]
    assert sides(zeros) == ([], [TABLE])
    assert sides(rows) == ([48 * ROW, 48 * 8], [48 * ROW])


def test_what_stood_there_is_not_read_by_a_copy() -> None:
    def copied(into: Tensor, x: Tensor) -> Tensor:
        return into.copy_(x)

    (op,) = eager(copied, "f32[64],f32[64]")
    assert sides(op) == ([256], [256])


def test_empty_tensors_are_not_written() -> None:
    def filled(x: Tensor) -> Tensor:
        return torch.empty_like(x).fill_(1.0)

    assert moved_bytes(eager(filled, "f32[64]")) == 256


def test_windows_that_overlap_count_no_more_than_the_tensor() -> None:
    (pool,) = [step for step in compiled(lambda x: F.max_pool2d(x, 3, stride=1), "f32[1,1,16,16]") if step]  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert pool == ([16 * 16 * 4], [14 * 14 * 4], False)
