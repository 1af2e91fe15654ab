"""What shows only when a launch runs again: in another order, without overlap, a second time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.finding import Finding, Level
from tilesight.checks.place import line_of, name_of
from tilesight.checks.replay import Replay, overlap_groups, with_memories
from tilesight.engine import Launch, Memory, execute
from tilesight.engine.communication import (
    LOADS,
    STORES,
    UPDATES,
    loaded_memories,
    pointer_sources,
    written_memories,
)
from tilesight.engine.values import BFLOAT16
from tilesight.errors import TilesightError
from tilesight.ir.module import Module, Operation

FLOATS: dict[str, np.dtype[Any]] = {
    "float64": np.dtype(np.float64),
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": BFLOAT16,
}
SEED = 0


def find_order_dependence(replay: Replay) -> list[Finding]:
    """Float atomics whose sums depend on the order of programs: shown by running two other orders.

    Orders tried: from the last program to the first, and a random one.
    """
    module, launch = replay.module, replay.launch
    atomics = [operation for operation in module.walk() if _adds_floats(operation)]
    if not atomics or launch.programs < 2:
        return []
    shuffled: NDArray[np.int64] = np.random.default_rng(SEED).permutation(launch.programs)
    for changes in ({"backwards": True}, {"programs": tuple(shuffled.tolist())}):
        try:
            other = replay.run((), None, **changes)
        except TilesightError:
            continue
        found = [
            _order_finding(replay, operation, launch.memories[index], other.memories[index])
            for operation in atomics
            for index in _memories_of(module, launch, operation)
            if _differ(launch.memories[index], other.memories[index])
        ]
        if found:
            return found
    return []


def _adds_floats(operation: Operation) -> bool:
    return operation.name in UPDATES and operation.attributes.get("atomic_rmw_op") == "fadd"


def _order_finding(replay: Replay, operation: Operation, memory: Memory, other: Memory) -> Finding:
    tensor = name_of(memory)
    message = (
        f"the sum that atomic_add makes in {tensor} depends on the order of programs: {_difference(memory, other)} "
        "between two orders"
    )
    hint = "let each program store its partial result and add them in a second launch, or accept the difference"
    return _finding("non-determinism", operation, replay.launch, memory, message, hint, "warning")


def _memories_of(module: Module, launch: Launch, operation: Operation) -> Iterator[int]:
    """Indices among the launch's memories of the tensors that an access may touch."""
    sources = pointer_sources(module.kernel).get(operation.operands[0], frozenset())
    memories = launch.memories
    for source in sorted(sources):
        value = launch.arguments[source].value if source >= 0 else None
        if isinstance(value, Memory):
            yield next(index for index, memory in enumerate(memories) if memory is value)


def find_aliasing(replay: Replay) -> list[Finding]:
    """Inputs that overlap outputs where the launch gives other results once they are apart."""
    module, launch = replay.module, replay.launch
    written, loaded = set(map(id, written_memories(module, launch))), set(map(id, loaded_memories(module, launch)))
    pairs = [
        (source, target)
        for group in overlap_groups(launch.memories)
        for target in group
        for source in group
        if source is not target and id(target) in written and id(source) in loaded
    ]
    if not pairs:
        return []
    fresh = replay.fresh()
    apart = with_memories(fresh, lambda memory: replace(memory, data=memory.data.copy()))
    try:
        execute(module, apart, (), replay.options)
    except TilesightError:
        return []
    found: dict[tuple[str, int], Finding] = {}
    for source, target in pairs:
        index = next(index for index, memory in enumerate(launch.memories) if memory is target)
        if _differ(target, apart.memories[index]):
            finding = _alias_finding(replay, source, target, apart.memories[index])
            found.setdefault((finding.file, finding.line), finding)
    return list(found.values())


def _alias_finding(replay: Replay, source: Memory, target: Memory, apart: Memory) -> Finding:
    operation = _first_access(replay.module, replay.launch, source, LOADS)
    same = name_of(source) == name_of(target)
    what = (
        f"{source.name} and {target.name}, both {name_of(source)},"
        if same
        else f"{name_of(source)} and {name_of(target)}"
    )
    message = (
        f"{what} overlap, and the result depends on it: {_difference(target, apart)} "
        f"from what the launch gives when they are apart"
    )
    hint = "write to a tensor of its own, or load all of a program's input before its first store"
    return _finding("alias", operation, replay.launch, target, message, hint)


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
        if id(memory) in written and memory.name not in tuning.restored and _differ(memory, later):
            operation = _first_access(module, launch, memory, STORES | UPDATES)
            message = (
                f"autotune times {tuning.configs} configurations on the caller's {name_of(memory)}, and each run adds "
                f"to it: a second run changes {_difference(later, memory)}"
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


def _differ(one: Memory, other: Memory) -> bool:
    return one.data.tobytes() != other.data.tobytes()


def _difference(one: Memory, other: Memory) -> str:
    """How many elements differ, and for floats by how much at most."""
    dtype = FLOATS.get(one.dtype, np.dtype(f"u{one.item_bytes}"))
    size = len(one.data) // dtype.itemsize * dtype.itemsize
    left, right = (each.data[:size].view(dtype) for each in (one, other))
    bits = np.dtype(f"u{dtype.itemsize}")
    count = int(np.count_nonzero(left.view(bits) != right.view(bits)))
    elements = f"{count} element{'s' * (count != 1)}"
    if one.dtype not in FLOATS:
        return f"{elements} differ{'s' * (count == 1)}"
    with np.errstate(all="ignore"):
        worst = float(np.nanmax(np.abs(left.astype(np.float64) - right.astype(np.float64)), initial=0.0))
    return f"{elements} differ{'s' * (count == 1)} by up to {worst:.3g}"


def _finding(
    kind: str,
    operation: Operation,
    launch: Launch,
    memory: Memory,
    message: str,
    hint: str,
    level: Level = "error",
) -> Finding:
    file, line = line_of(operation, launch)
    return Finding(kind, file, line, (), 0, (0, 0), 0, name_of(memory), message, hint, level)
