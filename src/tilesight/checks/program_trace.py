"""Labels on the lanes of one program's values, carried along while it runs again.

A label is an integer from 0 (nothing to say) to the largest int16, one a lane; what the numbers mean is the
trace's own matter. Labels have the engine's shape of a value, extents of 1 included; None stands for all 0.
With one program control flow never diverges, so a value that is passed on is the same object.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from time import process_time
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.replay import Replay
from tilesight.engine.listener import Access, Executed, Listener
from tilesight.engine.plan import Plan, plan_module
from tilesight.engine.values import LaneSum
from tilesight.errors import TilesightError
from tilesight.ir.module import Module, Operation, Region, Value

Labels: TypeAlias = NDArray[np.int16]

CONTROL = frozenset({"scf.for", "scf.if", "scf.while", "tt.call"})
"""Operations whose results are values that were passed on."""

KEPT_OBJECTS = 8
"""Objects a value has stood for lately that may still be a block argument."""

SPIN_LIMIT = 64
MOST_SECONDS = 1.0
"""Of the processor, for one trace."""


class _TimeIsUpError(Exception):
    """A trace has run as long as it may."""


@dataclass(frozen=True, eq=False)
class Step:
    """One executed operation with its operands' labels and the memory accesses that it made."""

    operation: Operation
    program: int
    operands: tuple[Any, ...]
    results: tuple[Any, ...]
    labels: tuple[Labels | None, ...]
    accesses: tuple[Access, ...]


@dataclass
class _State:
    """What is known of one program: labels by SSA value, and by object for what control flow passes on."""

    labels: dict[Value, Labels] = field(default_factory=dict[Value, Labels])
    passed: dict[int, tuple[Any, Labels]] = field(default_factory=dict[int, tuple[Any, Labels]])
    recent: dict[Value, deque[int]] = field(default_factory=dict[Value, "deque[int]"])
    accesses: list[Access] = field(default_factory=list[Access])


class ProgramTrace(Listener):
    """Base class: override `label`, and `decide` to hear the labels of what branches depend on."""

    def __init__(self, module: Module) -> None:
        self.plan: Plan = plan_module(module)
        self._carried, self._conditions = _carried_values(module), _branch_conditions(module)
        self._states: dict[int, _State] = {}
        self._stop_at = process_time() + MOST_SECONDS

    def label(self, step: Step) -> Sequence[Labels | None]:
        """The labels of the results; called for operations that touch memory, make values or have a label."""
        raise NotImplementedError

    def is_source(self, operation: Operation) -> bool:
        """Whether `label` is to be called although no operand has a label."""
        raise NotImplementedError

    def decide(self, operation: Operation, program: int, labels: Labels) -> None:
        """A branch or a loop's bound has labels."""

    def watched(self, module: Module) -> Collection[Operation]:
        """Every operation outside combining regions."""
        return [operation for function in module.functions for operation in _outside_combining(function.body)]

    def after_access(self, access: Access) -> None:
        """Keep it for the step that it belongs to."""
        self._state(int(access.programs[0])).accesses.append(access)

    def after_step(self, executed: Executed) -> None:
        """Label the results of one operation."""
        if process_time() > self._stop_at:
            raise _TimeIsUpError
        operation, program = executed.operation, int(executed.programs[0])
        state = self._state(program)
        accesses, state.accesses = tuple(state.accesses), []
        operands = operation.operands
        labels = tuple(self._find(state, *pair) for pair in zip(operands, executed.operands, strict=True))
        if operation.name in CONTROL:
            self._enter(operation, program, labels)
            found: Sequence[Labels | None] = [state.passed.get(id(it), (None, None))[1] for it in executed.results]
        elif self.is_source(operation) or any(each is not None for each in labels):
            step = Step(operation, program, executed.operands, executed.results, labels, accesses)
            found = self.label(step)
        else:
            found = [None] * len(executed.results)
        for value, result, each in zip(operation.results, executed.results, found, strict=True):
            self._keep(state, value, result, each)
            branch = self._conditions.get(value)
            if branch is not None and each is not None and each.any():
                self.decide(branch, program, each)

    def _state(self, program: int) -> _State:
        return self._states.setdefault(program, _State())

    def _find(self, state: _State, value: Value, operand: Any) -> Labels | None:
        if value in self.plan.definitions:
            return state.labels.get(value)
        return state.passed.get(id(operand), (None, None))[1]

    def _enter(self, operation: Operation, program: int, labels: Sequence[Labels | None]) -> None:
        """Hear what decides a branch or a loop's bounds."""
        deciding = {"scf.if": labels[:1], "scf.for": labels[:3]}.get(operation.name, ())
        for each in deciding:
            if each is not None and each.any():
                self.decide(operation, program, each)
                return

    def _keep(self, state: _State, value: Value, result: Any, labels: Labels | None) -> None:
        if labels is None:
            state.labels.pop(value, None)
            return
        state.labels[value] = labels
        if value not in self._carried:
            return
        recent = state.recent.setdefault(value, deque())
        for item in (result, result.array) if isinstance(result, LaneSum) else (result,):
            state.passed[id(item)] = item, labels
            recent.append(id(item))
        while len(recent) > 2 * KEPT_OBJECTS:
            oldest = recent.popleft()
            if oldest not in recent:
                state.passed.pop(oldest, None)


def trace_programs(replay: Replay, programs: Sequence[int], trace: ProgramTrace) -> None:
    """Run these programs again, one after another, for a trace; it ends early where a program fails or time is up."""
    left = list(programs)
    while left:
        seen = _Seen()
        try:
            replay.run(
                (seen, trace),
                programs=tuple(left),
                chunk_programs=1,
                threads=1,
                spin_limit=SPIN_LIMIT,
                output=io.StringIO(),
            )
            return
        except _TimeIsUpError:
            return
        except TilesightError:
            failed = seen.program if seen.program in left else left[0]
            left = left[left.index(failed) + 1 :]


class _Seen(Listener):
    """Knows which program ran last."""

    program = -1

    def watched(self, module: Module) -> Collection[Operation]:
        """The kernel's own operations."""
        return [operation for block in module.kernel.body.blocks for operation in block.operations]

    def after_step(self, executed: Executed) -> None:
        self.program = int(executed.programs[0])


def _outside_combining(region: Region) -> Iterator[Operation]:
    for block in region.blocks:
        for operation in block.operations:
            yield operation
            if operation.dialect != "tt":
                for inner in operation.regions:
                    yield from _outside_combining(inner)


def _carried_values(module: Module) -> frozenset[Value]:
    """Values that control flow hands to a block's arguments, or out of a region or a function."""
    handing = CONTROL | {"scf.yield", "scf.condition", "tt.return"}
    carried: set[Value] = set()
    for function in module.functions:
        for operation in function.walk():
            if operation.name in handing:
                carried.update(operation.operands)
            for _, passed in operation.successors:
                carried.update(passed)
    return frozenset(carried)


def _branch_conditions(module: Module) -> dict[Value, Operation]:
    """What a cf.cond_br or a while loop's condition decides on: terminators, which no listener hears."""
    found: dict[Value, Operation] = {}
    for function in module.functions:
        for operation in function.walk():
            if operation.name in ("cf.cond_br", "scf.condition"):
                found[operation.operands[0]] = operation
    return found
