"""tt: atomics. Lanes take effect one after another, in the order of programs and lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilesight.engine.access import (
    begin_access,
    end_access,
    outside_lanes,
    pointee_of,
    storage_of,
    undefined_value,
)
from tilesight.engine.floats import compute
from tilesight.engine.frame import Frame
from tilesight.engine.memory import combine_masks, split_by_tensor
from tilesight.engine.registry import frame_rule, unsupported
from tilesight.engine.rules.arith_integer import as_unsigned
from tilesight.engine.rules.tt_memory import optional_operand
from tilesight.engine.values import Array, Mask, Pointer, dtype_of, spread
from tilesight.ir.module import Operation
from tilesight.ir.types import Type

Update = Callable[..., Array]


def _maximum_unsigned(old: Array, new: Array) -> Array:
    return np.maximum(as_unsigned(old), as_unsigned(new)).view(old.dtype)


def _minimum_unsigned(old: Array, new: Array) -> Array:
    return np.minimum(as_unsigned(old), as_unsigned(new)).view(old.dtype)


def _exchange(old: Array, new: Array) -> Array:
    return new


def _add_float(old: Array, new: Array) -> Array:
    return compute(np.add, old, new)


UPDATES: dict[str, Update] = {
    "add": np.add,
    "and": np.bitwise_and,
    "exch": _exchange,
    "fadd": _add_float,
    "max": np.maximum,
    "min": np.minimum,
    "or": np.bitwise_or,
    "umax": _maximum_unsigned,
    "umin": _minimum_unsigned,
    "xor": np.bitwise_xor,
}
UNORDERED: dict[str, Any] = {
    "add": np.add,
    "and": np.bitwise_and,
    "fadd": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


@frame_rule("tt.atomic_rmw", takes_lanes=True)
def atomic_update(frame: Frame, operation: Operation, *operands: Any) -> Array:
    """Read, combine with the value, write; gives what was there before."""
    kind = str(operation.attributes["atomic_rmw_op"])
    if kind not in UPDATES:
        raise unsupported(operation, f"no update for tt.atomic_rmw {kind}")
    mask = optional_operand(operation, operands, "mask")
    whole = None if operation.results[0] in frame.chunk.plan.read_values else UNORDERED.get(kind)
    return _update_target(frame, operation, operands[0], (spread(operands[1]),), mask, UPDATES[kind], whole)


@frame_rule("tt.atomic_cas", takes_lanes=True)
def atomic_compare_and_swap(frame: Frame, operation: Operation, pointer: Pointer, compare: Any, value: Any) -> Array:
    """Write the value where memory holds `compare`, bit for bit; gives what was there before."""

    def swap(old: Array, expected: Array, new: Array) -> Array:
        storage = storage_of(old.dtype)
        bits = old.view(storage)
        return np.where(bits == expected.view(storage), new.view(storage), bits).view(old.dtype)

    return _update_target(frame, operation, pointer, (spread(compare), spread(value)), None, swap, None)


def _update_target(
    frame: Frame,
    operation: Operation,
    pointer: Pointer,
    values: tuple[Array, ...],
    mask: Mask | None,
    update: Update,
    whole: Any,
) -> Array:
    target = operation.operands[0]
    pointee, shape = pointee_of(target.type), frame.full_shape(target)
    return update_lanes(frame, operation, pointer, values, mask, update, whole, pointee, shape)


def update_lanes(
    frame: Frame,
    operation: Operation,
    pointer: Pointer,
    values: tuple[Array, ...],
    mask: Mask | None,
    update: Update,
    whole: Any,
    pointee: Type,
    shape: tuple[int, ...],
) -> Array:
    """Atomics of all lanes, giving what each lane found; listeners hear the value that is combined.

    Args:
        update: memory's value and the lane's values → memory's new value
        whole: a ufunc that does the same to all lanes at once; None when the result is read
        shape: (P, *B), the full shape of the access
    """
    dtype = dtype_of(pointee)
    result = np.broadcast_to(undefined_value(frame.chunk, dtype), shape).copy()
    mask = combine_masks(mask, frame.active, len(shape))
    for lanes in split_by_tensor(pointer, mask, frame.chunk.memories, storage_of(dtype)):
        access = begin_access(frame, operation, "atomic", lanes, pointee, shape, values[-1])
        index, inside = lanes.locate()
        chosen = np.broadcast_to(inside if lanes.mask is None else inside & lanes.mask, shape)
        elements = lanes.elements().view(dtype)
        where = np.broadcast_to(index, shape)[chosen]
        operands = [np.broadcast_to(value, shape)[chosen] for value in values]
        if whole is not None and dtype.kind in "bif":
            whole.at(elements, where, operands[0])
        else:
            result[chosen] = _one_by_one(elements, where, operands, update)
        end_access(frame, access, lanes, outside_lanes(lanes.mask, inside), values[-1])
    return result


def _one_by_one(elements: Array, where: Array, operands: list[Array], update: Update) -> Array:
    """Apply an update lane after lane and return what each found.

    In each round every element is updated by the first lane that still waits for it.
    """
    found = np.empty(len(where), elements.dtype)
    order = np.argsort(where, kind="stable")
    sorted_index = where[order]
    is_first = np.ones(len(where), np.bool_)
    is_first[1:] = sorted_index[1:] != sorted_index[:-1]
    starts = np.flatnonzero(is_first)
    counts = np.diff(np.append(starts, len(where)))
    for turn in range(int(counts.max(initial=0))):
        starts, counts = starts[counts > turn], counts[counts > turn]
        lanes = order[starts + turn]
        old = elements[where[lanes]]
        found[lanes] = old
        elements[where[lanes]] = update(old, *(operand[lanes] for operand in operands))
    return found
