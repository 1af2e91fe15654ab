"""A torch CPU tensor as the engine's Memory: the same bytes, no copy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tilesight.engine.launch import Memory
from tilesight.errors import InputError


def span_in_bytes(tensor: torch.Tensor) -> int:
    """Bytes from a tensor's first to its last element, gaps between strides included."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def bytes_at(address: int, count: int) -> NDArray[np.uint8]:
    """A writable view of `count` bytes at `address`; the caller keeps the memory alive."""
    if count == 0:
        return np.empty(0, dtype=np.uint8)
    return np.frombuffer(memoryview((ctypes.c_uint8 * count).from_address(address)), dtype=np.uint8)


def dtype_name(dtype: Any) -> str:
    """`float32` for torch.float32 and for Triton's own dtype objects alike."""
    return str(dtype).removeprefix("torch.")


def memory_of(name: str, tensor: Any, tensor_name: str = "") -> Memory:
    """The Memory of a kernel's tensor argument.

    Args:
        name: the kernel's parameter name
        tensor: a torch CPU tensor of any strides, or Triton's TensorWrapper around one
        tensor_name: the caller's name for it
    Returns: a view: stores by the engine are seen in the tensor
    Raises:  InputError: for a tensor that does not live on the CPU
    """
    base = getattr(tensor, "base", tensor)
    if base.device.type != "cpu":
        raise InputError(
            f"argument {name} lives on {base.device}",
            expected="a CPU tensor",
            next_step="the engine runs on CPU tensors; call tilesight.disable() to launch on the GPU",
        )
    pointer = base.data_ptr()
    return Memory(
        name=name,
        address=pointer,
        data=bytes_at(pointer, span_in_bytes(base)),
        dtype=dtype_name(tensor.dtype),
        item_bytes=base.element_size(),
        shape=tuple(base.shape),
        strides=tuple(base.stride()),
        pointer=pointer,
        tensor_name=tensor_name,
    )
