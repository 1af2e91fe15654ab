"""Which elements of a storage nothing has written: a record kept on the storage itself.

It lives and dies with the storage, so that an address given out again cannot inherit it. Unwritten elements
hold a poison, a bit pattern that no computation gives, so that a write which nobody announced (through
numpy(), ctypes or an extension in C++) shows in the bytes. torch hands out one Python object a storage for as
long as the storage lives: seen on torch 2.13.0 and 2.14.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from tilesight.engine.launch import Undefined

Flags = NDArray[np.bool_]
_ATTRIBUTE = "_tilesight_record"
_PLAIN_TYPES = (torch.Tensor, torch.nn.Parameter)
_NAN_BITS = {
    "float64": 0x7FFD_A5A5_A5A5_A5A5,
    "float32": 0x7FE5_A5A5,
    "float16": 0x7E5A,
    "bfloat16": 0x7FE5,
    "float8_e4m3fnuz": 0x80,
    "float8_e5m2fnuz": 0x80,
    "float8_e4m3fn": 0xFF,
    "float8_e5m2": 0xFF,
    "float8_e8m0fnu": 0xFF,
}
_INTEGERS = frozenset({torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64})
_ODD_BYTE = 0x7D


@dataclass
class Period:
    """How long writes are watched; a record says nothing once its period is over."""

    is_over: bool = False


@dataclass(eq=False)
class Record:
    """What is known of one storage.

    Args:
        undefined: the flags that kernels' stores set too
        bits: [elements, words] unsigned, the storage's memory
        poison: unsigned, each word of an element that nothing wrote
        period: while it lasts, writes are watched
    """

    undefined: Undefined
    bits: NDArray[Any]
    poison: Any
    period: Period

    def notice_writes(self) -> None:
        """Flag the elements that hold something else than the poison.

        An item of one byte may hold the poison by chance: one such write gives up the whole storage.
        """
        written = self.undefined.written
        first, *others = self.bits.T
        changed = first != self.poison
        for word in others:
            changed |= word != self.poison
        if self.undefined.item_bytes > 1:
            written |= changed
        elif (changed & ~written).any():
            written[:] = True

    def poison_unwritten(self) -> None:
        """Put the poison back where a copy has left another form of it."""
        np.copyto(self.bits, self.poison, where=~self.undefined.written[:, np.newaxis])

    def is_about(self, storage: torch.UntypedStorage) -> bool:
        """Whether the storage is still where, and as large as, it was."""
        same_place = storage.data_ptr() == self.undefined.address
        return same_place and storage.nbytes() == len(self.undefined.written) * self.undefined.item_bytes


def storage_of(tensor: Any) -> torch.UntypedStorage | None:
    """A plain tensor's storage; None for subclasses and for tensors that have none."""
    if type(tensor) not in _PLAIN_TYPES:
        return None
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):
        return None


def record_of(storage: torch.UntypedStorage | None) -> Record | None:
    """The record of a storage that is not known to be written in full, while writes are watched."""
    record: Record | None = getattr(storage, _ATTRIBUTE, None)
    return None if record is None or record.period.is_over else record


def attach(storage: torch.UntypedStorage, record: Record | None) -> None:
    """Keep a record with a storage, or drop the one that is there."""
    setattr(storage, _ATTRIBUTE, record)


def written_in(storage: torch.UntypedStorage | None) -> Undefined | None:
    """Which elements of a storage were written; None where all were, or nobody has watched."""
    record = record_of(storage)
    if storage is None or record is None:
        return None
    if record.is_about(storage):
        record.notice_writes()
        if not record.undefined.written.all():
            return record.undefined
    attach(storage, None)
    return None


def written_of(tensor: Any) -> Undefined | None:
    """Which elements of a tensor's storage were written; None where all were, or nobody has watched.

    Returns: the living flags: whoever writes the memory of the storage behind torch's back sets them
    """
    with torch._C.DisableTorchFunction():
        return written_in(storage_of(tensor))


def words_of(memory: NDArray[np.uint8], item_bytes: int) -> NDArray[Any]:
    """[elements, words] unsigned view of whole items, in words of at most 8 bytes."""
    word = min(item_bytes, 8)
    return memory[: len(memory) // item_bytes * item_bytes].view(f"u{word}").reshape(-1, item_bytes // word)


@cache
def poison_word(dtype: torch.dtype) -> Any:
    """The word of an element that nothing wrote: a NaN with a payload of its own, or a large odd integer."""
    part = dtype.to_real() if dtype.is_complex else dtype
    word = min(dtype.itemsize, 8)
    bits = np.array(_poison_bits(part), f"u{min(part.itemsize, 8)}")
    return np.repeat(bits, word // bits.itemsize).view(f"u{word}")[0]


def _poison_bits(dtype: torch.dtype) -> int:
    name = str(dtype).removeprefix("torch.")
    if dtype == torch.bool:
        return 1
    if name in _NAN_BITS:
        return _NAN_BITS[name]
    if dtype in _INTEGERS:
        return torch.iinfo(dtype).max - 2
    return int.from_bytes(bytes([_ODD_BYTE]) * min(dtype.itemsize, 8), "little")


def view_of_flags(undefined: Undefined, tensor: torch.Tensor) -> Flags | None:
    """The flags of a tensor's elements, [*shape, flags an element], writable.

    Returns: None where elements of the tensor begin or end inside of one that has a flag
    """
    item, width = undefined.item_bytes, tensor.element_size()
    start = tensor.storage_offset() * width
    steps = [stride * width for stride in tensor.stride()]
    if width % item or start % item or any(step % item for step in steps):
        return None
    if tensor.numel() == 0:
        return np.empty((*tensor.shape, width // item), np.bool_)
    strides = (*(step // item for step in steps), 1)
    return np.ndarray((*tensor.shape, width // item), np.bool_, undefined.written, start // item, strides)


def flags_inside(undefined: Undefined, tensor: torch.Tensor) -> NDArray[np.int64]:
    """The numbers of the flags whose elements hold an element of the tensor, [*shape]; for narrower elements."""
    width = tensor.element_size()
    first = np.full(tuple(tensor.shape), tensor.storage_offset() * width, np.int64)
    for axis, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        along = np.arange(size, dtype=np.int64) * (stride * width)
        first += along.reshape(-1, *(1,) * (tensor.dim() - axis - 1))
    return first // undefined.item_bytes


def set_flags(undefined: Undefined, tensor: torch.Tensor, values: Any) -> None:
    """Flag a tensor's elements; `values` broadcast to its shape."""
    view = view_of_flags(undefined, tensor)
    if view is not None:
        view[...] = np.expand_dims(np.asarray(values, np.bool_), -1)
        return
    index = flags_inside(undefined, tensor)
    undefined.written[index[np.broadcast_to(values, index.shape)]] = True


def flags_of(tensor: Any) -> Flags | None:
    """Which of a tensor's elements were written, [*shape], a copy; None where all were."""
    undefined = written_in(storage_of(tensor))
    if undefined is None:
        return None
    view = view_of_flags(undefined, tensor)
    flags = undefined.written[flags_inside(undefined, tensor)] if view is None else np.asarray(view.all(axis=-1))
    return None if flags.all() else flags
