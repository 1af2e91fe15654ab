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


@triton.jit
def pairs_of(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(out + 2 * i, value, mask=i < n)
    tl.store(out + 2 * i + 1, value, mask=2 * i + 1 < n)  # half of them


def doubled_up(x: torch.Tensor) -> torch.Tensor:
    x, out = x.contiguous(), torch.empty(2 * x.numel())
    pairs_of[(1,)](x, out, x.numel(), BLOCK=triton.next_power_of_2(max(1, x.numel())))
    return out


def test_a_tensor_that_is_not_filled_is_one_finding_at_the_store_that_most_runs_show() -> None:
    """With one element 2 * i + 1 < n is never true, and Triton leaves that store out."""
    case = Case(eager=lambda x: x.repeat_interleave(2), hand=doubled_up, inputs="f32[5]")
    (found,) = [each for each in check(case, shapes="1;5;7", dtypes="f32").findings if each.kind == "never-written"]
    assert found.source.endswith("# half of them")
    plain = [each for each in check(case, shapes="1;5;7", dtypes="f32").cases if each.strides == "contiguous"]
    assert all(each.ok is False for each in plain)
    assert found.case_count >= 3
