"""A library's own view of a tensor, with strides that torch has no tensor for, is a kernel's argument too."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from tilesight.capture.enable import OutOfBoundsWarning
from tilesight.capture.launches import EngineSession
from tilesight.capture.tensors import memory_of
from tilesight.errors import InputError


class Reversed:
    """A vector from its last element to its first: what a launch asks of a tensor, and no more."""

    def __init__(self, base: torch.Tensor) -> None:
        self._base = base
        self.dtype = base.dtype
        self.shape = tuple(base.shape)

    def data_ptr(self) -> int:
        return self._base.data_ptr() + (self._base.numel() - 1) * self._base.element_size()

    def stride(self) -> tuple[int, ...]:
        return (-1,)

    def element_size(self) -> int:
        return self._base.element_size()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self._base.untyped_storage()


class Handle:
    """A pointer and a dtype, with nothing that says how far one may read."""

    dtype = torch.float32

    def data_ptr(self) -> int:
        return 16


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, x_stride, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets * x_stride, mask=offsets < n)
    tl.store(out_ptr + offsets, x, mask=offsets < n)


def test_a_view_with_a_negative_stride_is_read(engine: EngineSession) -> None:
    x, out = torch.randn(20), torch.empty(20)
    kernel: Any = copy_kernel
    kernel[(1,)](Reversed(x), out, 20, -1, BLOCK=32)
    assert torch.equal(out, x.flip(0))


def test_what_lies_before_the_storage_is_out_of_bounds(engine: EngineSession) -> None:
    x, out = torch.randn(20), torch.empty(24)
    kernel: Any = copy_kernel
    with pytest.warns(OutOfBoundsWarning, match="lanes 20 to 23"):
        kernel[(1,)](Reversed(x), out, 24, -1, BLOCK=32)
    assert torch.equal(out[:20], x.flip(0))


def test_a_view_s_memory_is_the_whole_storage() -> None:
    base = torch.arange(10, dtype=torch.int16)
    memory = memory_of("x", Reversed(base[2:8]), "name")
    assert (memory.address, len(memory.data)) == (base.data_ptr(), 20)
    assert (memory.pointer, memory.strides, memory.dtype) == (base.data_ptr() + 7 * 2, (-1,), "int16")


def test_a_pointer_without_bounds_is_refused() -> None:
    with pytest.raises(InputError, match="argument x is a Handle"):
        memory_of("x", Handle())


def test_a_view_of_another_device_is_refused() -> None:
    with pytest.raises(InputError, match="argument x"):
        memory_of("x", Reversed(torch.empty(3, device="meta")))
