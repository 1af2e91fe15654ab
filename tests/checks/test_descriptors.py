"""Tensor descriptors whose rows begin where a GPU's copy unit cannot."""

# pyright: basic, reportArgumentType=false

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from tilesight.roads.check import check_launch


@triton.jit
def double_tile(x_ptr, out_ptr, rows, columns, stride, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [rows, columns], [stride, 1], [BLOCK, BLOCK])
    out = tl.make_tensor_descriptor(out_ptr, [rows, columns], [stride, 1], [BLOCK, BLOCK])
    out.store([0, 0], x.load([0, 0]) * 2)


def findings(stride: int, offset: int, target: str = "h200") -> list[tuple[str, str]]:
    triton.set_allocator(lambda size, *_: torch.empty(size, dtype=torch.int8))
    memory = torch.empty(16 * 32 + 8 + 16, dtype=torch.float16)
    start = -(memory.data_ptr() // 2) % 8 + offset
    x = memory[start : start + 8 * stride].view(8, stride)
    x.fill_(1)
    out = torch.zeros_like(x)
    found = check_launch(lambda: double_tile[(1,)](x, out, 8, stride, stride, BLOCK=16), target=target).findings
    return [(each.kind, each.message) for each in found if each.level == "error"]


@pytest.mark.parametrize(
    ("stride", "offset", "expected"),
    [
        (16, 0, []),
        (24, 0, []),
        (20, 0, ["the descriptor's stride along axis 0 is 40 bytes, which is no multiple of 16"]),
        (16, 1, ["the descriptor's tensor begins 2 bytes behind a multiple of 16"]),
    ],
)
def test_rows_and_tensors_begin_at_multiples_of_16_bytes(stride: int, offset: int, expected: list[str]) -> None:
    found = [message for kind, message in findings(stride, offset) if kind == "unlaunchable"]
    assert found[: len(expected)] == expected and bool(found) == bool(expected)


def test_gpus_without_a_copy_unit_take_them() -> None:
    assert not [message for kind, message in findings(20, 0, "a100") if "descriptor" in message]


@triton.jit
def double_groups(x_ptr, strides_ptr, out_ptr, groups, BLOCK: tl.constexpr):
    for group in range(tl.program_id(0), groups, tl.num_programs(0)):
        stride = tl.load(strides_ptr + group)
        start = group * 8 * 32
        x = tl.make_tensor_descriptor(x_ptr + start, [8, BLOCK], [stride, 1], [BLOCK, BLOCK])
        out = tl.make_tensor_descriptor(out_ptr + start, [8, BLOCK], [stride, 1], [BLOCK, BLOCK])
        out.store([0, 0], x.load([0, 0]) * 2)


@pytest.mark.parametrize(("last", "is_broken"), [(24, False), (20, True)])
def test_programs_that_are_done_make_no_descriptor(last: int, is_broken: bool) -> None:
    """Two programs and three groups: in the second round one of them has no stride."""
    triton.set_allocator(lambda size, *_: torch.empty(size, dtype=torch.int8))
    memory = torch.ones(3 * 8 * 32 + 8, dtype=torch.float16)
    start = -(memory.data_ptr() // 2) % 8
    x = memory[start : start + 3 * 8 * 32]
    strides = torch.tensor([16, 24, last], dtype=torch.int64)
    out = torch.zeros(3 * 8 * 32 + 8, dtype=torch.float16)
    out = out[-(out.data_ptr() // 2) % 8 :][: 3 * 8 * 32]
    found = check_launch(lambda: double_groups[(2,)](x, strides, out, 3, BLOCK=16)).findings
    assert any(each.kind == "unlaunchable" and "stride along axis 0" in each.message for each in found) == is_broken
