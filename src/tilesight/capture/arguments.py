"""A kernel's arguments as Triton hands them to a driver, laid out as the parameters of its TTIR function.

Tuples are taken apart and constexprs left out. A tensor descriptor made on the host is followed by
its shape and strides; for architectures without TMA Triton has replaced it by a pointer, the shape
and strides once more, and flags. Seen on Triton 3.6, 3.7.1 and 3.8.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import nan
from typing import Any

from tilesight.capture.tensors import memory_of
from tilesight.engine.launch import Argument, ArgumentValue
from tilesight.errors import InputError, UnsupportedError

FIRST_ARCH_WITH_TMA = 90


def split_arguments(
    signature: Mapping[str, Any], arguments: Sequence[Any], names: Mapping[int, str], arch: int
) -> tuple[tuple[Argument, ...], dict[str, object]]:
    """The arguments that are parameters in TTIR, in order, and the constexprs by name.

    Args:
        signature: parameter → Triton's type of it, a tuple of them for a tuple; `constexpr` where specialised away
        arguments: a value for every entry of the signature; constexprs at its end may be left out, as
            Triton's own launcher lets them
        names: the caller's variable names by id() of the tensor
        arch: compute capability the front end specialised for
    Raises: UnsupportedError: for a value that is none of those that kernels take
            InputError: for more or fewer values than the kernel takes
    """
    kept: list[Argument] = []
    constexprs: dict[str, object] = {}
    least = max((place for place, kind in enumerate(signature.values(), 1) if kind != "constexpr"), default=0)
    if not least <= len(arguments) <= len(signature):
        raise InputError(f"{len(arguments)} arguments", expected=f"{len(signature)}: {', '.join(signature)}")
    for (name, kind), value in zip(signature.items(), arguments, strict=False):
        if kind == "constexpr":
            constexprs[name] = value
        else:
            kept.extend(_flatten(name, kind, value, names, arch))
    return tuple(kept), constexprs


def _flatten(name: str, kind: Any, value: Any, names: Mapping[int, str], arch: int) -> Iterator[Argument]:
    if isinstance(kind, tuple):
        for index, (inner, item) in enumerate(zip(kind, value, strict=True)):
            if inner != "constexpr":
                yield from _flatten(f"{name}.{index}", inner, item, names, arch)
    elif str(kind).startswith("tensordesc"):
        yield from _flatten_descriptor(name, value, names, arch)
    else:
        yield Argument(name, _argument_value(name, kind, value, names))


def _flatten_descriptor(name: str, descriptor: Any, names: Mapping[int, str], arch: int) -> Iterator[Argument]:
    """Triton's `TensorDescriptor`: `base`, `shape`, `strides`, `padding` and, since 3.7, `round_f32_to_tf32`."""
    shape, strides = (tuple(int(size) for size in sizes) for sizes in (descriptor.shape, descriptor.strides))
    memory = memory_of(name, descriptor.base, names.get(id(descriptor.base), name))
    has_nan_padding = getattr(descriptor, "padding", "zero") == "nan"
    rounds = getattr(descriptor, "round_f32_to_tf32", None)
    bounds = [Argument(f"{name}.shape.{axis}", size) for axis, size in enumerate(shape)]
    bounds += [Argument(f"{name}.stride.{axis}", size) for axis, size in enumerate(strides)]
    if arch < FIRST_ARCH_WITH_TMA:
        yield Argument(name, memory)
        yield from bounds
        yield Argument(f"{name}.padding", has_nan_padding)
        if rounds is not None:
            yield Argument(f"{name}.round_f32_to_tf32", rounds)
    elif rounds:
        raise UnsupportedError(
            f"argument {name} is a tensor descriptor that rounds what it loads to tf32",
            expected="one with round_f32_to_tf32=False",
        )
    else:
        padding = nan if has_nan_padding else 0.0
        yield Argument(name, replace(memory, shape=shape, strides=strides, padding=padding))
    yield from bounds


def _argument_value(name: str, kind: Any, value: Any, names: Mapping[int, str]) -> ArgumentValue:
    if isinstance(value, bool | int | float):
        return value
    if hasattr(value, "data_ptr"):
        return memory_of(name, value, names.get(id(value), name.removesuffix("_ptr")))
    raise UnsupportedError(
        f"argument {name} of type {type(value).__name__} ({kind})",
        expected="a tensor, a number, a bool, a tuple of them or a tensor descriptor",
    )
