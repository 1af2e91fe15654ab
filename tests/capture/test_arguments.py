"""Kernel arguments that are tuples or tensor descriptors, and fp8 types, in every place Triton takes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import tilesight
from tilesight.errors import UnsupportedError

ROWS = 16


@pytest.fixture(params=[80, 90])
def arch(request: pytest.FixtureRequest) -> Iterator[int]:
    """Below 90 Triton hands kernels a pointer, shape, strides and flags instead of the descriptor."""
    tilesight.enable(arch=request.param)
    yield request.param
    tilesight.disable()


@triton.jit
def shifted_tile_kernel(descriptor, out_ptr, ROWS: tl.constexpr):
    tile = descriptor.load([24, 0])
    lanes = tl.arange(0, ROWS)
    size = descriptor.shape[0] + descriptor.strides[0].to(tl.int32)
    tl.store(out_ptr + lanes[:, None] * ROWS + lanes[None, :], tile + size)


def launch_shifted_tile(descriptor: TensorDescriptor, out: torch.Tensor) -> None:
    kernel: Any = shifted_tile_kernel  # a constexpr takes a plain int
    kernel[(1,)](descriptor, out, ROWS=ROWS)


@pytest.mark.parametrize(("padding", "outside"), [("zero", 0.0), ("nan", float("nan"))])
def test_a_descriptor_made_on_the_host_pads_as_it_says(arch: int, padding: str, outside: float) -> None:
    x = torch.randn(32, ROWS, generator=torch.Generator().manual_seed(0))
    out = torch.empty(ROWS, ROWS)
    descriptor = TensorDescriptor.from_tensor(x, [ROWS, ROWS], padding)
    launch_shifted_tile(descriptor, out)
    expected = torch.cat([x[24:], torch.full((8, ROWS), outside)]) + (32 + ROWS)
    assert torch.equal(out.nan_to_num(-1), expected.nan_to_num(-1))


def test_a_descriptor_that_rounds_to_tf32_is_refused_by_name() -> None:
    if "round_f32_to_tf32" not in TensorDescriptor.__dataclass_fields__:
        return
    arguments: dict[str, Any] = {"round_f32_to_tf32": True}
    descriptor = TensorDescriptor.from_tensor(torch.ones(32, ROWS), [ROWS, ROWS], **arguments)
    tilesight.enable(arch=90)
    try:
        with pytest.raises(UnsupportedError, match=r"argument descriptor .* tf32"):
            launch_shifted_tile(descriptor, torch.empty(ROWS, ROWS))
    finally:
        tilesight.disable()


@triton.jit
def sum_of_tuple_kernel(items, out_ptr):
    tl.store(out_ptr, tl.load(items[0]) + items[1] + items[2] + items[3][0] + tl.load(items[3][1]))


def test_tuples_are_taken_apart_to_any_depth(arch: int) -> None:
    out = torch.zeros(1)
    first, second = torch.tensor([100.0]), torch.tensor([2000.0])
    sum_of_tuple_kernel[(1,)]((first, 3, 1, (0.5, second, None)), out)
    assert out.item() == 100 + 3 + 1 + 0.5 + 2000


@triton.jit
def absolute_kernel(x_ptr, out_ptr, LANES: tl.constexpr):
    lanes = tl.arange(0, LANES)
    tl.store(out_ptr + lanes, tl.abs(tl.load(x_ptr + lanes)))


@pytest.mark.parametrize("name", ["float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e5m2"])
def test_fp8_of_amd_and_nvidia_run_side_by_side(arch: int, name: str) -> None:
    x = torch.arange(256, dtype=torch.uint8).view(getattr(torch, name))
    out = torch.empty_like(x)
    kernel: Any = absolute_kernel  # a constexpr takes a plain int
    kernel[(1,)](x, out, LANES=256)
    assert torch.equal(out.float().nan_to_num(-1), x.float().abs().nan_to_num(-1))


@triton.jit
def fp8e4b15_kernel(x_ptr, code_ptr, back_ptr, LANES: tl.constexpr):
    lanes = tl.arange(0, LANES)
    code = tl.load(x_ptr + lanes).to(tl.float8e4b15)
    tl.store(code_ptr + lanes, code.to(tl.uint8, bitcast=True))
    tl.store(back_ptr + lanes, code.to(tl.float32))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_fp8e4b15_is_rounded_to_the_nearest_code(arch: int, dtype: torch.dtype) -> None:
    """The oracle searches all codes: ±(1 + m/8)·2^(e−15), ±(m/8)·2^−14 for e = 0; at most 1.75 is given."""
    exponent, mantissa = torch.arange(128) // 8, torch.arange(128) % 8
    values = torch.where(exponent == 0, mantissa / 8 * 2.0**-14, (1 + mantissa / 8) * 2.0 ** (exponent - 15.0))
    middles = (values[1:] + values[:-1]) / 2
    magnitudes = torch.cat([values, middles, torch.tensor([2.0, 60000.0]), torch.rand(767) * 1.7]).half()
    x = torch.cat([magnitudes, -magnitudes]).to(dtype)
    code, back = torch.empty(2048, dtype=torch.uint8), torch.empty(2048)
    kernel: Any = fp8e4b15_kernel  # a constexpr takes a plain int
    kernel[(1,)](x, code, back, LANES=2048)
    reached = torch.searchsorted(middles[:126].double(), magnitudes.double(), right=True)
    assert torch.equal(code.int(), torch.cat([reached, reached + 128]).int())
    assert torch.equal(back, torch.cat([values[reached], -values[reached]]))
