"""A launch as it was before it ran, to run again: on copies, for some programs, in another order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilesight.engine import Argument, ExecutionOptions, Launch, Listener, Memory, execute
from tilesight.engine.communication import programs_wait, written_memories
from tilesight.ir.module import Module

MOST_PROGRAMS = 8


@dataclass(frozen=True, eq=False)
class Region:
    """Bytes from an address on, as they were before a launch; memories that overlap lie in one region."""

    address: int
    data: NDArray[np.uint8]

    def holds(self, memory: Memory) -> bool:
        return self.address <= memory.address < self.address + max(1, len(self.data))


@dataclass(frozen=True, eq=False)
class Replay:
    """A launch with what its tensors held before it.

    Args:
        module: the kernel's
        launch: as it is handed to the engine; its memories are the caller's own
        before: what the kernel may write, as it was
        options: of the launch
    """

    module: Module
    launch: Launch
    before: tuple[Region, ...]
    options: ExecutionOptions

    @classmethod
    def of(cls, module: Module, launch: Launch, options: ExecutionOptions) -> Replay:
        """Keep a copy of what the launch, which has not run yet, may write."""
        written = {id(memory) for memory in written_memories(module, launch)}
        groups = overlap_groups(launch.memories)
        kept = (_copy_of(group) for group in groups if any(id(memory) in written for memory in group))
        return cls(module, launch, tuple(kept), options)

    def few_programs(self) -> tuple[int, ...] | None:
        """Programs that stand for all when a launch runs again; None, all of them, where they wait for each other."""
        return None if programs_wait(self.module) else spread_programs(self.launch)

    def fresh(self) -> Launch:
        """The launch on copies of what it writes, as they were before; what it only reads is shared."""
        regions = [Region(region.address, region.data.copy()) for region in self.before]
        return with_memories(self.launch, partial(_in_region, regions=regions))

    def run(self, listeners: Sequence[Listener] = (), module: Module | None = None, **changes: Any) -> Launch:
        """Run it anew on copies; the launch whose memories hold what it wrote.

        Args:
            module: another module of the same parameters; None for the kernel's own
            changes: other fields of `ExecutionOptions`, such as `programs` or `backwards`
        Raises:  TilesightError: as `engine.execute`
        """
        launch = self.fresh()
        execute(module or self.module, launch, listeners, replace(self.options, **changes))
        return launch


def spread_programs(launch: Launch, most: int = MOST_PROGRAMS) -> tuple[int, ...]:
    """A few programs from the first to the last, at equal distances; for a single one that in the middle."""
    count = min(most, launch.programs)
    if count == 1:
        return (launch.programs // 2,)
    return tuple(sorted({round(place * (launch.programs - 1) / max(1, count - 1)) for place in range(count)}))


def with_memories(launch: Launch, change: Callable[[Memory], Memory]) -> Launch:
    """The launch with each of its memories replaced by `change(memory)`."""
    arguments = tuple(
        Argument(each.name, change(each.value)) if isinstance(each.value, Memory) else each for each in launch.arguments
    )
    return replace(launch, arguments=arguments, reachable=tuple(change(memory) for memory in launch.reachable))


def overlap_groups(memories: Iterable[Memory]) -> list[list[Memory]]:
    """Memories in groups that share bytes, directly or through others; empty ones each alone."""
    groups: list[list[Memory]] = []
    end = -1
    for memory in sorted(memories, key=lambda each: (each.address, -len(each.data))):
        if groups and len(memory.data) and memory.address < end:
            groups[-1].append(memory)
        else:
            groups.append([memory])
        end = max(end, memory.address + len(memory.data))
    return groups


def _copy_of(group: Sequence[Memory]) -> Region:
    start = min(memory.address for memory in group)
    stop = max(memory.address + len(memory.data) for memory in group)
    data = np.empty(stop - start, np.uint8)
    for memory in group:
        offset = memory.address - start
        data[offset : offset + len(memory.data)] = memory.data
    return Region(start, data)


def _in_region(memory: Memory, regions: Sequence[Region]) -> Memory:
    for region in regions:
        if region.holds(memory):
            offset = memory.address - region.address
            return replace(memory, data=region.data[offset : offset + len(memory.data)])
    return memory
