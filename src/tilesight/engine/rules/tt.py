"""tt: programs, ranges and pointers; the other themes of the dialect are in tt_*.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilesight.engine.floats import pick
from tilesight.engine.frame import Frame
from tilesight.engine.registry import frame_rule, rule
from tilesight.engine.rules import (
    libdevice,
    tt_atomic,
    tt_debug,
    tt_descriptor,
    tt_dot,
    tt_map,
    tt_memory,
    tt_reduce,
    tt_shape,
)
from tilesight.engine.values import (
    UNKNOWN_ROOT,
    Array,
    LaneSum,
    Pointer,
    add_lanes,
    spread_integers,
)
from tilesight.ir.module import DenseElements, Operation, SymbolRef
from tilesight.ir.types import item_bits

__all__ = [
    "libdevice",
    "tt_atomic",
    "tt_debug",
    "tt_descriptor",
    "tt_dot",
    "tt_map",
    "tt_memory",
    "tt_reduce",
    "tt_shape",
]


@frame_rule("tt.get_program_id")
def program_id(frame: Frame, operation: Operation) -> Array:
    """The tile's coordinate on an axis of the grid; linear ids run over x first."""
    x, y, _ = frame.chunk.launch.grid
    axis = operation.attributes["axis"]
    programs = frame.chunk.programs
    coordinate = programs % x if axis == 0 else programs // x % y if axis == 1 else programs // (x * y)
    first = coordinate[:1]
    return (first if (coordinate == first).all() else coordinate).astype(np.int32)


@frame_rule("tt.get_num_programs")
def program_count(frame: Frame, operation: Operation) -> Array:
    axis = operation.attributes["axis"]
    assert isinstance(axis, int)
    return np.array([frame.chunk.launch.grid[axis]], np.int32)


@frame_rule("tt.make_range")
def make_range(frame: Frame, operation: Operation) -> Array:
    start, end = operation.attributes["start"], operation.attributes["end"]
    assert isinstance(start, int) and isinstance(end, int)
    return np.arange(start, end, dtype=np.int32)[None]


@frame_rule("tt.addptr", takes_lanes=True)
def add_pointer(frame: Frame, operation: Operation, pointer: Pointer, offset: Array | LaneSum) -> Pointer:
    """The address moved by a signed number of elements."""
    item = item_bits(tt_memory.pointee_of(operation.operands[0].type)) // 8
    lanes = add_lanes(pointer.address, offset, np.dtype(np.int64), item)
    if lanes is not None:
        address = lanes if len(lanes.terms) > 1 else next(iter(lanes.terms.values()))
    else:
        address = spread_integers(pointer.address) + spread_integers(offset).astype(np.int64) * item
    return Pointer(address, pointer.root)


@frame_rule("tt.clampf")
def clamp_float(frame: Frame, operation: Operation, x: Array, low: Array, high: Array) -> Array:
    """min(max(x, low), high); NaN stays NaN with `propagateNan = all`, otherwise it gives way to a limit."""
    if operation.attributes.get("propagateNan") == "all":
        return pick(_clamp_or_nan, x, low, high)
    result = pick(_clamp_number, x, low, high)
    return pick(_take_limit, x, high, result) if _is_symmetric(frame, operation) else result


def _is_symmetric(frame: Frame, operation: Operation) -> bool:
    """Whether the limits are -limit and limit, as constants or by a subtraction from 0.

    From compute capability 9.0 on, Triton then emits one `min.xorsign.abs` (ElementwiseOpToLLVM.cpp).
    """
    _, low, high = operation.operands
    definitions = frame.chunk.plan.definitions
    lower, upper = definitions.get(low), definitions.get(high)
    if lower is not None and lower.name == "arith.subf" and lower.operands[1] is high:
        return _constant(definitions.get(lower.operands[0])) == 0
    limits = _constant(lower), _constant(upper)
    return None not in limits and limits[0] == -limits[1]  # pyright: ignore[reportOptionalOperand]


def _constant(operation: Operation | None) -> float | None:
    """The number that every lane of a constant holds; None for anything else."""
    if operation is None or operation.name != "arith.constant":
        return None
    value = operation.attributes["value"]
    if isinstance(value, DenseElements):
        return float(value.values[0]) if value.is_splat else None
    return float(value) if isinstance(value, int | float) else None


def _take_limit(x: Array, limit: Array, result: Array) -> Array:
    """The result, and where x is NaN the limit with the product of the signs."""
    return np.where(np.isnan(x), np.where(np.signbit(x), -limit, limit), result)


def _clamp_or_nan(x: Array, low: Array, high: Array) -> Array:
    return np.minimum(np.maximum(x, low), high)


def _clamp_number(x: Array, low: Array, high: Array) -> Array:
    return np.fmin(np.fmax(x, low), high)


@rule("tt.ptr_to_int")
def pointer_to_integer(pointer: Pointer) -> Array:
    return spread_integers(pointer.address)


@rule("tt.int_to_ptr")
def integer_to_pointer(address: Array) -> Pointer:
    return Pointer(address.astype(np.int64), UNKNOWN_ROOT)


@frame_rule("tt.call")
def call(frame: Frame, operation: Operation, *operands: Any) -> tuple[Any, ...]:
    """Run another function of the module."""
    callee = operation.attributes["callee"]
    assert isinstance(callee, SymbolRef)
    return tuple(frame.call(frame.chunk.plan.module.function(callee.name), operands))
