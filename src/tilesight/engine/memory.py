"""Where lanes lie in memory: tensors by address, strided windows, bounds.

Nothing outside a launch's tensors is ever touched: lanes that point elsewhere are out of bounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tilesight.engine.launch import Memory
from tilesight.engine.values import UNKNOWN_ROOT, Array, LaneSum, Mask, Pointer, bounds_of, spread_integers, terms_of


@dataclass(frozen=True)
class Lattice:
    """Addresses as a byte offset from the tensor's first byte and a stride in bytes for each axis."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def crop(self, place: tuple[slice, ...]) -> Lattice:
        """The part at `place`; axes along which the addresses do not vary stay as they are."""
        offset, shape = self.offset, list(self.shape)
        for axis, part in enumerate(place):
            if shape[axis] > 1:
                start, stop, _ = part.indices(shape[axis])
                offset += start * self.strides[axis]
                shape[axis] = stop - start
        return Lattice(offset, tuple(shape), self.strides)


@dataclass(frozen=True, eq=False)
class Lanes:
    """The lanes of one access that belong to one tensor.

    Args:
        memory: the tensor; None when the addresses lie in none
        address: byte addresses, [P, *B] with extents 1 where they do not vary
        mask: the lanes that access, None when all do
        storage: unsigned type as wide as the element
    """

    memory: Memory | None
    address: Array | LaneSum
    mask: Mask | None
    storage: np.dtype[Any]

    def lattice(self) -> Lattice | None:
        """The addresses as one start and a constant stride an axis, or None when they are not that."""
        return self._lattice

    @cached_property
    def _lattice(self) -> Lattice | None:
        terms = terms_of(self.address)
        if self.memory is None or terms is None:
            return None
        offset = -self.memory.address
        shape, strides = [1] * self.address.ndim, [0] * self.address.ndim
        for axis, term in terms.items():
            line = term.reshape(-1)
            offset += int(line[0])
            stride = int(line[1]) - int(line[0]) if line.size > 1 else 0
            if line.size > 2 and not (line[1:] - line[:-1] == stride).all():
                return None
            shape[axis], strides[axis] = line.size, stride
        return Lattice(offset, tuple(shape), tuple(strides))

    def window(self, lattice: Lattice | None) -> Array | None:
        """The lanes as a strided view of the tensor, or None when some lie outside or are not aligned."""
        if self.memory is None or lattice is None:
            return None
        item = self.storage.itemsize
        offset, shape, strides = lattice.offset, lattice.shape, lattice.strides
        reach = [stride * (extent - 1) for stride, extent in zip(strides, shape, strict=True)]
        low = offset + sum(r for r in reach if r < 0)
        high = offset + sum(r for r in reach if r > 0) + item
        aligned = offset % item == 0 and all(stride % item == 0 for stride in strides)
        if low < 0 or high > len(self.memory.data) or not aligned:
            return None
        return np.ndarray(shape, self.storage, self.memory.data, offset, strides)

    def locate(self) -> tuple[Array, Mask]:
        """Element index of each lane, and which lanes lie inside the tensor at an element's boundary."""
        return self._located

    @cached_property
    def all_inside(self) -> bool:
        """Whether every lane, masked off or not, is known to lie inside the tensor, without a look at each."""
        if self.memory is None or self._index is None:
            return False
        low, high = bounds_of(self.address)
        return (
            low >= self.memory.address and high <= self.memory.address + len(self.memory.data) - self.storage.itemsize
        )

    @cached_property
    def _index(self) -> LaneSum | None:
        """The element index of each lane as a sum; None where the addresses are none or lie between elements."""
        terms = terms_of(self.address)
        if self.memory is None or terms is None:
            return None
        item, offset = self.storage.itemsize, -self.memory.address
        steps: dict[int, Array] = {}
        for axis, term in terms.items():
            first = int(term.reshape(-1)[0])
            offset += first
            steps[axis] = term - first
        if item > 1:
            if offset % item or any((step & (item - 1)).any() for step in steps.values()):
                return None
            steps = {axis: step >> (item.bit_length() - 1) for axis, step in steps.items()}
        first_axis = next(iter(steps))
        steps[first_axis] = steps[first_axis] + offset // item
        return LaneSum(np.dtype(np.int64), steps)

    @cached_property
    def _located(self) -> tuple[Array, Mask]:
        if self._index is not None and self.all_inside:
            return self._index.array, np.broadcast_to(np.True_, self._index.array.shape)
        address = spread_integers(self.address)
        if self.memory is None:
            return np.zeros_like(address), np.zeros(address.shape, np.bool_)
        item = self.storage.itemsize
        offset = address - self.memory.address
        index = offset if item == 1 else offset >> (item.bit_length() - 1)
        inside = (offset >= 0) & (offset <= len(self.memory.data) - item)
        if item > 1:
            inside &= (offset & (item - 1)) == 0
        return index, inside

    def elements(self) -> Array:
        """The tensor's bytes as elements of the storage type."""
        if self.memory is None:
            return np.zeros(1, self.storage)
        item = self.storage.itemsize
        return self.memory.data[: len(self.memory.data) // item * item].view(self.storage)


def split_by_tensor(
    pointer: Pointer, mask: Mask | None, memories: tuple[Memory, ...], storage: np.dtype[Any]
) -> Iterator[Lanes]:
    """The lanes of an access, one part for each tensor they point into; usually there is one."""
    if isinstance(pointer.root, int) and pointer.root != UNKNOWN_ROOT:
        yield Lanes(memories[pointer.root], pointer.address, mask, storage)
        return
    roots = _roots_by_address(pointer, memories)
    found = [int(root) for root in np.unique(roots)]
    if len(found) == 1:
        memory = memories[found[0]] if found[0] != UNKNOWN_ROOT else None
        yield Lanes(memory, pointer.address, mask, storage)
        return
    for root in found:
        part = roots == root
        part = part if mask is None else part & mask
        if part.any():
            yield Lanes(memories[root] if root != UNKNOWN_ROOT else None, pointer.address, part, storage)


def _roots_by_address(pointer: Pointer, memories: tuple[Memory, ...]) -> Array:
    """Each lane's tensor: the one its pointer derives from, otherwise the one that holds its address."""
    address = spread_integers(pointer.address)
    roots = np.broadcast_to(np.asarray(pointer.root), np.broadcast_shapes(address.shape, np.shape(pointer.root)))
    unknown = roots == UNKNOWN_ROOT
    if not unknown.any():
        return roots
    roots = roots.copy()
    for index, memory in enumerate(memories):
        held = (address >= memory.address) & (address < memory.address + len(memory.data))
        roots[unknown & held] = index
    return roots


def combine_masks(mask: Mask | None, active: Mask | None, rank: int) -> Mask | None:
    """The lanes that access: those of active programs that the mask lets through; None for all."""
    if active is not None:
        programs = active.reshape(-1, *(1,) * (rank - 1))
        mask = programs if mask is None else mask & programs
    return None if mask is None or mask.all() else mask


def is_injective(window: Array) -> bool:
    """Whether no two lanes of a strided view are the same element."""
    axes = sorted((abs(stride), extent) for stride, extent in zip(window.strides, window.shape, strict=True))
    reach = window.itemsize
    for stride, extent in axes:
        if extent == 1:
            continue
        if stride < reach:
            return False
        reach = stride * (extent - 1) + reach
    return True


def box_of(mask: Mask) -> tuple[slice, ...] | None:
    """The smallest box that holds every lane of a mask; None when it is the whole block or empty.

    A tile that is wider than its tensor leaves it, and its rows overlap, only in masked-off lanes.
    """
    box: list[slice] = []
    for axis, extent in enumerate(mask.shape):
        hit = np.flatnonzero(mask.any(axis=tuple(other for other in range(mask.ndim) if other != axis)))
        if len(hit) == 0:
            return None
        box.append(slice(None) if extent == 1 else slice(int(hit[0]), int(hit[-1]) + 1))
    is_whole = all(part in (slice(None), slice(0, extent)) for part, extent in zip(box, mask.shape, strict=True))
    return None if is_whole else tuple(box)
