"""Who wrote and who read each element of a launch: races, unread stores, reads of what nobody wrote."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.clash import BARRIERS, Clash, Overwrite
from tilesight.checks.clocks import Clocks, synchronises
from tilesight.checks.finding import SHOWN_PROGRAMS
from tilesight.checks.replay import overlap_groups
from tilesight.checks.shadow import FlatPlace, ShadowRegion, WindowPlace, collapses, flat_of, same_as_memory, window_of
from tilesight.checks.unwritten import NOBODY, Unwritten, UnwrittenReads
from tilesight.engine.communication import loaded_memories, written_memories
from tilesight.engine.launch import Launch, Memory
from tilesight.engine.listener import Access, Executed, Listener
from tilesight.ir.module import Module, Operation

SEVERAL = -2
KINDS = ("load", "store", "atomic")


class Footprint(Listener):
    """Keeps for each unit of memory that the kernel may write the last writer and the readers.

    Programs are ordered by atomics whose results are read (see `clocks`) and by nothing else. Threads of
    one program are ordered by what makes them wait for each other; lanes of the same number in blocks of
    the same size are taken to be one thread.
    """

    hears_in_any_order = True

    def __init__(self, module: Module, launch: Launch) -> None:
        written = {id(memory) for memory in written_memories(module, launch)}
        loaded = {id(memory) for memory in loaded_memories(module, launch)}
        self.regions: dict[int, ShadowRegion] = {}
        self._is_loaded: dict[int, bool] = {}
        for group in overlap_groups(memory for memory in launch.memories if len(memory.data)):
            if any(id(memory) in written or memory.undefined is not None for memory in group):
                region = ShadowRegion.of(group)
                is_loaded = any(id(memory) in loaded for memory in group)
                is_written = any(id(memory) in written for memory in group)
                for memory in group:
                    self.regions[id(memory)] = region
                    self._is_loaded[id(memory)] = is_loaded and is_written
        self._operations: list[Operation] = []
        self._numbers: dict[Operation, int] = {}
        self._clocks = Clocks(launch.programs) if synchronises(module) else None
        self._phases = np.zeros(launch.programs, np.int32)
        warps = launch.options.get("num_warps", 4)
        self._has_threads = warps != 1 and any(self._is_loaded.values())
        self._wrote = np.zeros(launch.programs, np.bool_)
        self.clashes: dict[tuple[int, ...], Clash] = {}
        self.overwrites: dict[tuple[int, int], Overwrite] = {}
        self._unwritten = UnwrittenReads()
        self.stored_lanes: dict[int, int] = {}
        self.stores: dict[int, list[Operation]] = {}

    @property
    def unwritten(self) -> dict[tuple[int, int], Unwritten]:
        """Reads of what nothing has written, by operation and tensor."""
        return self._unwritten.reads

    @property
    def active_programs(self) -> NDArray[np.bool_]:
        """[programs] which of them stored or updated anything."""
        return self._wrote

    def watched(self, module: Module) -> Collection[Operation]:
        if not self._has_threads:
            return ()
        return [operation for operation in module.walk() if operation.name in BARRIERS]

    def after_step(self, executed: Executed) -> None:
        programs = executed.programs if executed.active is None else executed.programs[executed.active]
        self._phases[programs] += 1

    def before_access(self, access: Access) -> None:
        if access.kind != "load":
            self._note_writers(access)
        memory = access.memory
        region = self.regions.get(id(memory)) if memory is not None else None
        if memory is None or region is None:
            return
        if access.kind == "load":
            self._load(access, memory, region)
        elif access.kind == "store":
            self._store(access, memory, region)
        else:
            self._update(access, memory, region)

    def _note_writers(self, access: Access) -> None:
        mask = access.mask
        if mask is None:
            self._wrote[access.programs] = True
        elif mask.shape[0] == 1:
            if mask.any():
                self._wrote[access.programs] = True
        else:
            self._wrote[access.programs[mask.reshape(len(mask), -1).any(axis=1)]] = True

    def _number(self, operation: Operation) -> int:
        if operation not in self._numbers:
            self._numbers[operation] = len(self._operations)
            self._operations.append(operation)
        return self._numbers[operation]

    def _load(self, access: Access, memory: Memory, region: ShadowRegion) -> None:
        window = window_of(access, region)
        if memory.undefined is not None:
            self._unwritten.check(access, memory, region, window)
        if not self._is_loaded[id(memory)]:
            return
        writer = region.map("writer", np.int32, NOBODY)
        reader = region.map("reader", np.int32, NOBODY)
        if window is not None and not self._has_threads and self._clocks is None:
            seen, before = window.view(writer), window.view(reader)
            own = window.holds((seen == NOBODY) | (seen == window.programs))
            fresh = window.holds((before == NOBODY) | (before == window.programs))
            if own and fresh and window.has_distinct_lanes(reader):
                window.write(reader, window.programs.astype(np.int32))
                window.write(region.map("reader_op", np.int16, -1), self._number(access.operation))
                self._mark_read(region, window)
                return
        self._load_flat(access, memory, region, flat_of(access, region))

    def _load_flat(self, access: Access, memory: Memory, region: ShadowRegion, place: FlatPlace) -> None:
        index, programs = place.index, place.programs
        writer = region.map("writer", np.int32, NOBODY)
        number = self._number(access.operation)
        if self._clocks is not None and access.operation.attributes.get("isVolatile"):
            self._clocks.synchronise(access.operation, region, place)
        others = (writer[index] >= 0) & (writer[index] != programs)
        others &= self._unordered(region, "writer", index, writer[index], programs)
        self._clash(region, memory, place, others, "writer", number, ("store", access.kind), None)
        updater = region.known("updater")
        if updater is not None and not access.operation.attributes.get("isVolatile"):
            found = updater[index]
            several = (found == SEVERAL) if self._clocks is None else np.zeros(len(found), np.bool_)
            updated = several | ((found >= 0) & (found != programs))
            updated &= self._unordered(region, "updater", index, found, programs)
            self._clash(region, memory, place, updated, "updater", number, ("atomic", access.kind), None)
        if self._has_threads:
            threads = self._other_thread(region, "writer", index, place)
            self._clash(region, memory, place, threads, "writer", number, ("store", access.kind), None)
        self._note(region, "reader", place, number)
        region.map("unread", np.bool_, 0)[index] = False

    def _mark_read(self, region: ShadowRegion, window: WindowPlace) -> None:
        unread = region.known("unread")
        if unread is not None:
            window.write(unread, False)

    def _store(self, access: Access, memory: Memory, region: ShadowRegion) -> None:
        number = self._number(access.operation)
        known = self.stores.setdefault(id(region), [])
        if access.operation not in known:
            known.append(access.operation)
        window = None if collapses(access) else window_of(access, region)
        writer = region.map("writer", np.int32, NOBODY)
        self._count_stored(access, number)
        if window is not None and self._is_plain(region) and window.is_unmarked(writer, NOBODY):
            window.write(writer, window.programs.astype(np.int32))
            window.write(region.map("writer_op", np.int16, -1), number)
            return
        self._store_flat(access, memory, region, flat_of(access, region), number)

    def _is_plain(self, region: ShadowRegion) -> bool:
        """Whether nothing but stores has touched the region, and nothing but the writer is to be noted."""
        touched = region.known("reader") is not None or region.known("updater") is not None
        return not touched and self._clocks is None and not (self._has_threads and self._region_is_loaded(region))

    def _region_is_loaded(self, region: ShadowRegion) -> bool:
        return any(self._is_loaded[id(memory)] for memory in region.memories)

    def _count_stored(self, access: Access, number: int) -> None:
        lanes = int(np.prod(access.shape))
        active = lanes if access.mask is None else np.count_nonzero(access.mask) * (lanes // max(1, access.mask.size))
        self.stored_lanes[number] = self.stored_lanes.get(number, 0) + int(active)

    def _store_flat(self, access: Access, memory: Memory, region: ShadowRegion, place: FlatPlace, number: int) -> None:
        index, programs = place.index, place.programs
        writer = region.map("writer", np.int32, NOBODY)
        before = writer[index]
        same_bits = same_as_memory(memory, region, place)
        others = (before >= 0) & (before != programs)
        others &= self._unordered(region, "writer", index, before, programs)
        self._clash(region, memory, place, others, "writer", number, ("store", "store"), same_bits)
        self._clash_with_readers(region, memory, place, number)
        updater = region.known("updater")
        if updater is not None:
            found = updater[index]
            updated = (found == SEVERAL) | ((found >= 0) & (found != programs))
            if self._clocks is not None:
                updated &= found >= 0
            updated &= self._unordered(region, "updater", index, found, programs)
            self._clash(region, memory, place, updated, "updater", number, ("atomic", "store"), None)
        self._note_overwrites(region, memory, place, before, number)
        self._clash_within(region, memory, place, number)
        self._note(region, "writer", place, number)
        region.map("unread", np.bool_, 0)[index] = True

    def _clash_with_readers(self, region: ShadowRegion, memory: Memory, place: FlatPlace, number: int) -> None:
        reader = region.known("reader")
        if reader is None:
            return
        found = reader[place.index]
        others = (found >= 0) & (found != place.programs)
        others &= self._unordered(region, "reader", place.index, found, place.programs)
        if self._clocks is None:
            others |= found == SEVERAL
        self._clash(region, memory, place, others, "reader", number, ("load", "store"), None)
        if self._has_threads:
            threads = self._other_thread(region, "reader", place.index, place)
            self._clash(region, memory, place, threads, "reader", number, ("load", "store"), None)

    def _clash_within(self, region: ShadowRegion, memory: Memory, place: FlatPlace, number: int) -> None:
        """Lanes of this very store that meet: of other programs in the chunk, or of one."""
        position = np.arange(len(place.index))
        last = region.map("lane", np.int64, NOBODY)
        last[place.index] = position
        winner = last[place.index]
        meets = winner != position
        if not meets.any():
            return
        values = place.values
        same = None if values is None else values == values[winner]
        self._report(
            region,
            memory,
            place,
            meets,
            (number, number, 0, 2),
            place.programs[winner],
            ("store", "store"),
            same,
        )

    def _note_overwrites(
        self, region: ShadowRegion, memory: Memory, place: FlatPlace, before: NDArray[Any], number: int
    ) -> None:
        unread = region.known("unread")
        mine = before == place.programs
        if unread is not None:
            mine &= unread[place.index]
        elif region.known("writer_op") is None:
            return
        if not mine.any():
            return
        numbers = region.map("writer_op", np.int16, -1)[place.index]
        for first in np.unique(numbers[mine]):
            chosen = mine & (numbers == first)
            program = int(place.programs[chosen][0])
            key = (int(first), number)
            made = Overwrite(self._operations[int(first)], self._operations[number], memory, program)
            width = max(1, memory.item_bytes // region.unit_bytes)
            self.overwrites.setdefault(key, made).units += int(np.count_nonzero(chosen)) // width

    def _update(self, access: Access, memory: Memory, region: ShadowRegion) -> None:
        number = self._number(access.operation)
        place = flat_of(access, region)
        if memory.undefined is not None:
            self._unwritten.check(access, memory, region, None)
        if self._clocks is not None:
            self._clocks.synchronise(access.operation, region, place)
        index, programs = place.index, place.programs
        for name, kind in (("writer", "store"), ("reader", "load")):
            known = region.known(name)
            if known is None:
                continue
            found = known[index]
            others = (found >= 0) & (found != programs)
            others &= self._unordered(region, name, index, found, programs)
            if name == "reader" and self._clocks is None:
                others |= found == SEVERAL
            if name == "reader":
                others &= ~self._was_volatile(region, index)
            self._clash(region, memory, place, others, name, number, (kind, "atomic"), None)
        self._note(region, "updater", place, number)
        region.map("unread", np.bool_, 0)[index] = False

    def _was_volatile(self, region: ShadowRegion, index: NDArray[np.int64]) -> NDArray[np.bool_]:
        numbers = region.map("reader_op", np.int16, -1)[index]
        volatile = np.array([bool(op.attributes.get("isVolatile")) for op in self._operations] or [False])
        return volatile[np.maximum(numbers, 0)] & (numbers >= 0)

    def _note(self, region: ShadowRegion, name: str, place: FlatPlace, number: int) -> None:
        """Enter the lanes' programs into the map of writers, readers or updaters."""
        index, programs = place.index, place.programs
        known = region.map(name, np.int32, NOBODY)
        before = known[index]
        known[index] = programs
        if name != "writer" and self._clocks is None:
            shared = ((before >= 0) & (before != programs)) | (before == SEVERAL) | (known[index] != programs)
            known[index[shared]] = SEVERAL
        numbers = region.map(f"{name}_op", np.int16, -1)
        if name == "reader":
            self._keep_other_reader(region, index, before, programs)
        numbers[index] = number
        if self._clocks is not None:
            region.map(f"{name}_epoch", np.int32, 0)[index] = self._clocks.epoch(programs)
        if self._has_threads:
            region.map(f"{name}_lane", np.int32, -1)[index] = place.lanes
            region.map(f"{name}_block", np.int32, -1)[index] = place.block_lanes
            region.map(f"{name}_phase", np.int32, -1)[index] = self._phases[programs]

    def _keep_other_reader(
        self, region: ShadowRegion, index: NDArray[Any], before: NDArray[Any], programs: NDArray[Any]
    ) -> None:
        """Of a unit that several programs read, remember another reader than the last one."""
        last = region.map("reader_last", np.int32, NOBODY)
        previous = np.where(before == SEVERAL, last[index], before)
        others = index[(previous >= 0) & (previous != programs)]
        region.map("reader_other_op", np.int16, -1)[others] = region.map("reader_op", np.int16, -1)[others]
        last[index] = programs

    def _unordered(
        self, region: ShadowRegion, name: str, index: NDArray[Any], found: NDArray[Any], programs: NDArray[Any]
    ) -> NDArray[np.bool_]:
        """[N] whether nothing orders the access that was noted before this one."""
        if self._clocks is None:
            return np.ones(len(index), np.bool_)
        epochs = region.map(f"{name}_epoch", np.int32, 0)[index]
        return ~self._clocks.is_ordered(np.maximum(found, 0), epochs, programs)

    def _other_thread(
        self, region: ShadowRegion, name: str, index: NDArray[Any], place: FlatPlace
    ) -> NDArray[np.bool_]:
        """[N] whether the same program touched the unit from another lane since its threads last met."""
        known = region.known(name)
        if known is None:
            return np.zeros(len(index), np.bool_)
        lane = region.map(f"{name}_lane", np.int32, -1)[index]
        block = region.map(f"{name}_block", np.int32, -1)[index]
        phase = region.map(f"{name}_phase", np.int32, -1)[index]
        elsewhere = (lane != place.lanes) | (block != place.block_lanes)
        if name == "writer":
            elsewhere |= block == 1  # one thread stores a scalar, all of them load it
        return (known[index] == place.programs) & (phase == self._phases[place.programs]) & elsewhere

    def _clash(
        self,
        region: ShadowRegion,
        memory: Memory,
        place: FlatPlace,
        meets: NDArray[np.bool_],
        name: str,
        number: int,
        kinds: tuple[str, str],
        same: NDArray[np.bool_] | None,
    ) -> None:
        if not meets.any():
            return
        firsts = region.map(f"{name}_op", np.int16, -1)[place.index]
        partners = region.map(name, np.int32, NOBODY)[place.index]
        codes = tuple(KINDS.index(kind) for kind in kinds)
        if name == "reader":
            last = region.map("reader_last", np.int32, NOBODY)[place.index]
            others = region.map("reader_other_op", np.int16, -1)[place.index]
            firsts = np.where((partners == SEVERAL) & (last == place.programs) & (others >= 0), others, firsts)
        for first in np.unique(firsts[meets]):
            chosen = meets & (firsts == first)
            self._report(region, memory, place, chosen, (int(first), number, *codes), partners, kinds, same)

    def _report(
        self,
        region: ShadowRegion,
        memory: Memory,
        place: FlatPlace,
        meets: NDArray[np.bool_],
        key: tuple[int, ...],
        partners: NDArray[Any],
        kinds: tuple[str, str],
        same: NDArray[np.bool_] | None,
    ) -> None:
        at = int(np.flatnonzero(meets if same is None or same[meets].all() else meets & ~same)[0])
        offset = (memory.pointer - region.address) // region.unit_bytes
        partner, program = int(partners[at]), int(place.programs[at])
        key = (*key, int(partner == program))
        known = self.clashes.get(key)
        if known is None:
            known = self.clashes[key] = Clash(
                first=self._operations[key[0]],
                second=self._operations[key[1]],
                first_kind=kinds[0],
                second_kind=kinds[1],
                memory=memory,
                programs=(partner, program),
                lane=int(place.lanes[at]),
                element=(int(place.index[at]) - offset) * region.unit_bytes // memory.item_bytes,
                is_benign=True,
            )
        is_benign = same is not None and bool(same[meets].all())
        known.is_benign = known.is_benign and is_benign
        known.units += int(np.count_nonzero(meets))
        known.seen_programs.update(np.unique(place.programs[meets])[:SHOWN_PROGRAMS].tolist())
