"""Kernels that are given addresses as integers reach the tensors that lie there, and nothing else."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from tilesight.capture.enable import OutOfBoundsWarning
from tilesight.capture.launches import EngineSession
from tilesight.roads.traces import TraceObserver


@triton.jit
def scale_each_kernel(addresses_ptr, sizes_ptr, factor, BLOCK: tl.constexpr):
    """Multiplies the tensor whose address stands at this program's place."""
    pid = tl.program_id(0)
    data_ptr = tl.load(addresses_ptr + pid).to(tl.pointer_type(tl.float32))
    offsets = tl.arange(0, BLOCK)
    mask = offsets < tl.load(sizes_ptr + pid)
    tl.store(data_ptr + offsets, tl.load(data_ptr + offsets, mask=mask) * factor, mask=mask)


@triton.jit
def negate_at_kernel(address: tl.int64, n, BLOCK: tl.constexpr):  # pyright: ignore[reportInvalidTypeForm]
    data_ptr = address.to(tl.pointer_type(tl.float32))
    offsets = tl.arange(0, BLOCK)
    tl.store(data_ptr + offsets, -tl.load(data_ptr + offsets, mask=offsets < n), mask=offsets < n)


def scale_each(tensors: list[torch.Tensor], sizes: list[int], dtype: torch.dtype = torch.int64) -> None:
    addresses = torch.tensor([each.data_ptr() for each in tensors], dtype=dtype)
    kernel: Any = scale_each_kernel
    kernel[(len(tensors),)](addresses, torch.tensor(sizes, dtype=torch.int32), 2.0, BLOCK=64)


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint64])
def test_tensors_are_found_by_the_addresses_in_a_tensor(engine: EngineSession, dtype: torch.dtype) -> None:
    tensors = [torch.randn(size) for size in (10, 50, 64)]
    expected = [2 * each for each in tensors]
    scale_each(tensors, [10, 50, 64], dtype)
    assert all(torch.equal(got, want) for got, want in zip(tensors, expected, strict=True))


def test_a_tensor_is_found_by_an_address_passed_as_a_number(engine: EngineSession) -> None:
    tensor = torch.randn(40)
    expected = torch.cat([tensor[:8], -tensor[8:38], tensor[38:]])
    kernel: Any = negate_at_kernel
    kernel[(1,)](tensor.data_ptr() + 8 * 4, 30, BLOCK=64)
    assert torch.equal(tensor, expected)


def test_reached_tensors_are_named_and_counted(engine: EngineSession) -> None:
    observer = TraceObserver()
    engine.observers.append(observer)
    weights = torch.ones(16)
    kernel: Any = negate_at_kernel
    kernel[(1,)](weights.data_ptr(), 16, BLOCK=16)
    assert observer.traces[0].traffic.bytes.touched == 2 * 16 * 4
    assert [tensor.name for tensor in observer.traces[0].tensors] == ["weights"]


def test_what_lies_past_a_reached_tensor_is_out_of_bounds(engine: EngineSession) -> None:
    tensors = [torch.ones(10), torch.ones(10)]
    with pytest.warns(OutOfBoundsWarning, match="lanes 10 to 19"):
        scale_each(tensors, [10, 20])
    assert all(torch.equal(each, torch.full((10,), 2.0)) for each in tensors)


def test_an_address_that_no_tensor_holds_is_out_of_bounds(engine: EngineSession) -> None:
    kernel: Any = negate_at_kernel
    with pytest.warns(OutOfBoundsWarning, match="lies in no tensor"):
        kernel[(1,)](1 << 40, 16, BLOCK=16)


def test_a_view_and_its_base_are_one_memory(engine: EngineSession) -> None:
    """The address is the view's; the base's later elements are there too."""
    base = torch.arange(64.0)
    view = base[:8]
    with warnings.catch_warnings():
        warnings.simplefilter("error", OutOfBoundsWarning)
        scale_each([view], [64])
    assert torch.equal(base, 2 * torch.arange(64.0))
