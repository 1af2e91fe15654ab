"""How far the offsets that programs compute go, next to the bounds that masks set them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.expression import describe_operand
from tilesight.checks.slices import flow_of
from tilesight.engine.communication import ATOMICS, LOADS, STORES, UPDATES
from tilesight.engine.listener import Executed, Listener
from tilesight.engine.values import LaneSum, spread_integers
from tilesight.ir.module import Module, Operation, Value

BELOW = {"slt": 0, "ult": 0, "sle": 1, "ule": 1}
ABOVE = {"sgt": 0, "ugt": 0, "sge": 1, "uge": 1}
INCLUDED = {**BELOW, **ABOVE}
"""Comparisons of offsets with a bound: 1 where the bound itself is let through."""


@dataclass
class Reach:
    """How far the offsets of one comparison go, and how far they may.

    Args:
        highest: of all lanes
        bound: the first offset that is not let through
        starts: the lowest lanes of the last and of the program before it, the larger first
        lanes: of one program
        lane_step: from one lane to the next
        name: the offsets as they are written; empty where not known
    """

    highest: int
    bound: int
    starts: tuple[int, ...]
    lanes: int
    lane_step: int
    name: str = ""

    def joined(self, other: Reach) -> Reach:
        starts = tuple(sorted({*self.starts, *other.starts}, reverse=True)[:2])
        last = self if self.highest >= other.highest else other
        return Reach(last.highest, max(self.bound, other.bound), starts, last.lanes, last.lane_step)

    @property
    def next_start(self) -> int:
        """Where one more program would begin."""
        if len(self.starts) > 1:
            return 2 * self.starts[0] - self.starts[1]
        return self.highest + self.lane_step

    @property
    def is_short(self) -> bool:
        """Whether one more program would still have something to do."""
        return self.highest + 1 < self.bound and self.next_start < self.bound

    @property
    def has_adjacent_tiles(self) -> bool:
        """Whether programs take one run of neighbours each, and the next one begins where the last one ended."""
        return self.lane_step == 1 and self.next_start == self.starts[0] + self.lanes


class MaskReach(Listener):
    """For each comparison of a mask that the program id enters: how far its offsets reach."""

    hears_in_any_order = True

    def __init__(self, module: Module) -> None:
        self._module = module
        self._stored = _bounded_offsets(module)
        self._tiles = tile_offsets(module)
        self._sides = {**self._stored, **self._tiles}
        self.reached: dict[Operation, Reach] = {}

    def watched(self, module: Module) -> Collection[Operation]:
        return self._sides.keys()

    def after_step(self, executed: Executed) -> None:
        operation, side = executed.operation, self._sides[executed.operation]
        if executed.active is not None and not executed.active.any():
            return
        offsets, limit = (_of_active(executed.operands[each], executed.active) for each in (side, 1 - side))
        bound = _highest(limit) + INCLUDED[str(operation.attributes["predicate"])]
        reach = _reach(offsets, bound)
        known = self.reached.get(operation)
        self.reached[operation] = reach if known is None else known.joined(reach)

    def fallen_short(self) -> dict[Operation, Reach]:
        """The comparisons of stores' masks whose offsets end before the bound."""
        found = {each: reach for each, reach in self.reached.items() if each in self._stored and reach.is_short}
        return self._named(found)

    def tiles_fallen_short(self) -> dict[Operation, Reach]:
        """Of loads that bound adjacent tiles: the comparisons with a bound that no comparison reaches."""
        reached = {reach.bound for reach in self.reached.values() if not reach.is_short}
        return self._named(
            {
                each: reach
                for each, reach in self.reached.items()
                if each in self._tiles and reach.is_short and reach.has_adjacent_tiles and reach.bound not in reached
            }
        )

    def _named(self, reaches: dict[Operation, Reach]) -> dict[Operation, Reach]:
        return {
            each: replace(reach, name=describe_operand(each, side_of_offsets(each), self._module))
            for each, reach in reaches.items()
        }


def side_of_offsets(comparison: Operation) -> int:
    return 0 if str(comparison.attributes["predicate"]) in BELOW else 1


def _of_active(value: NDArray[np.generic] | LaneSum, active: NDArray[np.bool_] | None) -> NDArray[np.generic] | LaneSum:
    """What the programs that execute an operation have; others are past the end of their loop."""
    if active is None or active.all():
        return value
    lanes = spread_integers(value)
    return lanes[active] if len(lanes) == len(active) else lanes


def _reach(offsets: NDArray[np.generic] | LaneSum, bound: int) -> Reach:
    starts, lanes = _starts(offsets)
    last = int(starts.max(initial=0))
    before = starts[starts < last]
    highest = _highest(offsets)
    step = max(1, (highest - last) // max(1, lanes - 1))
    return Reach(highest, bound, (last, *([int(before.max())] if len(before) else [])), lanes, step)


def _starts(offsets: NDArray[np.generic] | LaneSum) -> tuple[NDArray[np.int64], int]:
    """[P or 1] each program's lowest lane, and how many lanes one has."""
    if isinstance(offsets, LaneSum):
        inner = [term for axis, term in offsets.terms.items() if axis != 0]
        first = offsets.terms.get(0)
        along = np.zeros(1, np.int64) if first is None else first.reshape(-1).astype(np.int64)
        return along + sum(int(term.min()) for term in inner), int(np.prod([term.size for term in inner]))
    rows = offsets.reshape(len(offsets), -1)
    if not rows.size:
        return np.zeros(1, np.int64), 1
    return rows.min(axis=1).astype(np.int64), rows.shape[1]


def _highest(value: NDArray[np.generic] | LaneSum) -> int:
    return value.bounds[1] if isinstance(value, LaneSum) else int(value.max(initial=0))


@lru_cache(maxsize=64)
def _bounded_offsets(module: Module) -> dict[Operation, int]:
    """Comparisons of stores' masks that bound offsets made of the program id → the operand that holds those."""
    flow = flow_of(module)
    return {
        comparison: side
        for comparison, side in _comparisons(module, STORES | UPDATES)
        if _has_program(flow.backward(comparison.operands[side])) and _is_uniform(comparison, 1 - side, module)
    }


@lru_cache(maxsize=64)
def tile_offsets(module: Module) -> dict[Operation, int]:
    """Comparisons in masks of loads alone, with offsets that are tiles of the program: `(pid * N + i) * B + …`."""
    stored = {comparison for comparison, _ in _comparisons(module, STORES)}
    return {
        comparison: side
        for comparison, side in _comparisons(module, LOADS)
        if comparison not in stored
        and _is_tile(comparison.operands[side], module)
        and _is_uniform(comparison, 1 - side, module)
    }


def _comparisons(module: Module, names: Collection[str]) -> Iterator[tuple[Operation, int]]:
    """The comparisons in masks of these operations, with the operand that may hold offsets."""
    flow = flow_of(module)
    for access in module.walk():
        masks = access.operand_segments.get("mask", ()) if access.name in names else ()
        for operation in flow.backward(*masks) if masks else ():
            if operation.name == "arith.cmpi" and str(operation.attributes.get("predicate", "")) in INCLUDED:
                yield operation, side_of_offsets(operation)


def loads_under(comparison: Operation, module: Module) -> list[Operation]:
    """The loads whose masks a comparison is part of."""
    flow = flow_of(module)
    loads = [access for access in module.walk() if access.name in LOADS and access.operand_segments.get("mask")]
    return [load for load in loads if comparison in flow.backward(*load.operand_segments["mask"])]


def _has_program(operations: Iterable[Operation]) -> bool:
    names = {operation.name for operation in operations}
    return "tt.get_program_id" in names and not names & (LOADS | ATOMICS)


def _is_uniform(comparison: Operation, side: int, module: Module) -> bool:
    """Whether a bound is one number for the whole launch."""
    names = {operation.name for operation in flow_of(module).backward(comparison.operands[side])}
    return not names & (LOADS | ATOMICS | {"tt.get_program_id", "tt.make_range"})


def has_scalar_base(comparison: Operation, module: Module) -> bool:
    """Whether an argument enters the offsets: such a launch may be one of several that share the work."""
    values = _values_behind(comparison.operands[side_of_offsets(comparison)], module)
    return any(argument in values for argument in module.kernel.arguments)


def _is_tile(offsets: Value, module: Module) -> bool:
    """Whether offsets are computed from the program id and rounds of a constant number, without a load or argument."""
    flow = flow_of(module)
    known = flow.definitions.keys() | _constant_rounds(module)
    return _has_program(flow.backward(offsets)) and _values_behind(offsets, module) <= known


@lru_cache(maxsize=64)
def _constant_rounds(module: Module) -> frozenset[Value]:
    """The counters of loops whose limits are constants."""
    flow = flow_of(module)
    loops = [operation for operation in module.walk() if operation.name == "scf.for"]
    limits = {loop: [flow.definitions.get(value) for value in loop.operands[:3]] for loop in loops}
    return frozenset(
        loop.regions[0].blocks[0].arguments[0]
        for loop in loops
        if all(limit is not None and limit.name == "arith.constant" for limit in limits[loop])
    )


def _values_behind(value: Value, module: Module) -> set[Value]:
    """A value and the operands that it is computed from; of what a loop carries, the value that is carried."""
    operations = flow_of(module).backward(value)
    return {value, *(operand for operation in operations for operand in operation.operands)}
