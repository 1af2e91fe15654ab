"""A launch's arguments as the values of the kernel's parameters, and whether its grid can be launched."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilesight.engine.launch import Argument, Launch, Memory
from tilesight.engine.values import UNKNOWN_ROOT, Descriptor, Pointer, dtype_of
from tilesight.errors import InputError
from tilesight.ir.module import Function
from tilesight.ir.types import DescriptorType, IntegerType, PointerType, Type

MOST_PROGRAMS = (2**31 - 1, 65_535, 65_535)
"""Programs that a grid may have along x, y and z (CUDA C++ Programming Guide, compute capabilities)."""


def check_grid(launch: Launch) -> None:
    """Refuse a grid that no GPU launches.

    Of an empty grid Triton's launcher launches nothing, whatever its other extents.

    Raises: InputError: an extent below 0 or over its axis's limit
    """
    if 0 in launch.grid and all(0 <= extent <= MOST_PROGRAMS[0] for extent in launch.grid):
        return
    for axis, extent, most in zip("xyz", launch.grid, MOST_PROGRAMS, strict=True):
        if not 0 <= extent <= most:
            raise InputError(
                f"a grid of {extent} programs along {axis} for {launch.kernel}",
                expected=f"0 to {most:,}",
                next_step="count more elements a program, or spread the programs over the other axes",
            )


def bind_arguments(kernel: Function, launch: Launch) -> list[Any]:
    """The values of the kernel's parameters.

    Raises: InputError: more or fewer arguments than parameters, or one of the wrong kind
    """
    if len(kernel.arguments) != len(launch.arguments):
        raise InputError(
            f"{len(launch.arguments)} arguments for {launch.kernel}",
            expected=f"{len(kernel.arguments)}: {', '.join(a.name for a in kernel.arguments)}",
        )
    roots = {id(memory): index for index, memory in reversed(list(enumerate(launch.memories)))}
    pairs = zip(kernel.arguments, launch.arguments, strict=True)
    return [_bind(parameter.type, argument, roots) for parameter, argument in pairs]


def _bind(type_: Type, argument: Argument, roots: dict[int, int]) -> Any:
    value = argument.value
    if isinstance(type_, DescriptorType) and isinstance(value, Memory):
        return _bind_descriptor(value, roots[id(value)])
    if isinstance(type_, PointerType):
        if isinstance(value, Memory):
            return Pointer(np.array([value.pointer], np.int64), roots[id(value)])
        if isinstance(value, float):
            raise _wrong_kind(argument, type_)
        return Pointer(np.array([int(value or 0)], np.int64), UNKNOWN_ROOT)
    if value is None or isinstance(value, Memory) or (isinstance(type_, IntegerType) and isinstance(value, float)):
        raise _wrong_kind(argument, type_)
    dtype = dtype_of(type_)
    if dtype.kind == "i":
        return np.array([int(value) % (1 << 8 * dtype.itemsize)], f"u{dtype.itemsize}").view(dtype)
    return np.array([value]).astype(dtype)


def _wrong_kind(argument: Argument, type_: Type) -> InputError:
    value = argument.value
    got = f"a tensor of {value.dtype}" if isinstance(value, Memory) else repr(value)
    return InputError(
        f"{got} for parameter {argument.name}",
        expected=f"a value of type {type_}",
        next_step="the kernel was compiled for another argument there",
    )


def _bind_descriptor(memory: Memory, root: int) -> Descriptor:
    """A descriptor made on the host, of the tensor that it is given."""
    base = Pointer(np.array([memory.pointer], np.int64), root)
    shape, strides = (tuple(np.array([n], np.int64) for n in sizes) for sizes in (memory.shape, memory.strides))
    return Descriptor(base, shape, strides, memory.padding)
