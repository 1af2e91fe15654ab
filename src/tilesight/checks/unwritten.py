"""Reads of elements that nothing has written."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.shadow import FlatPlace, ShadowRegion, WindowPlace, flat_of
from tilesight.engine.launch import Memory
from tilesight.engine.listener import Access
from tilesight.ir.module import Operation

NOBODY = -1
"""In a map of writers: no program."""


@dataclass
class Unwritten:
    """Elements read although nothing wrote them."""

    operation: Operation
    memory: Memory
    kind: str
    program: int
    lanes: tuple[int, int]
    element: int
    lane_count: int = 0
    programs: set[int] = field(default_factory=set[int])


@dataclass
class UnwrittenReads:
    """Collects reads, by operation and tensor, of what neither an earlier launch nor this one has written."""

    reads: dict[tuple[int, int], Unwritten] = field(default_factory=dict[tuple[int, int], Unwritten])

    def check(self, access: Access, memory: Memory, region: ShadowRegion, window: WindowPlace | None) -> None:
        flags = written_flags(region)
        if window is not None and window.holds(window.view(flags)):
            return
        writer = region.known("writer")
        place = flat_of(access, region)
        missing = ~flags[place.index]
        if writer is not None:
            missing &= writer[place.index] == NOBODY
        updater = region.known("updater")
        if updater is not None:
            missing &= updater[place.index] == NOBODY
        if not missing.any():
            return
        self._note(access, memory, region, place, missing)

    def _note(
        self, access: Access, memory: Memory, region: ShadowRegion, place: FlatPlace, missing: NDArray[np.bool_]
    ) -> None:
        key = (id(access.operation), id(memory))
        programs, lanes, index = place.programs[missing], place.lanes[missing], place.index[missing]
        if key not in self.reads or int(programs.min()) < self.reads[key].program:
            first = programs == programs.min()
            offset = (memory.pointer - region.address) // region.unit_bytes
            element = int(index[first][0] - offset) * region.unit_bytes // memory.item_bytes
            span = int(lanes[first].min()), int(lanes[first].max())
            known = self.reads.get(key)
            made = Unwritten(access.operation, memory, access.kind, int(programs.min()), span, element)
            if known is not None:
                made.lane_count, made.programs = known.lane_count, known.programs
            self.reads[key] = made
        self.reads[key].lane_count += len(programs) * region.unit_bytes // access.item_bytes
        self.reads[key].programs.update(np.unique(programs).tolist())


def written_flags(region: ShadowRegion) -> NDArray[np.bool_]:
    """[units] what was written before the launch."""
    known = region.known("flags")
    if known is not None:
        return known
    flags = region.map("flags", np.bool_, 0)
    flags[:] = True
    for each in region.memories:
        if each.undefined is not None:
            part = each.undefined.written_units(each.address, len(each.data), region.unit_bytes)
            start = (each.address - region.address) // region.unit_bytes
            flags[start : start + len(part)] &= part
    return flags
