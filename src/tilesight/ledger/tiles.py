"""How a launch cuts a tensor into tiles: which elements each program's lanes name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilesight.engine.launch import Launch, Memory
from tilesight.engine.listener import Access, Listener

SHOWN_AT_EACH_END = 4


@dataclass(frozen=True)
class TilePicture:
    """How a launch cuts a flat tensor into tiles, for the picture.

    Args:
        tensor: the tensor drawn
        elements: its length
        program_ids: the programs drawn (all, or the first and the last few)
        first, last: lowest and highest element index that each drawn program's lanes name,
            masked-off lanes included; may lie outside the tensor
        tile_lanes: lanes of one tile
        tail_lanes_off: lanes of the last drawn tile that lie past the tensor's end
    """

    tensor: str
    elements: int
    program_ids: tuple[int, ...]
    first: tuple[int, ...]
    last: tuple[int, ...]
    tile_lanes: int
    tail_lanes_off: int


class TileListener(Listener):
    """Watches the first store of a launch and keeps each program's span of element indices.

    The span counts every lane, masked-off ones too: that is what shows the tail. A store that is
    executed again in a loop widens its program's span.
    """

    hears_in_any_order = True  # stores are heard in the order of chunks

    def __init__(self) -> None:
        self._location: tuple[str, int] | None = None
        self._memory: Memory | None = None
        self._programs = 0
        self._lanes = 0
        self._low: NDArray[np.int64] = np.empty(0, np.int64)
        self._high: NDArray[np.int64] = np.empty(0, np.int64)

    def launch_begins(self, launch: Launch) -> None:
        self._programs = launch.programs

    def after_access(self, access: Access) -> None:
        where = (access.location.file, access.location.line)
        if access.kind != "store" or access.memory is None or self._location not in (None, where):
            return
        if self._location is None:
            self._location, self._memory = where, access.memory
            self._lanes = int(np.prod(access.shape[1:], dtype=np.int64))
            self._low = np.full(self._programs, np.iinfo(np.int64).max)
            self._high = np.full(self._programs, np.iinfo(np.int64).min)
        axes = tuple(range(1, access.address.ndim))
        low = (access.address.min(axis=axes) - access.memory.pointer) // access.item_bytes
        high = (access.address.max(axis=axes) - access.memory.pointer) // access.item_bytes
        self._low[access.programs] = np.minimum(self._low[access.programs], low)
        self._high[access.programs] = np.maximum(self._high[access.programs], high)

    def picture(self) -> TilePicture | None:
        """The picture; None when the launch stored nothing or its tiles are not one run each."""
        memory = self._memory
        if memory is None or self._lanes == 0:
            return None
        wrote = self._high >= self._low
        is_one_run = bool(np.all(self._high[wrote] - self._low[wrote] + 1 == self._lanes))
        if not wrote.all() or not is_one_run:
            return None
        shown = _ends(self._programs)
        past_end = int(np.clip(self._high[shown[-1]] - memory.elements + 1, 0, self._lanes))
        return TilePicture(
            tensor=memory.tensor_name or memory.name,
            elements=memory.elements,
            program_ids=tuple(shown),
            first=tuple(int(self._low[p]) for p in shown),
            last=tuple(int(self._high[p]) for p in shown),
            tile_lanes=self._lanes,
            tail_lanes_off=past_end,
        )


def _ends(programs: int) -> list[int]:
    if programs <= 2 * SHOWN_AT_EACH_END:
        return list(range(programs))
    return [*range(SHOWN_AT_EACH_END), *range(programs - SHOWN_AT_EACH_END, programs)]
