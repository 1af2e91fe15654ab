"""A torch CPU tensor as the engine's Memory: the same bytes, no copy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tilesight.capture.undefined import written_in, written_of
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
        tensor: a torch CPU tensor of any strides, Triton's TensorWrapper around one, or a library's own
            view of a tensor, which has the methods of one that a launch asks for
        tensor_name: the caller's name for it
    Returns: a view: stores by the engine are seen in the tensor
    Raises:  InputError: for a tensor whose elements are not the bytes of CPU memory
    """
    base = getattr(tensor, "base", tensor)
    if not isinstance(base, torch.Tensor) and isinstance(_storage_of(base), torch.UntypedStorage):
        return _memory_of_view(name, base, tensor_name)
    _check_reachable(name, base)
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
        undefined=written_of(base),
    )


def _storage_of(view: Any) -> Any:
    return view.untyped_storage() if hasattr(view, "untyped_storage") else None


def _memory_of_view(name: str, view: Any, tensor_name: str) -> Memory:
    """The storage behind a view with strides that torch has no tensor for, such as negative ones."""
    storage = _storage_of(view)
    _check_reachable(name, torch.empty(0, dtype=torch.uint8, device=storage.device))
    return Memory(
        name=name,
        address=storage.data_ptr(),
        data=bytes_at(storage.data_ptr(), storage.nbytes()),
        dtype=dtype_name(view.dtype),
        item_bytes=view.element_size(),
        shape=tuple(view.shape),
        strides=tuple(view.stride()),
        pointer=view.data_ptr(),
        tensor_name=tensor_name,
        undefined=written_in(storage),
    )


def true_device(tensor: torch.Tensor) -> torch.device:
    """Where a tensor's bytes are, whatever a lent device makes `tensor.device` say."""
    with torch._C.DisableTorchFunction():
        return torch._C.TensorBase.device.__get__(tensor)


def _check_reachable(name: str, tensor: Any) -> None:
    if not isinstance(tensor, torch.Tensor):
        raise InputError(f"argument {name} is a {type(tensor).__name__} with a data_ptr", expected="a torch tensor")
    device = true_device(tensor)
    if device.type == "meta":
        raise InputError(
            f"argument {name} is on meta and has no data",
            expected="a CPU tensor",
            next_step="make it on the CPU, such as with torch.empty_like(tensor, device='cpu')",
        )
    if device.type != "cpu":
        raise InputError(
            f"argument {name} lives on {device}",
            expected="a CPU tensor",
            next_step="the engine runs on CPU tensors; call tilesight.disable() to launch on the GPU",
        )
    for is_lazy, what, cure in (
        (tensor.is_conj(), "conjugated", "resolve_conj"),
        (tensor.is_neg(), "negated", "resolve_neg"),
    ):
        if is_lazy:
            raise InputError(
                f"argument {name} is a view that torch has {what} only on paper: its memory holds other values",
                expected="a tensor that is what its memory says",
                next_step=f"pass tensor.{cure}()",
            )
    if tensor.is_quantized:
        raise InputError(
            f"argument {name} is quantised ({tensor.dtype})",
            expected="a plain tensor",
            next_step="pass tensor.int_repr() and the scale and zero point apart",
        )
