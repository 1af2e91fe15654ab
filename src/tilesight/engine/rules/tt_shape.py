"""tt: shapes. Lanes move, values stay; pointers move with the tensors they derive from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilesight.engine.frame import Frame
from tilesight.engine.registry import frame_rule, rule, unsupported
from tilesight.engine.values import Array, LaneSum, Pointer, map_lanes, root_array, spread_integers, varying_axes
from tilesight.ir.module import Operation
from tilesight.ir.types import block_shape


@frame_rule("tt.splat")
def splat(frame: Frame, operation: Operation, source: Any) -> Any:
    rank = len(block_shape(operation.results[0].type))
    return map_lanes(source, lambda array: array.reshape(-1, *(1,) * rank))


@frame_rule("tt.unsplat")
def unsplat(frame: Frame, operation: Operation, source: Any) -> Any:
    return map_lanes(source, lambda array: array.reshape(-1))


@rule("tt.broadcast", takes_lanes=True)
def broadcast(source: Any) -> Any:
    """Nothing to do: an extent of 1 already stands for any extent."""
    return source


@frame_rule("tt.expand_dims", takes_lanes=True)
def expand_dims(frame: Frame, operation: Operation, source: Any) -> Any:
    position = operation.attributes["axis"]
    assert isinstance(position, int)
    new = position + 1

    def expand(array: Array) -> Array:
        return np.expand_dims(array, new)

    def move(axis: int) -> int:
        return axis + (axis >= new)

    if isinstance(source, LaneSum):
        return source.map(expand, move)
    if isinstance(source, Pointer) and isinstance(source.address, LaneSum) and isinstance(source.root, int):
        return Pointer(source.address.map(expand, move), source.root)
    return map_lanes(source, expand)


@frame_rule("tt.reshape")
def reshape(frame: Frame, operation: Operation, source: Any) -> Any:
    """A block in another shape, lanes in row-major order."""
    old = block_shape(operation.operands[0].type)
    new = block_shape(operation.results[0].type)
    return map_lanes(source, lambda array: reshape_block(array, old, new))


def reshape_block(array: Array, old: tuple[int, ...], new: tuple[int, ...]) -> Array:
    """Reshape the block axes; what varies along no axis, or only along a kept one, is not spread out."""
    if array.size == array.shape[0]:
        return array.reshape(-1, *(1,) * len(new))
    varying = [axis - 1 for axis in varying_axes(array) if axis]
    kept_old, kept_new = [n for n in old if n > 1], [n for n in new if n > 1]
    if kept_old == kept_new:
        position = [axis for axis, extent in enumerate(new) if extent > 1]
        rank = [axis for axis, extent in enumerate(old) if extent > 1]
        shape = [1] * len(new)
        for axis in varying:
            shape[position[rank.index(axis)]] = old[axis]
        return array.reshape(-1, *shape)
    return np.broadcast_to(array, (array.shape[0], *old)).reshape(array.shape[0], *new)


@frame_rule("tt.trans")
def transpose(frame: Frame, operation: Operation, source: Any) -> Any:
    order = operation.attributes["order"]
    assert isinstance(order, tuple)
    axes = [0, *(axis + 1 for axis in order if isinstance(axis, int))]
    return map_lanes(source, lambda array: array.transpose(axes))


@frame_rule("tt.join")
def join(frame: Frame, operation: Operation, lhs: Any, rhs: Any) -> Any:
    """Two blocks side by side along a new last axis."""

    def stack(a: Array, b: Array) -> Array:
        return np.stack(np.broadcast_arrays(a, b), axis=-1)

    return _combine(lhs, rhs, stack)


@frame_rule("tt.cat")
def concatenate(frame: Frame, operation: Operation, lhs: Any, rhs: Any) -> Any:
    """Two blocks one after the other along the first axis."""
    shape = block_shape(operation.operands[0].type)

    def append(a: Array, b: Array) -> Array:
        full = np.broadcast_shapes(a.shape, b.shape, (1, *shape))
        return np.concatenate([np.broadcast_to(a, full), np.broadcast_to(b, full)], axis=1)

    return _combine(lhs, rhs, append)


def _combine(lhs: Any, rhs: Any, change: Callable[[Array, Array], Array]) -> Any:
    if not isinstance(lhs, Pointer):
        return change(lhs, rhs)
    address = change(spread_integers(lhs.address), spread_integers(rhs.address))
    same = isinstance(lhs.root, int) and lhs.root == rhs.root
    return Pointer(address, lhs.root if same else change(root_array(lhs), root_array(rhs)))


@rule("tt.split")
def split(source: Any) -> tuple[Any, Any]:
    """The two halves of a last axis of 2; the inverse of join."""
    return map_lanes(source, lambda array: array[..., 0]), map_lanes(source, lambda array: array[..., -1])


@frame_rule("tt.gather")
def gather(frame: Frame, operation: Operation, source: Array, indices: Array) -> Array:
    """`source` read along an axis at `indices`."""
    axis = operation.attributes["axis"]
    assert isinstance(axis, int)
    if isinstance(source, Pointer):
        raise unsupported(operation, "tt.gather of pointers")
    programs = max(source.shape[0], indices.shape[0])
    spread_source = np.broadcast_to(source, (programs, *block_shape(operation.operands[0].type)))
    spread_index = np.broadcast_to(indices, (programs, *block_shape(operation.operands[1].type)))
    return np.take_along_axis(spread_source, spread_index.astype(np.int64), axis + 1)


@frame_rule("tt.histogram")
def histogram(frame: Frame, operation: Operation, source: Array, mask: Array | None = None) -> Array:
    """How many lanes hold each value from 0 to the result's extent."""
    (bins,) = block_shape(operation.results[0].type)
    (lanes,) = block_shape(operation.operands[0].type)
    programs = int(max(source.shape[0], 1 if mask is None else mask.shape[0]))
    values = np.broadcast_to(source, (programs, lanes))
    counted = (values >= 0) & (values < bins)
    if mask is not None:
        counted = counted & mask
    program = np.repeat(np.arange(programs, dtype=np.int64), lanes).reshape(programs, lanes)
    found = program[counted] * bins + values[counted].astype(np.int64)
    return np.bincount(found, minlength=programs * bins).reshape(programs, bins).astype(np.int32)
