"""Loads and stores of a chunk: gather, scatter, and what listeners are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tilesight.engine.frame import Chunk, Frame
from tilesight.engine.listener import Access, AccessKind
from tilesight.engine.memory import Lanes, Lattice, box_of, combine_masks, is_injective, split_by_tensor
from tilesight.engine.values import UNKNOWN_ROOT, Array, Mask, Pointer, dtype_of, spread_integers
from tilesight.ir.module import Operation
from tilesight.ir.types import PointerType, Type, element_type, item_bits

POISON = 0x5BAD_F00D_5BAD_F00D


def undefined_value(chunk: Chunk, dtype: np.dtype[Any]) -> Array:
    """One element that stands for an undefined one: NaN, a large odd integer, or the number asked for."""
    if isinstance(chunk.undefined, str):
        if dtype.kind in "fV":
            return np.array([np.nan], np.float32).astype(dtype)
        return np.array([POISON], np.int64).astype(dtype)
    return np.array([chunk.undefined]).astype(dtype)


def storage_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The unsigned type in which elements are moved; bits are kept as they are."""
    return np.dtype(f"u{dtype.itemsize}")


def pointee_of(type_: Type) -> Type:
    """The type of the elements that a pointer, or a block of pointers, points to."""
    element = element_type(type_)
    assert isinstance(element, PointerType)
    return element.pointee


def load_lanes(
    frame: Frame,
    operation: Operation,
    pointer: Pointer,
    mask: Mask | None,
    other: Any,
    pointee: Type,
    shape: tuple[int, ...],
) -> Any:
    """The values that a block of pointers points to.

    Lanes that are masked off hold `other`, or the undefined value where there is none; so do lanes
    out of bounds.

    Args:
        pointee: the type of an element; a pointer type gives a Pointer
        shape: (P, *B), the full shape of the access
    """
    dtype = dtype_of(pointee)
    storage = storage_of(dtype)
    undefined = undefined_value(frame.chunk, dtype).view(storage)
    fill = undefined if other is None else _plain(other).view(storage)
    mask = combine_masks(mask, frame.active, len(shape))
    result: Array | None = None
    for lanes in split_by_tensor(pointer, mask, frame.chunk.memories, storage):
        access = begin_access(frame, operation, "load", lanes, pointee, shape, None)
        frame.chunk.writes.settle(lanes.memory)
        values, outside = gather(lanes, fill, undefined)
        result = values if result is None or lanes.mask is None else np.where(lanes.mask, values, result)
        end_access(frame, access, lanes, outside, _natural(values, dtype))
    found = _natural(fill.reshape((1,) * len(shape)) if result is None else result, dtype)
    return Pointer(found, UNKNOWN_ROOT) if isinstance(pointee, PointerType) else found


def store_lanes(
    frame: Frame,
    operation: Operation,
    pointer: Pointer,
    value: Any,
    mask: Mask | None,
    pointee: Type,
    shape: tuple[int, ...],
) -> None:
    """Write a block of values; lanes masked off or out of bounds are dropped.

    Where several lanes write one element, the last lane of the last program stays.
    """
    natural = _plain(value)
    storage = storage_of(natural.dtype)
    mask = combine_masks(mask, frame.active, len(shape))
    for lanes in split_by_tensor(pointer, mask, frame.chunk.memories, storage):
        write = partial(_write, frame, operation, lanes, natural, pointee, shape)
        frame.chunk.writes.store(lanes.memory, write)


def _write(
    frame: Frame, operation: Operation, lanes: Lanes, natural: Array, pointee: Type, shape: tuple[int, ...]
) -> None:
    access = begin_access(frame, operation, "store", lanes, pointee, shape, natural)
    outside = scatter(lanes, natural.view(lanes.storage))
    end_access(frame, access, lanes, outside, natural)


def gather(lanes: Lanes, fill: Array, undefined: Array) -> tuple[Array, Mask | None]:
    """What the lanes hold, in storage type, and which active lanes are out of bounds (None for none)."""
    lattice = lanes.lattice()
    window = lanes.window(lattice)
    if window is not None:
        return (window.copy() if lanes.mask is None else np.where(lanes.mask, window, fill)), None
    values = _gather_box(lanes, lattice, fill)
    return _gather_each(lanes, fill, undefined) if values is None else (values, None)


def _gather_box(lanes: Lanes, lattice: Lattice | None, fill: Array) -> Array | None:
    """The lanes by the box that the mask leaves of them, or None when that is no window either."""
    box = box_of(lanes.mask) if lattice is not None and lanes.mask is not None else None
    if lattice is None or lanes.mask is None or box is None:
        return None
    window = lanes.window(lattice.crop(box))
    if window is None:
        return None
    shape = np.broadcast_shapes(lattice.shape, lanes.mask.shape, fill.shape)
    values = np.broadcast_to(fill, shape).copy()
    np.copyto(values[box], window, where=lanes.mask[box])
    return values


def _gather_each(lanes: Lanes, fill: Array, undefined: Array) -> tuple[Array, Mask | None]:
    """The lanes one by one, by index."""
    index, inside = lanes.locate()
    elements = lanes.elements()
    if lanes.mask is None and lanes.all_inside:
        return elements.take(index), None
    wanted = inside if lanes.mask is None else inside & lanes.mask
    if wanted.all():
        return elements.take(index), None
    found = elements.take(np.where(wanted, index, 0)) if len(elements) else undefined
    values = np.where(wanted, found, fill)
    outside = outside_lanes(lanes.mask, inside)
    return (values if outside is None else np.where(outside, undefined, values)), outside


def scatter(lanes: Lanes, values: Array) -> Mask | None:
    """Write the values, in storage type; returns which active lanes are out of bounds (None for none)."""
    lattice = lanes.lattice()
    if _scatter_window(lanes.window(lattice), values, lanes.mask):
        return None
    box = box_of(lanes.mask) if lattice is not None and lanes.mask is not None else None
    if lattice is not None and lanes.mask is not None and box is not None:
        part = tuple(one if extent > 1 else slice(None) for one, extent in zip(box, values.shape, strict=True))
        if _scatter_window(lanes.window(lattice.crop(box)), values[part], lanes.mask[box]):
            return None
    return _scatter_each(lanes, values)


def _scatter_window(window: Array | None, values: Array, mask: Mask | None) -> bool:
    """Write through a strided view, unless two lanes share an element and so their order matters."""
    if window is None or not (_fits(values, window) and _fits(mask, window) and is_injective(window)):
        return False
    if mask is None or mask.all():
        window[...] = values
    else:
        np.copyto(window, values, where=mask)
    return True


def _scatter_each(lanes: Lanes, values: Array) -> Mask | None:
    """Write the lanes one by one, by index; of several lanes at one element the last one stays."""
    index, inside = lanes.locate()
    wanted = inside if lanes.mask is None else inside & lanes.mask
    index, values, chosen = np.broadcast_arrays(index, values, wanted)
    elements = lanes.elements()
    elements[index[chosen]] = values[chosen]
    return outside_lanes(lanes.mask, inside)


def outside_lanes(mask: Mask | None, inside: Mask) -> Mask | None:
    """The active lanes that are not inside, or None when there are none."""
    outside = ~inside if mask is None else mask & ~inside
    return outside if outside.any() else None


def _fits(values: Array | None, window: Array) -> bool:
    """Whether values broadcast to the window without widening it."""
    if values is None:
        return True
    return all(have in (1, want) for have, want in zip(values.shape, window.shape, strict=True))


def _plain(value: Any) -> Array:
    return spread_integers(value.address if isinstance(value, Pointer) else value)


def _natural(values: Array, dtype: np.dtype[Any]) -> Array:
    return values != 0 if dtype == np.bool_ else values.view(dtype)


def begin_access(
    frame: Frame,
    operation: Operation,
    kind: AccessKind,
    lanes: Lanes,
    pointee: Type,
    shape: tuple[int, ...],
    values: Array | None,
) -> Access | None:
    """Tell listeners that memory is about to be touched; None when nobody listens.

    Which lanes are out of bounds is known here only when somebody listens before the access.
    """
    chunk = frame.chunk
    hear_before = chunk.hear_before[kind]
    if not hear_before and not chunk.hear_after[kind]:
        return None
    outside = None
    if hear_before and lanes.window(lanes.lattice()) is None and not lanes.all_inside:
        outside = outside_lanes(lanes.mask, lanes.locate()[1])
    access = Access(
        kind=kind,
        operation=operation,
        location=operation.location.kernel_frame,
        memory=lanes.memory,
        programs=chunk.programs,
        shape=shape,
        lanes=lanes.address,
        mask=lanes.mask,
        out_of_bounds=outside,
        item_bytes=item_bits(pointee) // 8,
        values=values,
        lattice=lanes.lattice(),
    )
    _tell(hear_before, access)
    return access


def end_access(frame: Frame, access: Access | None, lanes: Lanes, outside: Mask | None, values: Array) -> None:
    """Tell listeners that memory was touched."""
    if access is None or not frame.chunk.hear_after[access.kind]:
        return
    _tell(frame.chunk.hear_after[access.kind], replace(access, out_of_bounds=outside, values=values))


def _tell(methods: Sequence[Any], access: Access) -> None:
    for method in methods:
        method(access)
