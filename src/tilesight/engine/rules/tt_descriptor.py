"""tt: tensor descriptors. A tile of a tensor by its first indices; what lies outside is padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilesight.engine.access import load_lanes, store_lanes
from tilesight.engine.frame import Frame
from tilesight.engine.registry import frame_rule
from tilesight.engine.rules.arith_integer import add_integer
from tilesight.engine.rules.tt_atomic import combine_lanes
from tilesight.engine.rules.tt_shape import reshape_block
from tilesight.engine.values import Array, Descriptor, LaneSum, Mask, Pointer, add_lanes, dtype_of, spread_integers
from tilesight.ir.module import Operation
from tilesight.ir.types import DescriptorType, Type, block_shape, item_bits

INT64 = np.dtype(np.int64)
NAN_PADDING = 2


@frame_rule("tt.make_tensor_descriptor")
def make_descriptor(frame: Frame, operation: Operation, base: Pointer, *bounds: Array) -> Descriptor:
    rank = len(operation.operand_segments["shape"])
    nan = operation.attributes.get("padding") == NAN_PADDING
    return Descriptor(base, bounds[:rank], bounds[rank : 2 * rank], np.nan if nan else 0.0)


@frame_rule("tt.descriptor_load")
def load_tile(frame: Frame, operation: Operation, descriptor: Descriptor, *indices: Array) -> Any:
    tile = _tile(operation)
    pointer, inside = _locate(operation, descriptor, _lines(indices, tile), tile)
    loaded = _load(frame, operation, descriptor, pointer, inside, tile)
    return reshape_block(loaded, tile, block_shape(operation.results[0].type))


@frame_rule("tt.descriptor_gather")
def gather_rows(frame: Frame, operation: Operation, descriptor: Descriptor, rows: Array, column: Array) -> Any:
    """Rows of a matrix by their indices, from a first column on."""
    tile = block_shape(operation.results[0].type)
    pointer, inside = _locate(operation, descriptor, [rows[..., None], _line(column, 1, tile)], tile)
    return _load(frame, operation, descriptor, pointer, inside, tile)


def _load(
    frame: Frame, operation: Operation, descriptor: Descriptor, pointer: Pointer, inside: Mask, tile: tuple[int, ...]
) -> Array:
    element = _element(operation)
    padding = np.array([descriptor.padding]).astype(dtype_of(element))
    return load_lanes(frame, operation, pointer, inside, padding, element, (frame.chunk.size, *tile))


@frame_rule("tt.descriptor_store")
def store_tile(frame: Frame, operation: Operation, *operands: Any) -> None:
    """Write a tile; what lies outside the tensor is dropped."""
    descriptor, value, *indices = operands
    tile = _tile(operation)
    pointer, inside = _locate(operation, descriptor, _lines(indices, tile), tile)
    value = reshape_block(value, block_shape(operation.operand_segments["value"][0].type), tile)
    store_lanes(frame, operation, pointer, value, inside, _element(operation), (frame.chunk.size, *tile))


@frame_rule("tt.descriptor_scatter")
def scatter_rows(
    frame: Frame, operation: Operation, descriptor: Descriptor, rows: Array, column: Array, value: Array
) -> None:
    """Write rows of a matrix by their indices, from a first column on."""
    tile = block_shape(operation.operand_segments["value"][0].type)
    pointer, inside = _locate(operation, descriptor, [rows[..., None], _line(column, 1, tile)], tile)
    store_lanes(frame, operation, pointer, value, inside, _element(operation), (frame.chunk.size, *tile))


@frame_rule("tt.descriptor_reduce")
def update_tile(frame: Frame, operation: Operation, *operands: Any) -> None:
    """Combine a tile with what the tensor holds, element by element."""
    descriptor, value, *indices = operands
    kind = str(operation.attributes["kind"])
    kind = "fadd" if kind == "add" and value.dtype.kind != "i" else kind
    tile = _tile(operation)
    pointer, inside = _locate(operation, descriptor, _lines(indices, tile), tile)
    value = reshape_block(value, block_shape(operation.operand_segments["value"][0].type), tile)
    shape = (frame.chunk.size, *tile)
    combine_lanes(frame, operation, kind, pointer, value, inside, _element(operation), shape)


def _tile(operation: Operation) -> tuple[int, ...]:
    type_ = operation.operands[0].type
    assert isinstance(type_, DescriptorType)
    return type_.block.shape


def _element(operation: Operation) -> Type:
    type_ = operation.operands[0].type
    assert isinstance(type_, DescriptorType)
    return type_.block.element


def _lines(indices: Sequence[Array], tile: tuple[int, ...]) -> list[Array | LaneSum]:
    return [_line(index, axis, tile) for axis, index in enumerate(indices)]


def _line(first: Array, axis: int, tile: tuple[int, ...]) -> Array | LaneSum:
    """The indices along one axis of a tile: [P, 1, …, extent, …, 1]."""
    rank = len(tile)
    shape = [1] * (rank + 1)
    shape[axis + 1] = tile[axis]
    steps = np.arange(tile[axis], dtype=np.int64).reshape(shape)
    return add_integer(first.astype(np.int64).reshape(-1, *(1,) * rank), steps)


def _locate(
    operation: Operation, descriptor: Descriptor, lines: list[Array | LaneSum], tile: tuple[int, ...]
) -> tuple[Pointer, Mask]:
    """Addresses of a tile's elements, and which of them lie inside the tensor."""
    rank = len(tile)
    base = descriptor.base
    item = item_bits(_element(operation)) // 8
    address: Array | LaneSum = spread_integers(base.address).reshape(-1, *(1,) * rank)
    inside: Mask = np.ones((1,) * (rank + 1), np.bool_)
    for line, extent, stride in zip(lines, descriptor.shape, descriptor.strides, strict=True):
        index = spread_integers(line)
        bound = extent.reshape(-1, *(1,) * rank)
        inside = inside & (index >= 0) & (index < bound)
        address = _advance(address, line, stride, item, rank)
    return Pointer(address, base.root if isinstance(base.root, int) else base.root.reshape(-1, *(1,) * rank)), inside


def _advance(address: Array | LaneSum, line: Array | LaneSum, stride: Array, item: int, rank: int) -> Array | LaneSum:
    if stride.size == 1:
        moved = add_lanes(address, line, INT64, int(stride[0]) * item)
        if moved is not None:
            return moved
    return spread_integers(address) + spread_integers(line) * stride.astype(np.int64).reshape(-1, *(1,) * rank) * item
