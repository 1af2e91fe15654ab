"""The engine's one loop: runs the steps of a block for a chunk of programs at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO, cast

import numpy as np
from numpy.typing import NDArray

from tilesight.engine.launch import Launch, Memory
from tilesight.engine.listener import Access, AccessKind, Executed
from tilesight.engine.plan import Plan, Step
from tilesight.engine.registry import where_of
from tilesight.engine.values import Array, Mask, choose_programs, spread
from tilesight.engine.writes import Writes
from tilesight.errors import EndlessLoopError, ExecutionError
from tilesight.ir.module import Block, Function, Operation, Region, Value
from tilesight.ir.types import block_shape

HearAccess = Callable[[Access], None]
HearStep = Callable[[Executed], None]
Wait = Callable[[Operation, Sequence[Any]], None]


@dataclass(frozen=True, eq=False)
class Chunk:
    """The programs that run together, and what they share.

    Args:
        programs: [P] int64 linear program ids
        undefined: what masked-off lanes without `other` hold: "poison" or a number
        hear_before, hear_after: the listeners' methods that are overridden, for each kind of access
        writes: when stores and atomics reach memory
        hear_steps: the listeners' methods for each operation that one of them watches
        loop_limit: rounds after which a loop is given up
        wait: called by a loop that waits for other programs after a round of it, with the loop and
            what it carries; None where programs do not wait for each other
    """

    launch: Launch
    plan: Plan
    memories: tuple[Memory, ...]
    programs: NDArray[np.int64]
    undefined: str | float
    hear_before: Mapping[AccessKind, tuple[HearAccess, ...]]
    hear_after: Mapping[AccessKind, tuple[HearAccess, ...]]
    output: TextIO | None
    writes: Writes
    hear_steps: dict[Operation, tuple[HearStep, ...]]
    loop_limit: int
    wait: Wait | None = None

    @property
    def size(self) -> int:
        return len(self.programs)


class Frame:
    """One function's values for one chunk, and which of its programs are active.

    `active` is None while all programs run together; under divergent control flow it is a [P]
    mask. Inactive programs keep their carried values and do not touch memory.
    """

    def __init__(self, chunk: Chunk, active: Mask | None = None) -> None:
        self.chunk = chunk
        self.active = active
        self.values: dict[Value, Any] = {}
        self.keeps_inactive = False

    def full_shape(self, value: Value) -> tuple[int, ...]:
        """(P, *B) of a value, from its type."""
        return (self.chunk.size, *block_shape(value.type))

    def run_block(self, block: Block, arguments: Sequence[Any]) -> Operation | None:
        """Execute a block's operations and return its terminator, whose operands are in `values`."""
        plan = self.chunk.plan.blocks[block]
        hear_steps = self.chunk.hear_steps
        values = self.values
        for parameter, argument in zip(block.arguments, arguments, strict=True):
            self._assign(parameter, argument)
        for step in plan.steps:
            operands = [values[value] for value in step.operands]
            if not step.takes_lanes:
                operands = [spread(operand) for operand in operands]
            context = (self, step.operation) if step.takes_frame else ()
            result = step.function(*context, *operands)
            self._store_results(step, result)
            if hear_steps and step.operation in hear_steps:
                self._tell(step, operands)
            for value in step.dead:
                values.pop(value, None)
        return plan.terminator

    def _tell(self, step: Step, operands: Sequence[Any]) -> None:
        results = tuple(self.values[value] for value in step.results)
        executed = Executed(step.operation, tuple(operands), results, self.chunk.programs, self.active)
        for hear in self.chunk.hear_steps[step.operation]:
            hear(executed)

    def check_rounds(self, operation: Operation, rounds: int) -> None:
        """Give up a loop that has run longer than any is meant to.

        Raises: EndlessLoopError: after more rounds than `loop_limit`
        """
        if rounds > self.chunk.loop_limit:
            raise EndlessLoopError(
                f"a loop is in its {rounds:,}th round",
                where=where_of(operation),
                expected=f"a loop that ends within loop_limit = {self.chunk.loop_limit:,} rounds",
                next_step="mend its condition, or raise the limit: check --loop-limit, ExecutionOptions(loop_limit=…)",
            )

    def _store_results(self, step: Step, result: Any) -> None:
        if not step.results:
            return
        if not isinstance(result, tuple):
            self._assign(step.results[0], result)
            return
        for value, item in zip(step.results, cast("tuple[Any, ...]", result), strict=True):
            self._assign(value, item)

    def _assign(self, value: Value, item: Any) -> None:
        if self.keeps_inactive and self.active is not None and value in self.values:
            item = choose_programs(self.active, item, self.values[value])
        self.values[value] = item

    def run_region(self, region: Region, arguments: Sequence[Any], active: Mask | None = None) -> list[Any]:
        """Execute a region of one block and return what its terminator yields.

        Args:
            active: the programs to run it for; None for those that are active now
        """
        before = self.active
        self.active = before if active is None else active
        terminator = self.run_block(region.entry, arguments)
        self.active = before
        return [self.values[value] for value in terminator.operands] if terminator else []

    def is_active(self, condition: Array) -> Mask:
        """[P] programs that are active and meet a condition of one lane a program."""
        met = np.broadcast_to(condition, (self.chunk.size,))
        return met if self.active is None else met & self.active

    def decide(self, condition: Array, active: Mask | None) -> bool | Mask:
        """True or False when the active programs agree, otherwise the [P] mask of those that take it."""
        if condition.size == 1:
            return bool(condition[0])
        taken = condition if active is None else condition & active
        if not taken.any():
            return False
        everyone = self.chunk.size if active is None else np.count_nonzero(active)
        return True if np.count_nonzero(taken) == everyone else taken

    def call(self, function: Function, arguments: Sequence[Any]) -> list[Any]:
        """Run a function of the module in a frame of its own."""
        return Frame(self.chunk, self.active).run_function(function, arguments)

    def run_function(self, function: Function, arguments: Sequence[Any]) -> list[Any]:
        """Execute a function and return its results, merged over the places it returns from."""
        blocks = function.body.blocks
        if len(blocks) == 1:
            terminator = self.run_block(blocks[0], arguments)
            return [self.values[value] for value in terminator.operands] if terminator else []
        return _Flow(self, blocks).run(arguments)


class _Flow:
    """Runs blocks that branch to each other, programs that part ways included.

    Of the blocks that programs wait for, the first in textual order runs first, so programs meet
    again at the earliest block they have in common.
    """

    def __init__(self, frame: Frame, blocks: Sequence[Block]) -> None:
        self.frame = frame
        self.order = {block: index for index, block in enumerate(blocks)}
        self.entry = blocks[0]
        self.waiting: dict[Block, tuple[Mask, list[Any]]] = {}
        self.returned: list[Any] | None = None

    def run(self, arguments: Sequence[Any]) -> list[Any]:
        frame = self.frame
        everyone = frame.is_active(np.ones(1, np.bool_))
        self.waiting[self.entry] = everyone, list(arguments)
        executed: set[Block] = set()
        rounds: dict[Block, int] = {}
        before = frame.active
        while self.waiting:
            block = min(self.waiting, key=self.order.__getitem__)
            active, passed = self.waiting.pop(block)
            frame.active = before if np.array_equal(active, everyone) else active
            frame.keeps_inactive = block in executed
            executed.add(block)
            rounds[block] = rounds.get(block, 0) + 1
            if block.operations:
                frame.check_rounds(block.operations[-1], rounds[block])
            self._leave(frame.run_block(block, passed), active)
        frame.active, frame.keeps_inactive = before, False
        return self.returned or []

    def _leave(self, terminator: Operation | None, active: Mask) -> None:
        values = self.frame.values
        if terminator is None or terminator.name == "ub.unreachable":
            raise ExecutionError("a block ended without a return", where=str(terminator and terminator.location))
        if terminator.name == "tt.return":
            results = [values[value] for value in terminator.operands]
            self.returned = results if self.returned is None else _merge(active, results, self.returned)
            return
        if terminator.name == "cf.br":
            self._send(terminator, 0, active)
            return
        taken = np.broadcast_to(values[terminator.operands[0]], active.shape)
        self._send(terminator, 0, active & taken)
        self._send(terminator, 1, active & ~taken)

    def _send(self, terminator: Operation, index: int, active: Mask) -> None:
        if not active.any():
            return
        block, operands = terminator.successors[index]
        passed = [self.frame.values[value] for value in operands]
        if block in self.waiting:
            others, earlier = self.waiting[block]
            passed = _merge(active, passed, earlier)
            active = active | others
        self.waiting[block] = active, passed


def _merge(active: Mask, new: Sequence[Any], old: Sequence[Any]) -> list[Any]:
    return [choose_programs(active, a, b) for a, b in zip(new, old, strict=True)]
