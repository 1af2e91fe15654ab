"""Arguments that overlap in memory, and results that depend on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.clash import Clash
from tilesight.checks.clashes import VERBS, finding_of_clash, is_within
from tilesight.checks.differences import differ, difference_text
from tilesight.checks.finding import Finding
from tilesight.checks.footprint import Footprint
from tilesight.checks.place import line_of, name_of
from tilesight.checks.replay import Replay, overlap_groups, with_memories
from tilesight.checks.shadow import FlatPlace, ShadowRegion, WindowPlace, flat_of, window_of
from tilesight.engine import execute
from tilesight.engine.communication import UNKNOWN, pointer_sources, written_memories
from tilesight.engine.launch import Launch, Memory
from tilesight.engine.listener import Access, Listener
from tilesight.errors import TilesightError
from tilesight.ir.module import Module, Operation

NOTHING = -1
OWN_TENSOR = "write to a tensor of its own"


@dataclass(frozen=True, eq=False)
class _Crossing:
    """The first time that an access met what a store through another argument had left.

    Args:
        access: what was accessed later, through `memory`
        store: what had written there, through `source`
    """

    access: Access
    memory: Memory
    store: Operation
    source: Memory


class Crossings(Listener):
    """Accesses that meet in memory what was stored through another argument; free where none overlap."""

    hears_in_any_order = True

    def __init__(self, module: Module, launch: Launch) -> None:
        self._places: dict[int, tuple[ShadowRegion, int]] = {}
        self._operations: list[Operation] = []
        self._numbers: dict[Operation, int] = {}
        self.found: dict[tuple[Operation, int, int], _Crossing] = {}
        self.groups = _written_groups(module, launch)
        for group in self.groups:
            region = ShadowRegion.of(group)
            self._places.update({id(memory): (region, number) for number, memory in enumerate(group)})

    def before_access(self, access: Access) -> None:
        memory = access.memory
        if memory is None or id(memory) not in self._places:
            return
        region, number = self._places[id(memory)]
        through = region.map("through", np.int16, NOTHING)
        window = window_of(access, region)
        if window is None or not window.holds(_is_own(window.view(through), number)):
            self._look(access, memory, region, number)
        if access.kind != "load":
            self._mark(access, region, window, number)

    def _look(self, access: Access, memory: Memory, region: ShadowRegion, number: int) -> None:
        index = flat_of(access, region).index
        through = region.map("through", np.int16, NOTHING)[index]
        foreign = np.flatnonzero(~_is_own(through, number))
        if not len(foreign):
            return
        store = int(region.map("stored_by", np.int16, NOTHING)[index[foreign[0]]])
        source = region.memories[int(through[foreign[0]])]
        crossing = _Crossing(access, memory, self._operations[store], source)
        self.found.setdefault((access.operation, number, int(through[foreign[0]])), crossing)

    def _mark(self, access: Access, region: ShadowRegion, window: WindowPlace | None, number: int) -> None:
        if access.operation not in self._numbers:
            self._numbers[access.operation] = len(self._operations)
            self._operations.append(access.operation)
        place: WindowPlace | FlatPlace = window if window is not None else flat_of(access, region)
        for name, value in (("through", number), ("stored_by", self._numbers[access.operation])):
            units = region.map(name, np.int16, NOTHING)
            if isinstance(place, WindowPlace):
                place.write(units, value)
            else:
                units[place.index] = value


def _is_own(through: NDArray[np.int16], number: int) -> NDArray[np.bool_]:
    return (through == NOTHING) | (through == number)


def _written_groups(module: Module, launch: Launch) -> list[list[Memory]]:
    """Arguments that share bytes, at least one of which may be written."""
    written = {id(memory) for memory in written_memories(module, launch)}
    groups = overlap_groups(memory for memory in launch.memories if len(memory.data))
    return [group for group in groups if len(group) > 1 and any(id(memory) in written for memory in group)]


def clashes_across_arguments(footprint: Footprint, module: Module, launch: Launch) -> list[Clash]:
    """Clashes of accesses through different arguments, which would not meet if these did not overlap."""
    return [clash for clash in footprint.clashes.values() if not clash.is_benign and _partner(clash, module, launch)]


def _partner(clash: Clash, module: Module, launch: Launch) -> Memory | None:
    """The argument of the clash's first access, where that is known and not the second's."""
    sources = pointer_sources(module.kernel).get(clash.first.operands[0], frozenset({UNKNOWN}))
    if UNKNOWN in sources:
        return None
    memories = [launch.arguments[source].value for source in sorted(sources)]
    known = [memory for memory in memories if isinstance(memory, Memory)]
    return None if not known or any(memory is clash.memory for memory in known) else known[0]


def find_aliasing(replay: Replay, crossings: Crossings, clashes: Iterable[Clash]) -> list[Finding]:
    """Overlapping arguments on which the result depends, each pair at the lines that read what is overwritten.

    So it is where programs, or threads, meet through two arguments that nothing orders; and where an access
    meets what was stored through another argument and the launch gives other results once each of them has
    storage of its own.

    Args:
        crossings: heard during the launch
        clashes: those across arguments
    """
    module, launch = replay.module, replay.launch
    found: dict[tuple[object, ...], Finding] = {}
    pairs: set[frozenset[int]] = set()
    for clash in clashes:
        partner = _partner(clash, module, launch)
        assert partner is not None
        pairs.add(frozenset({id(partner), id(clash.memory)}))
        finding = _of_clash(clash, partner, launch)
        found.setdefault((finding.file, finding.line, finding.tensor), finding)
    rest = [each for each in crossings.found.values() if frozenset({id(each.memory), id(each.source)}) not in pairs]
    worst = _difference_from_apart(replay, crossings.groups) if rest else None
    if worst is not None:
        for crossing in _one_a_pair(rest):
            finding = _of_crossing(crossing, *worst, launch)
            found.setdefault((finding.file, finding.line, finding.tensor), finding)
    return list(found.values())


def _one_a_pair(crossings: Sequence[_Crossing]) -> Iterable[_Crossing]:
    """Of each pair of arguments the first read, or the first store where nothing is read."""
    chosen: dict[frozenset[int], _Crossing] = {}
    for crossing in sorted(crossings, key=lambda each: each.access.kind == "store"):
        chosen.setdefault(frozenset({id(crossing.memory), id(crossing.source)}), crossing)
    return chosen.values()


class Writes(Listener):
    """Which units of each tensor a run writes."""

    hears_in_any_order = True

    def __init__(self, memories: Iterable[Memory]) -> None:
        self._regions = {id(memory): ShadowRegion.of([memory]) for memory in memories}

    def before_access(self, access: Access) -> None:
        region = self._regions.get(id(access.memory))
        if region is not None and access.kind != "load":
            region.map("written", np.bool_, 0)[flat_of(access, region).index] = True

    def bytes_of(self, memory: Memory) -> NDArray[np.bool_]:
        """[bytes] of the tensor that were written."""
        region = self._regions[id(memory)]
        return np.repeat(region.map("written", np.bool_, 0), region.unit_bytes)


def _difference_from_apart(replay: Replay, groups: Sequence[Sequence[Memory]]) -> tuple[Memory, str] | None:
    """The tensor that the launch leaves otherwise once overlapping arguments lie apart, and how; None for none."""
    launch = replay.launch
    together = {id(memory) for group in groups for memory in group}
    fresh = replay.fresh()
    moved = [id(memory) in together for memory in launch.memories]
    before = {id(memory): each.data for memory, each in zip(launch.memories, fresh.memories, strict=True)}
    overlapping = {id(each) for each, is_moved in zip(fresh.memories, moved, strict=True) if is_moved}
    apart = with_memories(fresh, lambda each: replace(each, data=each.data.copy()) if id(each) in overlapping else each)
    pairs = list(zip(launch.memories, apart.memories, strict=True))
    writes = Writes(each for memory, each in pairs if id(memory) in together)
    try:
        execute(replay.module, apart, (writes,), replay.options)
    except TilesightError:
        return None
    for memory, each in pairs:
        expected = each
        if id(memory) in together:
            written = {id(m): (m, writes.bytes_of(a)) for m, a in pairs if id(m) in together}
            expected = _expected(memory, each, before[id(memory)], written)
        if differ(memory, expected):
            return memory, difference_text(memory, expected)
    return None


def _expected(
    memory: Memory,
    apart: Memory,
    before: NDArray[np.uint8],
    written: dict[int, tuple[Memory, NDArray[np.bool_]]],
) -> Memory:
    """A tensor as it would be: its own writes, nothing new where nothing writes, and others' as they are."""
    own = written[id(memory)][1]
    size = len(memory.data)
    by_others = np.zeros(size, np.bool_)
    for other, flags in written.values():
        start, stop = max(other.address, memory.address), min(other.address + len(flags), memory.address + size)
        if other is not memory and start < stop:
            part = flags[start - other.address : stop - other.address]
            by_others[start - memory.address : stop - memory.address] |= part
    left = np.where(by_others, memory.data, before)
    return replace(memory, data=np.where(own[:size], apart.data, left))


def _of_clash(clash: Clash, partner: Memory, launch: Launch) -> Finding:
    reads_first = clash.first_kind == "load" or (clash.second_kind == "store" and clash.first_kind != "store")
    operation = clash.first if reads_first else clash.second
    tensor = name_of(clash.memory)
    first, second = (line_of(each, launch)[1] for each in (clash.first, clash.second))
    who, other = f"program {clash.programs[0]}", f"program {clash.programs[1]}"
    if is_within(clash):
        who, other = f"one thread of {who}", "another"
    elif clash.programs[0] < 0:
        who = "another program"
    message = (
        f"{_both(partner, clash.memory)} overlap, and the result depends on it: {who} "
        f"{VERBS[clash.first_kind]} element {clash.element} of {tensor} in line {first}, {other} "
        f"{VERBS[clash.second_kind]} it in line {second}, and nothing orders the two"
    )
    return finding_of_clash(clash, "alias", line_of(operation, launch), message, _repair(launch))


def _of_crossing(crossing: _Crossing, tensor: Memory, difference: str, launch: Launch) -> Finding:
    access = crossing.access
    place = line_of(access.operation, launch)
    verb = VERBS[access.kind]
    stored = line_of(crossing.store, launch)[1]
    return Finding.of_line(
        "alias",
        place,
        f"{_both(crossing.source, crossing.memory)} overlap, and the result depends on it: line {place[1]} {verb} "
        f"what line {stored} has written through {crossing.source.name}; in {name_of(tensor)} {difference} from what "
        "the launch gives when they are apart",
        _repair(launch),
        tensor=name_of(crossing.memory),
    )


def _repair(launch: Launch) -> str:
    """Only a program that is alone can help itself by its order of loads and stores."""
    return OWN_TENSOR if launch.programs > 1 else f"{OWN_TENSOR}, or load all of the input before the first store"


def _both(one: Memory, other: Memory) -> str:
    if name_of(one) == name_of(other):
        return f"{one.name} and {other.name}, both {name_of(one)},"
    return f"{name_of(one)} and {name_of(other)}"
