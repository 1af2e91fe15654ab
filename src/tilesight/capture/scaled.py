"""Tensors too large for this machine: addresses without memory behind them, and launches that are only looked at.

A virtual tensor is a plain CPU tensor over pages that the system hands out when they are touched:
reading gives zeros, and a few programs touch a few pages. What torch would compute on one is a
virtual tensor of the result's shape. Seen to work on torch 2.11, 2.13 and 2.14.
"""

from __future__ import annotations

import contextlib
import mmap
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from math import prod
from types import FrameType
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tilesight.capture.launches import EngineSession, _names_of_tensors, _place_of, build_launch
from tilesight.capture.lent.lend import LentCuda
from tilesight.capture.lent.mode import tensors_in
from tilesight.capture.reachable import makes_pointers
from tilesight.capture.tensors import dtype_name
from tilesight.engine.launch import Launch
from tilesight.errors import InputError, UnsupportedError
from tilesight.ir import Module

LARGEST_REAL_BYTES = 1 << 28
"""What a launcher allocates up to this size is ordinary memory, computed as always."""

MAP_NORESERVE = 0x4000
"""Linux's flag for pages that count against no limit until they are touched (mmap(2)); Python has no name for it."""

LARGEST_VIRTUAL_BYTES = 1 << 46
"""Half of what a process can address on x86-64 and arm64 with four page levels."""

InspectLaunch = Callable[[Module, Launch], None]


def virtual_tensor(shape: Sequence[int], dtype: torch.dtype, strides: Sequence[int] | None = None) -> torch.Tensor:
    """A CPU tensor of zeros whose memory is there only where it is touched.

    Raises: InputError: for more than a process can address, or where the system grants no such memory
    """
    elements = prod(shape)
    if strides is not None and elements:
        elements = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    size = max(1, elements * dtype.itemsize)
    if size > LARGEST_VIRTUAL_BYTES:
        raise _no_room(shape, dtype, f"at most {LARGEST_VIRTUAL_BYTES:,} bytes")
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
    except (OSError, OverflowError) as error:
        raise _no_room(shape, dtype, f"a system that grants memory which is not touched ({error})") from error
    with contextlib.suppress(OSError):  # a kernel without huge pages; with them one store would take 2 MiB
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    flat = torch.frombuffer(memory, dtype=torch.uint8)[: elements * dtype.itemsize].view(dtype)
    return flat.view(tuple(shape)) if strides is None else flat.as_strided(tuple(shape), tuple(strides))


def _no_room(shape: Sequence[int], dtype: torch.dtype, expected: str) -> InputError:
    return InputError(
        f"a tensor of {dtype_name(dtype)} {list(shape)} has no place in this process",
        where="--scale-to",
        expected=expected,
        next_step="scale to fewer elements",
    )


class VirtualTensors(TorchDispatchMode):
    """Makes large tensors virtual, and computes nothing that a virtual one goes into.

    `skipped` are the names of the operators whose results are shapes alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self.skipped: set[str] = set()
        self._held: list[torch.Tensor] = []
        self._storages: set[int] = set()

    def make(self, shape: Sequence[int], dtype: torch.dtype, strides: Sequence[int] | None = None) -> torch.Tensor:
        """A virtual tensor, which lives as long as the mode."""
        made = virtual_tensor(shape, dtype, strides)
        self._held.append(made)
        self._storages.add(made.untyped_storage().data_ptr())
        return made

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is virtual, or a view of one."""
        has_memory = tensor.layout == torch.strided and tensor.device.type != "meta"
        return has_memory and tensor.untyped_storage().data_ptr() in self._storages

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        _refuse_growth(func, args, kwargs)
        is_virtual = any(self.holds(tensor) for tensor in tensors_in((args, kwargs)))
        if _makes_views(func):
            return func(*args, **kwargs)
        if is_virtual and func._schema.is_mutable:
            self.skipped.add(_name_of(func))
            return _written(func, args, kwargs)
        shapes = self._shapes(func, args, kwargs, is_virtual)
        if shapes is None or not (is_virtual or _bytes_of(shapes) > LARGEST_REAL_BYTES):
            return func(*args, **kwargs)
        if is_virtual and not _gives_only_room(func):
            self.skipped.add(_name_of(func))
        return _map_tensors(lambda meta: self.make(meta.shape, meta.dtype, meta.stride()), shapes)

    def _shapes(self, func: Any, args: Any, kwargs: dict[str, Any], is_virtual: bool) -> Any:
        """The results as tensors on meta; None where torch cannot tell them and all inputs are real.

        Raises: InputError: the values of a virtual tensor would have to be known
        """
        if func._schema.is_mutable:
            return None
        moved = _map_tensors(_on_meta, (args, kwargs))
        given: dict[str, Any] = moved[1]
        if "device" in kwargs or not list(tensors_in((args, kwargs))):
            given["device"] = torch.device("meta")
        given.pop("pin_memory", None)
        try:
            return func(*moved[0], **given)
        except Exception as error:
            if not is_virtual:
                return None
            raise InputError(
                f"{_name_of(func)} asks for the values of a scaled tensor",
                where="--scale-to",
                expected="a launcher that goes by shapes alone",
                next_step="at this size nothing is computed but addresses",
            ) from error


def _refuse_growth(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Stop what makes as many elements as an index or a count says, where that is one of a scaled size.

    Raises: InputError: the result would be over `LARGEST_REAL_BYTES`
    """
    counting = {"aten::bincount": torch.max, "aten::repeat_interleave": torch.sum}
    reduce = counting.get(func._schema.name)
    given = [each for each in tensors_in((args, kwargs)) if each.numel() and not each.dtype.is_floating_point]
    if reduce is None or not given:
        return
    elements = max(int(reduce(each)) for each in given)
    if elements * torch.int64.itemsize > LARGEST_REAL_BYTES:
        raise InputError(
            f"{_name_of(func)} would make {elements:,} elements",
            where="--scale-to",
            expected="a launcher that goes by shapes alone",
            next_step="at this size nothing is computed but addresses",
        )


def _makes_views(func: Any) -> bool:
    """Whether what an operator returns shares its input's memory and nothing is written."""
    aliases = [each.alias_info for each in func._schema.returns]
    return bool(aliases) and all(alias is not None and not alias.is_write for alias in aliases)


def _gives_only_room(func: Any) -> bool:
    """Whether an operator's result is memory, whose contents nobody has computed."""
    return "empty" in str(func)


def _name_of(func: Any) -> str:
    return str(func).removesuffix(".default")


def _written(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What an operator that writes to its arguments returns: those arguments."""
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    written = [given[a.name] for a in func._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    count = len(func._schema.returns)
    return None if count == 0 else written[0] if count == 1 else tuple(written[:count])


def _on_meta(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _map_tensors(change: Callable[[torch.Tensor], Any], values: Any) -> Any:
    pytree: Any = import_module("torch.utils._pytree")
    return pytree.tree_map_only(torch.Tensor, change, values)


def _bytes_of(values: Any) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors_in(values))


class LookingSession(EngineSession):
    """A session that hands each launch to `inspect` instead of running it.

    Args:
        inspect: called with the kernel's module and the launch
    """

    def __init__(self, arch: int, inspect: InspectLaunch, lent: LentCuda | None = None) -> None:
        super().__init__(arch, is_pinned=True, lent=lent)
        self._inspect = inspect

    def _execute(
        self,
        source: Any,
        metadata: Any,
        ttir: str,
        grid: tuple[int, int, int],
        arguments: tuple[Any, ...],
        frame: FrameType | None,
    ) -> None:
        module = self.module(ttir)
        if makes_pointers(module):
            raise UnsupportedError(
                f"{metadata.name} makes pointers out of integers",
                expected="a kernel whose pointers are its tensors",
                next_step="at a scaled size the tensors that such pointers mean are not searched for",
            )
        launch = build_launch(source, metadata, ttir, grid, arguments, _names_of_tensors(frame))
        self._inspect(module, replace(launch, launched_at=_place_of(frame)))
