"""Which elements of a tensor were touched: one flag an element, and unions over tensors that overlap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd

import numpy as np
from numpy.typing import NDArray

from tilesight.engine.launch import Memory

BLOCK_LANES = 16_384  # addresses compared or scattered at once: 128 KiB, which stays in a core's own cache


class TouchedElements:
    """The elements of one tensor that some accesses touched.

    While they form one run only its ends are kept; flags, one an element, come with the second run.
    Addresses are multiples of their item size, as GPUs require. An access narrower than the element
    counts the whole element, a wider one every element it covers.

    Args:
        memory: the tensor; only its extent and item size are kept
    """

    def __init__(self, memory: Memory) -> None:
        self.address = memory.address
        self.item_bytes = memory.item_bytes
        self.elements = -(-memory.data.nbytes // memory.item_bytes)
        self._run = (0, 0)
        self._flags: NDArray[np.bool_] | None = None

    @property
    def end(self) -> int:
        """First byte address after the tensor."""
        return self.address + self.elements * self.item_bytes

    def flags(self) -> NDArray[np.bool_]:
        """One flag an element; a view that `mark` writes to."""
        if self._flags is None:
            self._flags = np.zeros(self.elements, dtype=np.bool_)
            self._flags[slice(*self._run)] = True
        return self._flags

    def count_bytes(self) -> int:
        """Bytes of the elements that were touched."""
        first, end = self._run
        count = end - first if self._flags is None else int(np.count_nonzero(self._flags))
        return count * self.item_bytes

    def mark(self, addresses: NDArray[np.int64], access_bytes: int) -> None:
        """Marks what lanes of `access_bytes` each touch; `addresses` is flat and lies in the tensor."""
        if addresses.size == 0:
            return
        if is_ascending_run(addresses, access_bytes):
            first = (int(addresses[0]) - self.address) // self.item_bytes
            last_byte = int(addresses[-1]) + access_bytes - 1 - self.address
            self._mark_run(first, last_byte // self.item_bytes + 1)
        else:
            self._mark_scattered(addresses, -(-access_bytes // self.item_bytes))

    def _mark_run(self, first: int, end: int) -> None:
        known_first, known_end = self._run
        if self._flags is None and known_first == known_end:
            self._run = (first, end)
        elif self._flags is None and first <= known_end and known_first <= end:
            self._run = (min(first, known_first), max(end, known_end))
        else:
            self.flags()[first:end] = True

    def _mark_scattered(self, addresses: NDArray[np.int64], covered_elements: int) -> None:
        flags = self.flags()
        for start in range(0, addresses.size, BLOCK_LANES):
            elements = self._elements(addresses[start : start + BLOCK_LANES])
            for step in range(covered_elements):
                flags[elements + step if step else elements] = True

    def _elements(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        offsets = addresses - self.address
        if self.item_bytes & (self.item_bytes - 1):
            return offsets // self.item_bytes
        return np.right_shift(offsets, self.item_bytes.bit_length() - 1, out=offsets)


def is_ascending_run(addresses: NDArray[np.int64], step: int) -> bool:
    """Whether each address is the one before plus `step`.

    Compared in blocks that stay in cache: one pass over the addresses and no large temporary.
    """
    count, first = addresses.size, int(addresses[0])
    if int(addresses[-1]) - first != (count - 1) * step:
        return False
    expected = np.arange(first, first + min(count, BLOCK_LANES) * step, step, dtype=np.int64)
    for start in range(0, count, BLOCK_LANES):
        block = addresses[start : start + BLOCK_LANES]
        if not np.equal(block, expected[: block.size]).all():
            return False
        expected += BLOCK_LANES * step
    return True


def count_unique_bytes(parts: Iterable[TouchedElements]) -> int:
    """Bytes touched by any of `parts`; where tensors overlap in memory a byte counts once."""
    return sum(_count_group(group) for group in _overlapping_groups(parts))


def _overlapping_groups(parts: Iterable[TouchedElements]) -> list[list[TouchedElements]]:
    groups: list[list[TouchedElements]] = []
    end = 0
    for part in sorted(parts, key=lambda part: part.address):
        if groups and part.address < end:
            groups[-1].append(part)
        else:
            groups.append([part])
        end = max(end, part.end) if part.address < end else part.end
    return groups


def _count_group(group: Sequence[TouchedElements]) -> int:
    if len(group) == 1:
        return group[0].count_bytes()
    base = group[0].address
    granule_bytes = 0
    for part in group:
        granule_bytes = gcd(granule_bytes, part.item_bytes, part.address - base)
    flags = np.zeros((max(part.end for part in group) - base) // granule_bytes, dtype=np.bool_)
    for part in group:
        first = (part.address - base) // granule_bytes
        repeats = part.item_bytes // granule_bytes
        spread = np.repeat(part.flags(), repeats) if repeats > 1 else part.flags()
        flags[first : first + spread.size] |= spread
    return int(np.count_nonzero(flags)) * granule_bytes
