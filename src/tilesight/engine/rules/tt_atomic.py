"""tt: atomics. Lanes take effect one after another, in the order of programs and lanes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
from tilesight.engine.memory import Lanes, combine_masks, split_by_tensor
from tilesight.engine.registry import frame_rule, unsupported
from tilesight.engine.rules.arith_integer import as_unsigned
from tilesight.engine.rules.tt_memory import optional_operand
from tilesight.engine.values import Array, Mask, Pointer, dtype_of, spread
from tilesight.engine.writes import Update
from tilesight.ir.module import Operation
from tilesight.ir.types import Type

Combine = Callable[..., Array]


def _maximum_unsigned(old: Array, new: Array) -> Array:
    return np.maximum(as_unsigned(old), as_unsigned(new)).view(old.dtype)


def _minimum_unsigned(old: Array, new: Array) -> Array:
    return np.minimum(as_unsigned(old), as_unsigned(new)).view(old.dtype)


def _exchange(old: Array, new: Array) -> Array:
    return new


def _add_float(old: Array, new: Array) -> Array:
    return compute(np.add, old, new)


UPDATES: dict[str, Combine] = {
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
UFUNCS: dict[str, Any] = {
    "add": np.add,
    "and": np.bitwise_and,
    "fadd": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


ORDER_FREE = frozenset(UPDATES) - {"fadd", "exch"}
"""The updates that leave the same value in whatever order they are made."""


@frame_rule("tt.atomic_rmw", takes_lanes=True)
def atomic_update(frame: Frame, operation: Operation, *operands: Any) -> Array:
    """Read, combine with the value, write; gives what was there before."""
    kind = str(operation.attributes["atomic_rmw_op"])
    mask = optional_operand(operation, operands, "mask")
    target = operation.operands[0]
    pointee, shape = pointee_of(target.type), frame.full_shape(target)
    return combine_lanes(frame, operation, kind, operands[0], spread(operands[1]), mask, pointee, shape)


@frame_rule("tt.atomic_cas", takes_lanes=True)
def atomic_compare_and_swap(frame: Frame, operation: Operation, pointer: Pointer, compare: Any, value: Any) -> Array:
    """Write the value where memory holds `compare`, bit for bit; gives what was there before."""

    def swap(old: Array, expected: Array, new: Array) -> Array:
        storage = storage_of(old.dtype)
        bits = old.view(storage)
        return np.where(bits == expected.view(storage), new.view(storage), bits).view(old.dtype)

    target = operation.operands[0]
    pointee, shape = pointee_of(target.type), frame.full_shape(target)
    values = (spread(compare), spread(value))
    return _read_and_update(frame, operation, pointer, values, None, swap, pointee, shape)


def combine_lanes(
    frame: Frame,
    operation: Operation,
    kind: str,
    pointer: Pointer,
    value: Array,
    mask: Mask | None,
    pointee: Type,
    shape: tuple[int, ...],
) -> Array:
    """Atomics of all lanes, giving what each lane found; listeners hear the value that is combined.

    Args:
        kind: the IR's word for the update
        shape: (P, *B), the full shape of the access
    Raises: UnsupportedError: no such update
    """
    if kind not in UPDATES:
        raise unsupported(operation, f"no update for {operation.name} {kind}")
    if any(result in frame.chunk.plan.read_values for result in operation.results):
        return _read_and_update(frame, operation, pointer, (value,), mask, UPDATES[kind], pointee, shape)
    dtype = dtype_of(pointee)
    mask = combine_masks(mask, frame.active, len(shape))
    for lanes in split_by_tensor(pointer, mask, frame.chunk.memories, storage_of(dtype)):
        access = begin_access(frame, operation, "atomic", lanes, pointee, shape, value)
        where, chosen, outside = _updated_elements(lanes, shape)
        if lanes.memory is not None:
            update = Update(
                memory=lanes.memory,
                elements=lanes.elements().view(dtype),
                where=where,
                operand=np.broadcast_to(value, shape)[chosen],
                programs=np.nonzero(chosen)[0],
                kind=kind,
                apply=_apply_to_all(kind, dtype),
            )
            frame.chunk.writes.update(update, is_ordered=kind not in ORDER_FREE)
        end_access(frame, access, lanes, outside, value)
    return np.broadcast_to(undefined_value(frame.chunk, dtype), shape)


def _apply_to_all(kind: str, dtype: np.dtype[Any]) -> Callable[[Array, Array, Array], Any]:
    """What combines (elements, where, operand) lane after lane: a NumPy loop, where NumPy has the type."""
    if kind in UFUNCS and dtype.kind in "bif":
        return UFUNCS[kind].at
    return partial(_one_by_one, update=UPDATES[kind])


def _updated_elements(lanes: Lanes, shape: tuple[int, ...]) -> tuple[Array, Mask, Mask | None]:
    """The elements that lanes update, in the order of lanes, which lanes do, and which are out of bounds."""
    index, inside = lanes.locate()
    chosen = np.broadcast_to(inside if lanes.mask is None else inside & lanes.mask, shape)
    return np.broadcast_to(index, shape)[chosen], chosen, outside_lanes(lanes.mask, inside)


def _read_and_update(
    frame: Frame,
    operation: Operation,
    pointer: Pointer,
    values: tuple[Array, ...],
    mask: Mask | None,
    update: Combine,
    pointee: Type,
    shape: tuple[int, ...],
) -> Array:
    """Atomics whose results are read: all lanes now, one after another where they meet."""
    dtype = dtype_of(pointee)
    result = np.broadcast_to(undefined_value(frame.chunk, dtype), shape).copy()
    mask = combine_masks(mask, frame.active, len(shape))
    for lanes in split_by_tensor(pointer, mask, frame.chunk.memories, storage_of(dtype)):
        access = begin_access(frame, operation, "atomic", lanes, pointee, shape, values[-1])
        frame.chunk.writes.settle(lanes.memory)
        where, chosen, outside = _updated_elements(lanes, shape)
        elements = lanes.elements().view(dtype)
        before = elements[where]
        result[chosen] = _one_by_one(
            elements, where, *(np.broadcast_to(v, shape)[chosen] for v in values), update=update
        )
        frame.chunk.writes.changed |= before.tobytes() != elements[where].tobytes()
        end_access(frame, access, lanes, outside, values[-1])
    return result


def _one_by_one(elements: Array, where: Array, *operands: Array, update: Combine) -> Array:
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
