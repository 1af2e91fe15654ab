"""tt: programs, ranges and pointers; the other themes of the dialect are in tt_*.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilesight.engine.floats import compute
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
from tilesight.ir.module import Operation, SymbolRef
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
        return compute(_clamp_or_nan, x, low, high)
    return compute(_clamp_number, x, low, high)


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
