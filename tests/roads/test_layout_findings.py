"""What a layout brings about is told once: at a copy that is written in its stead, at the tensor that goes wrong."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from tilesight import Case, check

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false
# pyright: reportOperatorIssue=false, reportCallIssue=false


def marked(function: Any) -> int:
    """The line of a launcher, or of a kernel, that ends in `# here`."""
    lines, first = inspect.getsourcelines(getattr(function, "fn", function))
    return next(first + index for index, line in enumerate(lines) if line.rstrip().endswith("# here"))


@triton.jit
def relu_flat(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.maximum(tl.load(x + i, mask=i < n, other=0.0), 0.0), mask=i < n)


def run(flat: torch.Tensor) -> None:
    relu_flat[(triton.cdiv(flat.numel(), 64),)](flat, flat.numel(), BLOCK=64)


def on_a_contiguous_copy(x: torch.Tensor) -> torch.Tensor:
    run(x.contiguous())  # here
    return x


def on_what_reshape_gives(x: torch.Tensor) -> torch.Tensor:
    flat = x.reshape(-1)  # here
    run(flat)
    return x


def helped(x: torch.Tensor) -> torch.Tensor:
    return x if x.is_contiguous() else x.clone(memory_format=torch.contiguous_format)  # here


def on_a_helpers_copy(x: torch.Tensor) -> torch.Tensor:
    run(helped(x))
    return x


def copied_back(x: torch.Tensor) -> torch.Tensor:
    flat = x.contiguous()
    run(flat)
    if flat.data_ptr() != x.data_ptr():
        if not all(x.stride()):
            raise ValueError("x has no place for each element")
        x.copy_(flat)
    return x


@pytest.mark.parametrize(
    ("launcher", "copying"),
    [(on_a_contiguous_copy, on_a_contiguous_copy), (on_a_helpers_copy, helped)],
    ids=lambda function: function.__name__,
)
def test_in_place_on_a_copy(launcher: Callable[..., Any], copying: Callable[..., Any]) -> None:
    (found,) = check(Case(torch.relu, launcher, "f32[6,10]"), shapes="6,10", dtypes="f32").findings
    assert (found.kind, found.level, found.line) == ("stride", "error", marked(copying))
    assert found.message.startswith("right for a contiguous x; when x is transposed, with strides (1, 2), ")
    assert found.message.endswith(": what is written in place is a copy, and x stays as it was")
    assert found.hint.startswith("copy the result back (x.copy_(…))")


def test_what_reshape_gives_is_a_copy_or_a_view() -> None:
    """Every second column is one step after another, which reshape keeps: there the kernel's own offsets are wrong."""
    found = check(Case(torch.relu, on_what_reshape_gives, "f32[6,10]"), shapes="6,10", dtypes="f32").findings
    assert {each.kind for each in found} == {"stride"}
    (copied,) = [each for each in found if each.line == marked(on_what_reshape_gives)]
    assert "x is transposed" in copied.message
    (viewed,) = [each for each in found if each is not copied]
    assert "x is sliced [..., ::2]" in viewed.message
    assert "tl.load(x + i" in viewed.source


def test_a_copy_that_is_copied_back_is_quiet() -> None:
    found = check(Case(torch.relu, copied_back, "f32[6,10]"), shapes="6,10", dtypes="f32")
    assert found.findings == ()
    assert [case.strides for case in found.cases if case.ok is None] == ["x expanded (stride 0)"]


@triton.jit
def add_rows(x, r, out, columns, sx, sr, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    left = tl.load(x + row * sx + c, mask=c < columns, other=0.0)
    right = tl.load(r + row * sr + c, mask=c < columns, other=0.0)  # here
    tl.store(out + row * columns + c, left + right, mask=c < columns)


def with_the_strides_of(x: torch.Tensor, r: torch.Tensor, sr: int) -> torch.Tensor:
    out = torch.empty(x.shape)
    add_rows[(x.shape[0],)](x, r, out, x.shape[1], x.stride(0), sr, BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def rows_only(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [each if each.stride(-1) == 1 else each.contiguous() for each in tensors]


def r_by_the_strides_of_x(x: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    x, r = rows_only(x, r)
    return with_the_strides_of(x, r, x.stride(0))


def r_by_its_own(x: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
    x, r = rows_only(x, r)
    return with_the_strides_of(x, r, r.stride(0))


def test_a_tensor_that_is_read_by_anothers_strides_is_the_only_one_told() -> None:
    found = check(Case(torch.add, r_by_the_strides_of_x, "f32[9,12],f32[9,12]"), shapes="9,12", dtypes="f32")
    (finding,) = found.findings
    assert (finding.kind, finding.tensor, finding.line) == ("stride", "r", marked(add_rows))
    assert finding.message.endswith(" and lanes leave r: the offsets of r follow x's strides")
    assert finding.hint == "pass r.stride() to the kernel for the offsets of r"
    broken = {case.strides for case in found.cases if case.ok is False}
    assert {"x expanded (stride 0)", "r sliced [::2]"} <= broken


def test_each_by_its_own_strides_is_quiet() -> None:
    assert check(Case(torch.add, r_by_its_own, "f32[9,12],f32[9,12]"), shapes="9,12", dtypes="f32").findings == ()


@triton.jit
def put_rows(x, slots, out, columns, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    row, c = tl.program_id(0), tl.arange(0, BLOCK)
    slot = tl.load(slots + row * STRIDE)  # here
    tl.store(out + slot * columns + c, tl.load(x + row * columns + c, mask=c < columns), mask=c < columns)


def put(x: torch.Tensor, slots: torch.Tensor, stride: int) -> torch.Tensor:
    out = torch.zeros(x.shape)
    x = x.contiguous()
    put_rows[(x.shape[0],)](x, slots, out, x.shape[1], STRIDE=stride, BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


def put_by_strides(x: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    return put(x, slots, slots.stride(0))


def put_as_if_contiguous(x: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    return put(x, slots, 1)


def put_eagerly(x: torch.Tensor, slots: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(x).index_copy(0, slots.long(), x)


def rows_and_slots() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(8, 5), torch.randperm(8, dtype=torch.int32)]


def test_slots_that_repeat_are_not_the_kernels_race() -> None:
    """Stride 0 makes every slot the first one: no caller of this kernel gives that, and no layout would."""
    found = check(Case(put_eagerly, put_by_strides, rows_and_slots))
    assert found.findings == ()
    assert all(case.ok is not False for case in found.cases)


def test_slots_that_are_read_as_if_contiguous() -> None:
    (found,) = check(Case(put_eagerly, put_as_if_contiguous, rows_and_slots)).findings
    assert (found.kind, found.tensor, found.line) == ("stride", "slots", marked(put_rows))


def test_slots_that_repeat_in_the_cases_own_inputs_are_a_race() -> None:
    def inputs() -> list[torch.Tensor]:
        return [torch.randn(8, 5), torch.tensor([0, 1, 1, 2, 3, 4, 5, 6], dtype=torch.int32)]

    kinds = [found.kind for found in check(Case(put_eagerly, put_by_strides, inputs)).findings]
    assert "race" in kinds


@triton.jit
def scale(x, out, n, stride, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    values = tl.load(x + i * stride, mask=i < n, other=0.0)
    largest = tl.max(tl.where(i < n, values, float("-inf")), 0)
    least = tl.min(tl.where(i < n, values, float("inf")), 0)
    tl.store(out + i, (values - least) / (largest - least), mask=i < n)  # here


def scaled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape)
    scale[(1,)](x, out, x.numel(), x.stride(0), BLOCK=triton.next_power_of_2(x.numel()))
    return out


def scaled_eagerly(x: torch.Tensor) -> torch.Tensor:
    return (x - x.min()) / (x.max() - x.min()).clamp(min=1e-30)


def test_floats_that_repeat_are_numbers_like_others() -> None:
    """Equal values come from callers too: what goes wrong is the kernel's, and no matter of strides."""
    (found,) = check(Case(scaled_eagerly, scaled, "f32[40]"), shapes="40", dtypes="f32").findings
    assert (found.kind, found.level, found.line) == ("nan-origin", "error", marked(scale))
    assert found.case.endswith("x expanded (stride 0)")


@triton.jit
def scaled_rows(x, y, columns, x_row, x_column, y_row, y_column, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    values = tl.load(x + row * x_row + c * x_column, mask=c < columns, other=0.0)  # here
    values -= tl.max(values, 0)
    tl.store(y + row * y_row + c * y_column, values, mask=c < columns)


def into_one_that_lies_alike(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    scaled_rows[(x.shape[0],)](x, y, x.shape[1], *x.stride(), x.shape[1], 1, BLOCK=32)
    return y


def from_one_that_is_taken_to_be_dense(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    scaled_rows[(x.shape[0],)](x, y, x.shape[1], x.shape[1], 1, *y.stride(), BLOCK=32)
    return y


@pytest.mark.parametrize(
    ("launch", "tensor", "offset", "hint"),
    [
        (
            into_one_that_lies_alike,
            "y",
            2,
            "make y contiguous (torch.empty_like keeps x's strides), or pass y.stride()",
        ),
        (from_one_that_is_taken_to_be_dense, "x", 0, "pass x.stride() to the kernel for its offsets, or"),
    ],
)
def test_of_the_input_and_a_result_that_lies_alike_the_one_whose_strides_are_not_followed(
    launch: Any, tensor: str, offset: int, hint: str
) -> None:
    case = Case(eager=lambda x: x - x.amax(1, keepdim=True), hand=launch, inputs="f32[12,20]")
    (found,) = check(case, shapes="12,20", dtypes="f32").findings
    assert (found.kind, found.tensor, found.line) == ("stride", tensor, marked(scaled_rows) + offset)
    assert found.hint.startswith(hint)
