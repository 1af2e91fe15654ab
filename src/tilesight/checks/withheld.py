"""Which of several stores keeps back, by its mask, the elements that nobody has written."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.precision import WRITING
from tilesight.checks.replay import Replay
from tilesight.checks.shadow import as_view
from tilesight.engine.launch import Memory
from tilesight.engine.listener import Access, Listener
from tilesight.ir.module import Operation

MOST_PROGRAMS = 4096
"""Of a launch that is run again for this: they all have to be, as any of them may keep an element back."""


def withholding_store(
    replay: Replay, memory: Memory, stores: Sequence[Operation], missing: NDArray[np.int64]
) -> Operation:
    """The first store whose masked-off lanes are all of what is missing; the very first where there is none.

    Args:
        stores: to the tensor, in the order in which they ran
        missing: [N] elements of the tensor, in row-major order
    """
    if len(stores) < 2 or replay.launch.programs > MOST_PROGRAMS or not len(missing):
        return stores[0]
    items = np.arange(len(memory.data) // memory.item_bytes, dtype=np.int64)
    start = (memory.pointer - memory.address) // memory.item_bytes
    places = as_view(items, start, memory.shape, memory.strides).reshape(-1)[missing]
    withheld = _Withheld(memory, places)
    replay.run([withheld], output=io.StringIO())
    return next((store for store in stores if withheld.is_all(store)), stores[0])


@dataclass(eq=False)
class _Withheld(Listener):
    """The missing items of a tensor that each store's masked-off lanes point at.

    Args: places: [N] items from the tensor's lowest address on
    """

    hears_in_any_order = True
    hears_kinds = WRITING
    memory: Memory
    places: NDArray[np.int64]
    _seen: dict[Operation, NDArray[np.bool_]] = field(default_factory=dict[Operation, NDArray[np.bool_]])

    def after_access(self, access: Access) -> None:
        memory = access.memory
        if memory is None or memory.address != self.memory.address or access.mask is None:
            return
        seen = self._seen.setdefault(
            access.operation, np.zeros(len(self.memory.data) // self.memory.item_bytes, np.bool_)
        )
        items = np.broadcast_to((access.address - memory.address) // access.item_bytes, access.shape)
        items = items[~np.broadcast_to(access.mask, access.shape)]
        seen[items[(items >= 0) & (items < len(seen))]] = True

    def is_all(self, store: Operation) -> bool:
        seen = self._seen.get(store)
        return seen is not None and bool(seen[self.places].all())
