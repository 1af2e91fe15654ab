"""What shows only when a launch runs again: in another order, a second time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.differences import differ, difference_text, is_rounding
from tilesight.checks.finding import Finding, Level
from tilesight.checks.place import line_of, name_of
from tilesight.checks.replay import Replay, with_memories
from tilesight.checks.slices import flow_of
from tilesight.engine import Launch, Memory, execute
from tilesight.engine.communication import (
    ATOMICS,
    STORES,
    UPDATES,
    pointer_sources,
    programs_wait,
    written_memories,
)
from tilesight.engine.plan import plan_module
from tilesight.errors import TilesightError
from tilesight.ir.module import Module, Operation
from tilesight.ir.types import FloatType, element_type

SEED = 0
MOST_ORDERS = 16
PROGRAMS_RERUN = 4096
"""Programs that all further orders may run together: 16 orders of a small launch, 2 of a large one."""
BYTES_RERUN = 1 << 27
"""Bytes of tensors that all further orders may copy together."""

PARTIAL_SUMS = "let each program store its partial result and add them in a second launch, or accept the difference"
PLACES_BY_ID = "work out each program's place from its id (counts and their running sum, in a launch before this one)"


def find_order_dependence(replay: Replay) -> list[Finding]:
    """Results that depend on the order of programs, shown by running other orders.

    So are sums of floats by atomics, and what follows from the old value that an atomic gives: a place that is
    handed out on arrival, the last one to come. A queue whose tickets choose who does which tile gives the same
    outputs in every order, and is fine. Sums that differ by rounding alone are a note under a lock, which says
    that its author means them to be added one after another.

    Orders tried: from the last program to the first, then random ones until a result differs; a sum in bf16 may
    come out the same in many orders. A small launch gets up to `MOST_ORDERS`; a large one 2, and so does one whose
    programs wait for each other, where each order runs many turns.
    """
    module, launch = replay.module, replay.launch
    sums = [operation for operation in module.walk() if _adds_floats(operation)]
    tickets = _tickets(module)
    if not (sums or tickets) or launch.programs < 2:
        return []
    for changes in _orders(launch, 2 if programs_wait(module) else MOST_ORDERS):
        try:
            other = replay.run((), None, **changes)
        except TilesightError:
            continue
        found = _differences(replay, other, sums, tickets)
        if found:
            return found
    return []


def _orders(launch: Launch, most: int) -> Iterator[dict[str, Any]]:
    """Arguments of a replay for each order to try, the same at every call."""
    copied = sum(memory.data.nbytes for memory in launch.memories)
    affordable = min(PROGRAMS_RERUN // launch.programs, BYTES_RERUN // max(1, copied))
    yield {"backwards": True}
    random = np.random.default_rng(SEED)
    for _ in range(max(2, min(most, affordable)) - 1):
        shuffled: NDArray[np.int64] = random.permutation(launch.programs)
        yield {"programs": tuple(shuffled.tolist())}


def _differences(
    replay: Replay, other: Launch, sums: Sequence[Operation], tickets: Sequence[Operation]
) -> list[Finding]:
    """What another order left otherwise: by the sums first, what they do not explain by the tickets."""
    module, launch = replay.module, replay.launch
    found: list[Finding] = []
    changed = [differ(one, each) for one, each in zip(launch.memories, other.memories, strict=True)]
    summed: set[int] = set()
    for operation in sums:
        for index in _memories_of(module, launch, operation):
            if changed[index]:
                summed.add(index)
                found.append(_sum_finding(replay, operation, launch.memories[index], other.memories[index]))
    for index, memory in enumerate(launch.memories):
        if tickets and changed[index] and index not in summed:
            store = _first_access(module, launch, memory, STORES | UPDATES)
            ticket = _ticket_of(module, store, tickets)
            found.append(_ticket_finding(replay, ticket, store, memory, other.memories[index]))
    return found


def _adds_floats(operation: Operation) -> bool:
    if operation.name == "tt.descriptor_reduce":
        is_float = isinstance(element_type(operation.operands[1].type), FloatType)
        return is_float and str(operation.attributes["kind"]) == "add"
    return operation.name in UPDATES and operation.attributes.get("atomic_rmw_op") == "fadd"


def _tickets(module: Module) -> list[Operation]:
    """Atomics that tell, or leave behind, who came when: their old value is read, or they exchange it."""
    read = plan_module(module).read_values
    atomics = [operation for operation in module.walk() if operation.name in ATOMICS]
    return [
        operation
        for operation in atomics
        if operation.attributes.get("atomic_rmw_op") == "exch" or any(result in read for result in operation.results)
    ]


def _ticket_of(module: Module, store: Operation, tickets: Sequence[Operation]) -> Operation:
    """The atomic that a store's operands come from, or else the first one."""
    before = flow_of(module).backward(*store.operands)
    return next((ticket for ticket in tickets if ticket in before or ticket is store), tickets[0])


def _sum_finding(replay: Replay, operation: Operation, memory: Memory, other: Memory) -> Finding:
    name = "atomic_add" if operation.name in ATOMICS else "the descriptor's atomic_add"
    message = (
        f"the sum that {name} makes in {name_of(memory)} depends on the order of programs: "
        f"{difference_text(memory, other)} between two orders"
    )
    return _finding("non-determinism", operation, replay.launch, memory, message, PARTIAL_SUMS, "warning")


def _ticket_finding(replay: Replay, ticket: Operation, store: Operation, memory: Memory, other: Memory) -> Finding:
    line = line_of(store, replay.launch)[1]
    message = (
        f"what the atomic gives depends on the order of programs, and so does what line {line} leaves in "
        f"{name_of(memory)}: {difference_text(memory, other)} between two orders"
    )
    level: Level = "note" if is_rounding(memory, other) else "warning"
    hint = PARTIAL_SUMS if level == "note" else PLACES_BY_ID
    return _finding("non-determinism", ticket, replay.launch, memory, message, hint, level)


def _memories_of(module: Module, launch: Launch, operation: Operation) -> Iterator[int]:
    """Indices among the launch's memories of the tensors that an access may touch."""
    sources = pointer_sources(module.kernel).get(operation.operands[0], frozenset())
    memories = launch.memories
    for source in sorted(sources):
        value = launch.arguments[source].value if source >= 0 else None
        if isinstance(value, Memory):
            yield next(index for index, memory in enumerate(memories) if memory is value)


def find_autotuned_updates(replay: Replay) -> list[Finding]:
    """Tensors that autotune's timing runs would change again and again: shown by running a second time."""
    module, launch = replay.module, replay.launch
    tuning = launch.autotuning
    if tuning is None or tuning.configs < 2 or tuning.has_hook:
        return []
    before = replay.fresh().memories
    restored = {
        id(memory): earlier
        for memory, earlier in zip(launch.memories, before, strict=True)
        if memory.name in tuning.restored
    }
    again = with_memories(launch, lambda memory: replace(memory, data=restored.get(id(memory), memory).data.copy()))
    try:
        execute(module, again, (), replay.options)
    except TilesightError:
        return []
    found: list[Finding] = []
    written = set(map(id, written_memories(module, launch)))
    for memory, later in zip(launch.memories, again.memories, strict=True):
        if id(memory) in written and memory.name not in tuning.restored and differ(memory, later):
            operation = _first_access(module, launch, memory, STORES | UPDATES)
            message = (
                f"autotune times {tuning.configs} configurations on the caller's {name_of(memory)}, and each run "
                f"starts from what the one before it left: after a second run {difference_text(later, memory)}"
            )
            hint = f"@triton.autotune(…, restore_value=[{memory.name!r}]), or reset_to_zero where it starts from 0"
            found.append(_finding("autotune", operation, launch, memory, message, hint))
    return found


def _first_access(module: Module, launch: Launch, memory: Memory, names: frozenset[str]) -> Operation:
    """The first operation of these names that may touch a tensor."""
    index = next(index for index, each in enumerate(launch.memories) if each is memory)
    accesses = [operation for operation in module.walk() if operation.name in names]
    fitting = (operation for operation in accesses if index in _memories_of(module, launch, operation))
    return next(fitting, accesses[0])


def _finding(
    kind: str,
    operation: Operation,
    launch: Launch,
    memory: Memory,
    message: str,
    hint: str,
    level: Level = "error",
) -> Finding:
    return Finding.of_line(kind, line_of(operation, launch), message, hint, tensor=name_of(memory), level=level)
