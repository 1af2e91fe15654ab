"""What the findings of many runs become: one fault once, its cause first."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from tilesight import Case, check
from tilesight.checks.finding import Finding
from tilesight.roads.gather import gather_launches

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false


@triton.jit
def double_strided(x, out, n, stride, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i * stride, 2 * tl.load(x + i * stride, mask=mask), mask=mask)


def with_the_stride_of_x(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape, dtype=x.dtype)
    double_strided[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), x.stride(0), BLOCK=64)
    return out


def test_what_a_layout_brings_about_is_one_finding() -> None:
    """Every second element: the output is stored two apart, past its end, and half of it is never stored."""
    case = Case(eager=lambda x: 2 * x, hand=with_the_stride_of_x, inputs="f32[100]")
    (found,) = check(case, shapes="100", dtypes="f32").findings
    assert (found.kind, found.level, found.case) == ("stride", "error", "f32[2], x sliced [..., ::2]")
    assert found.message.endswith(
        ", lanes leave out and elements are never written: the offsets of out follow x's strides"
    )
    assert found.hint == "pass out.stride() to the kernel for the offsets of out"


@triton.jit
def double_rows(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)  # as if contiguous


def into_a_tensor_like_x(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    x = x.contiguous()
    double_rows[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out


def test_an_output_that_keeps_the_strides_of_an_input_that_no_launch_touches() -> None:
    case = Case(eager=lambda x: 2 * x, hand=into_a_tensor_like_x, inputs="f32[12,20]")
    (found,) = check(case, shapes="12,20", dtypes="f32").findings
    assert (found.kind, found.tensor, found.source[-18:]) == ("stride", "out", "# as if contiguous")
    assert found.message.startswith("right for a contiguous x; when x is transposed, with strides ")
    assert found.hint.startswith("make out contiguous (torch.empty_like keeps x's strides)")


def finding(kind: str, line: int, level: str = "error") -> Finding:
    return Finding.of_line(kind, ("kernel.py", line), "", "", level=level)


def test_what_most_launches_show_comes_first_of_its_level() -> None:
    found = [finding("race", 1, "note"), finding("grid", 2), finding("race", 9), finding("race", 4), finding("grid", 2)]
    assert [(each.kind, each.line) for each in gather_launches(found)] == [
        ("race", 4),
        ("race", 9),
        ("grid", 2),
        ("race", 1),
    ]
