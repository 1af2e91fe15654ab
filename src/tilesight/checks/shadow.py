"""Maps with one entry for each unit of memory, and the lanes of an access as places in them.

A region is the bytes of tensors that overlap; its unit is the smallest item among them, so that an
access of a wider item covers several units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilesight.engine.launch import Memory
from tilesight.engine.listener import Access
from tilesight.engine.memory import Lattice, box_of, is_injective

Map = NDArray[Any]


@dataclass(eq=False)
class ShadowRegion:
    """The maps of one region, made when first asked for.

    Args:
        memories: the tensors in it
        address: byte address of the first unit
        unit_bytes: bytes that one entry stands for
        units: entries of each map
    """

    memories: tuple[Memory, ...]
    address: int
    unit_bytes: int
    units: int
    maps: dict[str, Map] = field(default_factory=dict[str, Map])

    @classmethod
    def of(cls, memories: Sequence[Memory]) -> ShadowRegion:
        start = min(memory.address for memory in memories)
        stop = max(memory.address + len(memory.data) for memory in memories)
        flags = [memory.undefined for memory in memories if memory.undefined is not None]
        items = [memory.item_bytes for memory in memories] + [each.item_bytes for each in flags]
        unit = gcd(*items, *(memory.address - start for memory in memories), *(start - each.address for each in flags))
        return cls(tuple(memories), start, unit, (stop - start) // unit)

    def map(self, name: str, dtype: Any, fill: int) -> Map:
        """The map called `name`, filled with `fill` at first."""
        if name not in self.maps:
            made = np.zeros(self.units, dtype) if fill == 0 else np.full(self.units, fill, dtype)
            self.maps[name] = made
        return self.maps[name]

    def known(self, name: str) -> Map | None:
        """The map called `name`, or None when nobody has asked for it."""
        return self.maps.get(name)

    def view_of(self, memory: Memory, units: Map) -> Map:
        """The entries of a tensor's own elements, in the tensor's shape (with a last axis of units an element)."""
        width = memory.item_bytes // self.unit_bytes
        offset = (memory.pointer - self.address) // self.unit_bytes
        strides = [stride * memory.item_bytes // self.unit_bytes for stride in memory.strides]
        return as_view(units, offset, (*memory.shape, width), (*strides, 1))


def as_view(units: Map, offset: int, shape: Sequence[int], strides: Sequence[int]) -> Map:
    """A strided view of a map, offset and strides in entries."""
    if 0 in shape:
        return np.empty(tuple(shape), units.dtype)
    size = units.itemsize
    return np.ndarray(tuple(shape), units.dtype, units, offset * size, tuple(stride * size for stride in strides))


@dataclass(frozen=True, eq=False)
class WindowPlace:
    """Lanes that form a strided window of units.

    Args:
        offset, shape, strides: of the window, in units; shape is [P, *B, units an item]
        programs: [P, 1, …] linear ids
        active: the lanes that access, broadcastable to the shape; None when all do
    """

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    programs: NDArray[np.int64]
    active: NDArray[np.bool_] | None

    def view(self, units: Map) -> Map:
        """The window's entries of a map, writable."""
        return as_view(units, self.offset, self.shape, self.strides)

    def has_distinct_lanes(self, units: Map) -> bool:
        """Whether no two lanes are the same unit."""
        return is_injective(self.view(units))

    def is_unmarked(self, units: Map, empty: int) -> bool:
        """Whether every lane that accesses is a unit of its own, with an empty entry in the map."""
        return self.holds(self.view(units) == empty) and self.has_distinct_lanes(units)

    def holds(self, condition: Map) -> bool:
        """Whether a condition over the window is true in every lane that accesses."""
        return bool((condition if self.active is None else condition | ~self.active).all())

    def write(self, units: Map, values: Any) -> None:
        """Set the entries of the lanes that access."""
        view = self.view(units)
        if self.active is None:
            view[...] = values
        else:
            np.copyto(view, values, where=self.active, casting="same_kind")


@dataclass(frozen=True, eq=False)
class FlatPlace:
    """Lanes that access, one entry each (one a unit, where an item has several).

    Args:
        index: [N] the unit
        programs: [N] linear id
        rows: [N] position of the program in its chunk
        lanes: [N] flat index in the block
        block_lanes: lanes of the block
        values: [N] bits that are stored, or None
    """

    index: NDArray[np.int64]
    programs: NDArray[np.int64]
    rows: NDArray[np.int64]
    lanes: NDArray[np.int64]
    block_lanes: int
    values: Map | None


def window_of(access: Access, region: ShadowRegion) -> WindowPlace | None:
    """The lanes of an access as a window, or None when they form none inside their tensor."""
    memory, lattice = access.memory, access.lattice
    if memory is None or lattice is None or access.out_of_bounds is not None:
        return None
    mask = access.mask
    place = _fit(access, region, lattice, memory)
    if place is not None:
        return _window(access, region, place, memory, mask, access.programs)
    box = box_of(mask) if mask is not None else None
    if box is None or mask is None:
        return None
    place = _fit(access, region, lattice.crop(box), memory)
    if place is None:
        return None
    programs = access.programs[box[0]] if mask.shape[0] > 1 else access.programs
    return _window(access, region, place, memory, mask[box], programs)


def _fit(access: Access, region: ShadowRegion, lattice: Lattice, memory: Memory) -> Lattice | None:
    """The lattice, when it lies in the tensor and at units' boundaries."""
    reach = [stride * (extent - 1) for stride, extent in zip(lattice.strides, lattice.shape, strict=True)]
    low = lattice.offset + sum(each for each in reach if each < 0)
    high = lattice.offset + sum(each for each in reach if each > 0) + access.item_bytes
    unit = region.unit_bytes
    aligned = all(each % unit == 0 for each in (lattice.offset, access.item_bytes, *lattice.strides))
    return lattice if low >= 0 and high <= len(memory.data) and aligned else None


def _window(
    access: Access,
    region: ShadowRegion,
    lattice: Lattice,
    memory: Memory,
    mask: NDArray[np.bool_] | None,
    programs: NDArray[np.int64],
) -> WindowPlace:
    unit = region.unit_bytes
    width = access.item_bytes // unit
    shape = list(lattice.shape)
    if shape[0] == 1:
        shape[0] = len(programs)
    if mask is not None:
        shape = [max(pair) for pair in zip(shape, mask.shape, strict=True)]
    return WindowPlace(
        offset=(memory.address - region.address + lattice.offset) // unit,
        shape=(*shape, width),
        strides=(*(stride // unit for stride in lattice.strides), 1),
        programs=programs.reshape(-1, *(1,) * len(lattice.shape)),
        active=None if mask is None else mask[..., np.newaxis],
    )


def flat_of(access: Access, region: ShadowRegion) -> FlatPlace:
    """The lanes of an access one by one: those that are active and inside their tensor."""
    memory = access.memory
    assert memory is not None
    active = np.ones((1,) * len(access.shape), np.bool_) if access.mask is None else access.mask
    if access.out_of_bounds is not None:
        active = active & ~access.out_of_bounds
    chosen = np.flatnonzero(np.broadcast_to(active, access.shape))
    block_lanes = max(1, int(np.prod(access.shape[1:])))
    rows, lanes = chosen // block_lanes, chosen % block_lanes
    address = np.broadcast_to(access.address, access.shape).reshape(-1)[chosen]
    index = (address - region.address) // region.unit_bytes
    values = None
    if access.values is not None and access.kind != "load":
        bits = np.broadcast_to(access.values, access.shape).reshape(-1)[chosen]
        values = np.ascontiguousarray(bits).view(f"u{bits.dtype.itemsize}")
    width = access.item_bytes // region.unit_bytes
    programs = access.programs[rows]
    if width > 1:
        index = (index[:, np.newaxis] + np.arange(width)).reshape(-1)
        programs, rows, lanes = (np.repeat(each, width) for each in (programs, rows, lanes))
        values = None if values is None else np.repeat(values, width)
    return FlatPlace(index, programs, rows, lanes, block_lanes, values)


def collapses(access: Access) -> bool:
    """Whether lanes along an axis of the block all have one address."""
    lattice = access.lattice
    if lattice is None:
        return False
    return any(have == 1 < want for have, want in zip(lattice.shape[1:], access.shape[1:], strict=True))


def same_as_memory(memory: Memory, region: ShadowRegion, place: FlatPlace) -> NDArray[np.bool_] | None:
    """[N] which lanes store what memory holds already."""
    if place.values is None or not len(place.index):
        return None
    item = place.values.dtype.itemsize
    elements = memory.data[: len(memory.data) // item * item].view(place.values.dtype)
    offset = place.index * region.unit_bytes - (memory.address - region.address)
    return elements[offset // item] == place.values
