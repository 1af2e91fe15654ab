"""tt: reductions and scans with any combining region, over one or several operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilesight.engine.floats import is_native
from tilesight.engine.frame import Frame
from tilesight.engine.registry import frame_rule
from tilesight.engine.values import Array
from tilesight.ir.module import Operation
from tilesight.ir.types import block_shape

ORDER_FREE: dict[str, Any] = {
    "arith.addi": np.add,
    "arith.muli": np.multiply,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.maxnumf": np.fmax,
    "arith.minnumf": np.fmin,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
}
ROUNDED: dict[str, Any] = {"arith.addf": np.add, "arith.mulf": np.multiply}
ACCUMULATED: dict[str, Any] = {
    name: function for name, function in (ORDER_FREE | ROUNDED).items() if name != "arith.muli"
}


def single_combiner(operation: Operation) -> str:
    """The name of the one operation that combines the region's two arguments, or an empty string."""
    block = operation.regions[0].entry
    if len(block.operations) != 2 or len(block.arguments) != 2:
        return ""
    combine, returned = block.operations
    uses_both = set(combine.operands) == set(block.arguments) and len(combine.operands) == 2
    return combine.name if uses_both and returned.operands == combine.results else ""


@frame_rule("tt.reduce")
def reduce(frame: Frame, operation: Operation, *sources: Array) -> tuple[Array, ...]:
    """Combine all elements along an axis.

    Float sums and products of f32 and f64 along the last axis are pairwise; everything else halves
    the axis again and again, each step rounded as the region says.
    """
    axis, spread = _spread_axis(operation, sources)
    combiner = single_combiner(operation)
    (first, *others) = spread
    if not others and is_native(first.dtype) | (first.dtype.kind in "bi"):
        reduced = _reduce_at_once(combiner, first, axis)
        if reduced is not None:
            return (reduced,)
    combine = _region_on(frame, operation)
    while spread[0].shape[axis] > 1:
        halves = [np.split(array, 2, axis) for array in spread] if spread[0].shape[axis] % 2 == 0 else None
        if halves is None:
            spread = _fold_last(combine, spread, axis)
            continue
        spread = combine([low for low, _ in halves], [high for _, high in halves])
    return tuple(np.take(array, 0, axis) for array in spread)


def _reduce_at_once(combiner: str, source: Array, axis: int) -> Array | None:
    """The reduction by one NumPy call, where its result does not depend on the chunk's size."""
    if combiner in ORDER_FREE and source.dtype != np.bool_:
        dtype = source.dtype
        return ORDER_FREE[combiner].reduce(source, axis=axis, dtype=dtype)
    if combiner in ROUNDED and axis == source.ndim - 1 and source.dtype.itemsize >= 4:
        return ROUNDED[combiner].reduce(np.ascontiguousarray(source), axis=axis)
    return None


def _fold_last(combine: Callable[..., list[Array]], arrays: list[Array], axis: int) -> list[Array]:
    """Combine the last element of an axis of odd extent into the first."""
    last = [np.take(array, [-1], axis) for array in arrays]
    first = [np.take(array, [0], axis) for array in arrays]
    middle = [np.take(array, range(1, array.shape[axis] - 1), axis) for array in arrays]
    folded = combine(first, last)
    return [np.concatenate([head, rest], axis) for head, rest in zip(folded, middle, strict=True)]


def _spread_axis(operation: Operation, sources: Sequence[Array]) -> tuple[int, list[Array]]:
    """The axis with the program axis counted, and the operands with their full extent along it."""
    axis = operation.attributes["axis"]
    assert isinstance(axis, int)
    extent = block_shape(operation.operands[0].type)[axis]
    spread: list[Array] = []
    for source in sources:
        shape = list(source.shape)
        shape[axis + 1] = extent
        spread.append(np.broadcast_to(source, shape))
    return axis + 1, spread


def _region_on(frame: Frame, operation: Operation) -> Callable[[Sequence[Array], Sequence[Array]], list[Array]]:
    """The combining region as a function of two lists of whole arrays.

    Scalars that the region reads from outside get axes, so that they broadcast along programs.
    """
    region = operation.regions[0]
    captured = frame.chunk.plan.captures[operation]

    def combine(lhs: Sequence[Array], rhs: Sequence[Array]) -> list[Array]:
        rank = lhs[0].ndim
        outer = {value: frame.values[value] for value in captured}
        frame.values.update({value: found.reshape(-1, *(1,) * (rank - 1)) for value, found in outer.items()})
        result = frame.run_region(region, [*lhs, *rhs])
        frame.values.update(outer)
        shape = np.broadcast_shapes(*(array.shape for array in (*lhs, *rhs)))
        return [np.broadcast_to(array, shape[: array.ndim] if array.ndim == rank else shape) for array in result]

    return combine


@frame_rule("tt.scan")
def scan(frame: Frame, operation: Operation, *sources: Array) -> tuple[Array, ...]:
    """Running combination along an axis, from its end when `reverse`."""
    axis, spread = _spread_axis(operation, sources)
    reverse = bool(operation.attributes.get("reverse"))
    arrays = [np.flip(array, axis) if reverse else array for array in spread]
    combiner = single_combiner(operation)
    is_plain = len(arrays) == 1 and arrays[0].dtype != np.bool_
    if combiner in ACCUMULATED and is_plain and (arrays[0].dtype.kind == "i" or is_native(arrays[0].dtype)):
        arrays = [ACCUMULATED[combiner].accumulate(arrays[0], axis=axis, dtype=arrays[0].dtype)]
    else:
        arrays = _scan_by_doubling(_region_on(frame, operation), arrays, axis)
    return tuple(np.flip(array, axis) if reverse else array for array in arrays)


def _scan_by_doubling(combine: Callable[..., list[Array]], arrays: list[Array], axis: int) -> list[Array]:
    """Combine each element with the one 1, 2, 4, … before it; the earlier one is the left operand."""
    extent = arrays[0].shape[axis]
    distance = 1
    while distance < extent:
        head = [_part(array, axis, 0, distance) for array in arrays]
        earlier = [_part(array, axis, 0, extent - distance) for array in arrays]
        later = [_part(array, axis, distance, extent) for array in arrays]
        tail = combine(earlier, later)
        arrays = [np.concatenate([a, b], axis) for a, b in zip(_like(head, tail, axis), tail, strict=True)]
        distance *= 2
    return arrays


def _like(head: list[Array], tail: list[Array], axis: int) -> list[Array]:
    """The heads spread to the extents that the combined tails have on the other axes."""
    spread: list[Array] = []
    for first, rest in zip(head, tail, strict=True):
        shape = list(rest.shape)
        shape[axis] = first.shape[axis]
        spread.append(np.broadcast_to(first, shape))
    return spread


def _part(array: Array, axis: int, start: int, stop: int) -> Array:
    selection = [slice(None)] * array.ndim
    selection[axis] = slice(start, stop)
    return array[tuple(selection)]
