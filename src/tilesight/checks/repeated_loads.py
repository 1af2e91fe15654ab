"""Loads that a loop repeats although neither their addresses nor what lies there change in it."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from tilesight.checks.finding import Finding
from tilesight.checks.place import line_of, name_of
from tilesight.checks.replay import Replay
from tilesight.checks.slices import Flow, flow_of
from tilesight.engine.communication import ATOMICS, STORES, UPDATES, pointer_sources
from tilesight.engine.launch import Launch, Memory
from tilesight.engine.listener import Access, Executed, Listener
from tilesight.engine.plan import values_defined
from tilesight.ir.module import Function, Module, Operation, Value

LOOPS = frozenset({"scf.for", "scf.while"})
REPEATABLE = frozenset({"tt.descriptor_load", "tt.load"})
ORDERING = ATOMICS | {"tt.call", "tt.descriptor_reduce"}
"""What may order a loop's accesses with other programs' or threads', or may write anywhere."""
UNKNOWN = -1


def find_repeated_loads(replay: Replay) -> list[Finding]:
    """Loads of a loop that give the same in each of its rounds, one finding a line.

    A load counts when everything that it depends on is fixed before the innermost loop around it,
    nothing in the loop may write what it reads or wait for others, and it ran more than once.

    Raises: TilesightError: as `engine.execute`
    """
    candidates = repeated_loads(replay.module, replay.launch)
    if not candidates:
        return []
    counter = _Counter(candidates)
    replay.run([counter], programs=replay.few_programs(), chunk_programs=1, output=io.StringIO())
    found: dict[tuple[str, int], Finding] = {}
    for load in candidates:
        if counter.most[load] > 1:
            finding = _finding(load, counter, replay.launch)
            found.setdefault((finding.file, finding.line), finding)
    return list(found.values())


def _finding(load: Operation, counter: _Counter, launch: Launch) -> Finding:
    file, line = line_of(load, launch)
    program, times = counter.program[load], counter.most[load]
    memory = counter.memory.get(load)
    tensor = name_of(memory)
    what = f"load of {tensor}" if tensor else "load"
    return Finding(
        kind="contract",
        file=file,
        line=line,
        programs=(program,),
        program_count=1,
        lanes=(0, 0),
        lane_count=0,
        tensor=tensor,
        message=f"the {what} is made {times} times in the loop of program {program}, from the same addresses",
        hint="load it once before the loop",
        level="warning",
    )


@dataclass(eq=False)
class _Counter(Listener):
    """Counts how often each load runs in one execution of its loop; programs run one by one."""

    loops: dict[Operation, Operation]
    most: dict[Operation, int] = field(default_factory=dict[Operation, int])
    program: dict[Operation, int] = field(default_factory=dict[Operation, int])
    memory: dict[Operation, Memory | None] = field(default_factory=dict[Operation, "Memory | None"])
    _running: dict[Operation, int] = field(default_factory=dict[Operation, int])

    def __post_init__(self) -> None:
        self.most = dict.fromkeys(self.loops, 0)

    def watched(self, module: Module) -> Collection[Operation]:
        return {*self.loops, *self.loops.values()}

    def after_access(self, access: Access) -> None:
        if access.operation in self.loops:
            self.memory.setdefault(access.operation, access.memory)

    def after_step(self, executed: Executed) -> None:
        operation = executed.operation
        if operation in self.loops:
            self._running[operation] = self._running.get(operation, 0) + 1
        for load, loop in self.loops.items():
            if loop is operation:
                times = self._running.pop(load, 0)
                if times > self.most[load]:
                    self.most[load], self.program[load] = times, int(executed.programs[0])


def repeated_loads(module: Module, launch: Launch) -> dict[Operation, Operation]:
    """Each load that gives the same in every round of the loop around it, with that loop."""
    found: dict[Operation, Operation] = {}
    for function in module.functions:
        for operation in function.walk():
            if operation.name in LOOPS:
                body = _Body(module, function, operation, launch)
                found.update(dict.fromkeys(body.unchanging_loads(), operation))
    return found


class _Body:
    """What happens in one loop."""

    def __init__(self, module: Module, function: Function, loop: Operation, launch: Launch) -> None:
        self._flow: Flow = flow_of(module)
        self._loop = loop
        self._launch = launch
        self._inside = [inner for inner in loop.walk() if inner is not loop]
        self._defined = set(values_defined(loop))
        self._sources = pointer_sources(function) if function is module.kernel else {}
        self._fixed: dict[Value, bool] = {}

    def unchanging_loads(self) -> Iterator[Operation]:
        """The loads whose innermost loop this is and that give the same in each round."""
        loads = [inner for inner in self._inside if inner.name in REPEATABLE]
        if not loads or any(self._orders(inner) for inner in self._inside):
            return
        for load in loads:
            is_innermost = next(outer for outer in self._flow.enclosing(load) if outer.name in LOOPS) is self._loop
            if is_innermost and self._is_unchanging(load) and not self._is_awaited(load):
                yield load

    def _orders(self, operation: Operation) -> bool:
        attributes = operation.attributes
        acts = operation.name == "tt.elementwise_inline_asm" and not attributes.get("pure")
        return operation.name in ORDERING or "barrier" in operation.name or acts or bool(attributes.get("isVolatile"))

    def _is_awaited(self, load: Operation) -> bool:
        """Whether a while loop goes on or ends by what the load gives: it waits for another program."""
        if self._loop.name != "scf.while":
            return False
        condition = self._loop.regions[0].entry.operations[-1].operands[0]
        return load in self._flow.backward(condition)

    def _is_unchanging(self, load: Operation) -> bool:
        return all(self._is_fixed(operand) for operand in load.operands) and not self._may_be_written(load)

    def _is_fixed(self, value: Value) -> bool:
        """Whether a value is the same in each round: made before the loop, or of such values alone."""
        if value not in self._defined:
            return True
        if value not in self._fixed:
            self._fixed[value] = False  # until it is known; a value that is carried around never is
            operation = self._flow.definitions.get(value)
            self._fixed[value] = operation is not None and self._is_fixed_result(operation)
        return self._fixed[value]

    def _is_fixed_result(self, operation: Operation) -> bool:
        if operation.name in REPEATABLE:
            return self._is_unchanging(operation)
        if operation.dialect == "scf" or operation.name in ORDERING | {"tt.descriptor_gather"}:
            return False
        mine = set(values_defined(operation)) if operation.regions else set[Value]()
        read = {value for inner in operation.walk() for value in inner.operands} - mine
        return all(self._is_fixed(value) for value in read)

    def _may_be_written(self, load: Operation) -> bool:
        """Whether a store of the loop may write what the load reads."""
        read = self._memories(load)
        for inner in self._inside:
            if inner.name in STORES | UPDATES:
                written = self._memories(inner)
                if read is None or written is None or any(a.overlaps(b) for a in read for b in written):
                    return True
        return False

    def _memories(self, access: Operation) -> list[Memory] | None:
        """The tensors that an access may touch; None when they are not known."""
        indices = self._sources.get(access.operands[0], frozenset({UNKNOWN}))
        found = [self._launch.arguments[index].value for index in indices if index != UNKNOWN]
        memories = [memory for memory in found if isinstance(memory, Memory)]
        return memories if UNKNOWN not in indices and len(memories) == len(found) else None
