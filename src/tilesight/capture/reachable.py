"""Tensors that a kernel reaches through addresses that it is given as integers."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from tilesight.capture.tensors import memory_of, span_in_bytes, true_device
from tilesight.engine.launch import Argument, Memory
from tilesight.ir import Module
from tilesight.ir.types import PointerType, element_type

ADDRESS_DTYPES = ("int64", "uint64")
TENSOR_TYPES = (torch.Tensor, torch.nn.Parameter)


def reachable_memories(module: Module, arguments: Sequence[Argument], names: Mapping[int, str]) -> tuple[Memory, ...]:
    """The living CPU tensors whose addresses a kernel's integer arguments hold, directly or in a tensor.

    A grouped matrix product, for one, is given a tensor of the addresses of its operands. Nothing is
    searched where the kernel makes no pointer out of an integer.

    Args:
        names: the caller's variable names by id() of the tensor
    """
    if not makes_pointers(module):
        return ()
    given = [argument.value for argument in arguments if isinstance(argument.value, Memory)]
    spans = [(memory.address, memory.address + len(memory.data)) for memory in given]
    scalars = [argument.value for argument in arguments if type(argument.value) is int and argument.value > 0]
    addresses = np.unique(np.concatenate([np.array(scalars, np.uint64), *map(_addresses_in, given)]))
    found: list[Memory] = []
    for tensor in _living_tensors():
        start = tensor.data_ptr()
        stop = start + span_in_bytes(tensor)
        low, high = np.searchsorted(addresses, np.array([start, stop], np.uint64))
        if low < high and not any(first <= start and stop <= last for first, last in spans):
            name = names.get(id(tensor), f"tensor at {start:#x}")
            found.append(memory_of(name, tensor, name))
    return tuple(_without_views(found))


@lru_cache(maxsize=64)
def makes_pointers(module: Module) -> bool:
    """Whether a kernel casts integers to pointers or loads pointers."""
    return any(
        operation.name == "tt.int_to_ptr"
        or (operation.name == "tt.load" and isinstance(element_type(operation.results[0].type), PointerType))
        for operation in module.walk()
    )


def _addresses_in(memory: Memory) -> NDArray[np.uint64]:
    if memory.dtype not in ADDRESS_DTYPES:
        return np.empty(0, np.uint64)
    return memory.data[: len(memory.data) // 8 * 8].view(np.uint64)


def _living_tensors() -> Iterator[torch.Tensor]:
    """Plain CPU tensors with memory of their own; subclasses may stand for tensors that have none."""
    for candidate in gc.get_objects():
        if type(candidate) in TENSOR_TYPES and _has_memory_here(candidate):
            yield candidate


def _has_memory_here(tensor: torch.Tensor) -> bool:
    return true_device(tensor).type == "cpu" and tensor.layout == torch.strided and tensor.numel() > 0


def _without_views(memories: Sequence[Memory]) -> Iterator[Memory]:
    """The widest memories: one that lies inside another is left out, and of two equal ones the second."""
    ordered = sorted(memories, key=lambda memory: (memory.address, -len(memory.data)))
    end = 0
    for memory in ordered:
        if memory.address + len(memory.data) > end:
            end = memory.address + len(memory.data)
            yield memory
