"""When a chunk's writes reach memory: at once, or when the chunk ends.

Float atomics whose result nobody reads are added up when their chunk ends, program after program:
the sum then rounds as if the programs had run one by one, whatever the size of the chunk.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tilesight.engine.launch import Memory
from tilesight.engine.values import Array


@dataclass(frozen=True, eq=False)
class Update:
    """Atomics of several lanes on one tensor, in the order of programs.

    Args:
        elements: the tensor's elements, written in place
        where: [N] int64, the element of each lane
        operand: [N], what is combined with it
        programs: [N] int64, each lane's place in the chunk
        kind: the IR's word for the update
        apply: called with (elements, where, operand)
    """

    memory: Memory
    elements: Array
    where: Array
    operand: Array
    programs: Array
    kind: str
    apply: Callable[[Array, Array, Array], Any]

    @property
    def held_bytes(self) -> int:
        return self.where.nbytes + self.operand.nbytes + self.programs.nbytes


@dataclass
class Writes:
    """The writes of one chunk.

    Args:
        holds_updates: order-dependent updates wait for `finish`
        holds_stores: so do stores and all other updates (chunks that run at the same time)
        most_held_bytes: updates are made early when they take more
        changed: a store or an atomic has changed memory since this was last set to False
    """

    holds_updates: bool = True
    holds_stores: bool = False
    most_held_bytes: int = 1 << 28
    changed: bool = False
    _stores: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    _updates: list[Update] = field(default_factory=list[Update])
    _held_bytes: int = 0

    def store(self, memory: Memory | None, write: Callable[[], None]) -> None:
        """Make a store, now or at the end."""
        self.changed = True
        if self.holds_stores:
            self._stores.append(write)
            return
        self.settle(memory)
        write()

    def update(self, update: Update, *, is_ordered: bool) -> None:
        """Make updates whose results nobody reads, now or at the end."""
        self.changed = True
        if not (self.holds_stores or (is_ordered and self.holds_updates)):
            self.settle(update.memory)
            update.apply(update.elements, update.where, update.operand)
            return
        if any(update.kind != other.kind for other in self._updates):
            self._make_updates()
        self._updates.append(update)
        self._held_bytes += update.held_bytes
        if self._held_bytes > self.most_held_bytes and not self.holds_stores:
            self._make_updates()

    def settle(self, memory: Memory | None) -> None:
        """Make the updates that wait for a tensor which is about to be touched; one that is not known may be any."""
        if self._updates and any(memory is None or memory.overlaps(update.memory) for update in self._updates):
            self._make_updates()

    def finish(self) -> None:
        """Make everything that waits: stores in their order, then updates program by program."""
        for write in self._stores:
            write()
        self._stores = []
        self._make_updates()

    def _make_updates(self) -> None:
        groups: dict[int, list[Update]] = {}
        for update in self._updates:
            groups.setdefault(id(update.memory), []).append(update)
        self._updates, self._held_bytes = [], 0
        for group in groups.values():
            _apply_by_program(group)


def _apply_by_program(group: list[Update]) -> None:
    first = group[0]
    if len(group) == 1:
        first.apply(first.elements, first.where, first.operand)
        return
    order = np.argsort(np.concatenate([update.programs for update in group]), kind="stable")
    where = np.concatenate([update.where for update in group])[order]
    operand = np.concatenate([update.operand for update in group])[order]
    first.apply(first.elements, where, operand)
