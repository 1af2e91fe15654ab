"""Views whose elements do not lie side by side: what lies between belongs to others."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.shadow import ShadowRegion, flat_of, window_of
from tilesight.engine.launch import Memory
from tilesight.engine.listener import Access


@dataclass(frozen=True, eq=False)
class Gaps:
    """Which elements between a view's first and last are its own.

    Args:
        region: the view alone
        own: [elements of the span] True for the view's elements
    """

    region: ShadowRegion
    own: NDArray[np.bool_]

    @classmethod
    def of(cls, memory: Memory) -> Gaps | None:
        """The gaps of a tensor; None when it has none, as every contiguous or transposed tensor."""
        extents = zip(memory.shape, memory.strides, strict=True)
        distinct = prod(size for size, stride in extents if stride != 0)
        span = len(memory.data) // max(1, memory.item_bytes)
        lowest = sum(min(0, stride * (size - 1)) for size, stride in zip(memory.shape, memory.strides, strict=True))
        if not distinct or span <= distinct or memory.pointer + lowest * memory.item_bytes != memory.address:
            return None
        region = ShadowRegion((memory,), memory.address, memory.item_bytes, span)
        own = np.zeros(span, np.bool_)
        region.view_of(memory, own)[...] = True
        return None if own.all() else cls(region, own)

    def lanes_between(self, access: Access) -> NDArray[np.bool_] | None:
        """[P, *B] lanes inside the span that touch no element of the view; None when there are none."""
        if access.item_bytes != self.region.unit_bytes:
            return None
        window = window_of(access, self.region)
        if window is not None and window.holds(window.view(self.own)):
            return None
        place = flat_of(access, self.region)
        strays = ~self.own[place.index]
        if not strays.any():
            return None
        lanes = np.zeros((access.shape[0], place.block_lanes), np.bool_)
        lanes[place.rows[strays], place.lanes[strays]] = True
        return lanes.reshape(access.shape)
