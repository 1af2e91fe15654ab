"""What can be known of a kernel before it runs: who waits for whom, and which chunks may run at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from tilesight.engine.launch import Launch, Memory
from tilesight.engine.plan import Plan
from tilesight.ir.module import Function, Module, Operation, Value
from tilesight.ir.types import DescriptorType, PointerType, element_type

ATOMICS = frozenset({"tt.atomic_cas", "tt.atomic_rmw"})
LOADS = frozenset({"tt.descriptor_gather", "tt.descriptor_load", "tt.load"})
STORES = frozenset({"tt.descriptor_scatter", "tt.descriptor_store", "tt.store"})
UPDATES = ATOMICS | {"tt.descriptor_reduce"}
ORDERED_OUTPUT = frozenset({"tt.assert", "tt.print"})
UNKNOWN = -1

Sources = frozenset[int]
NOTHING: Sources = frozenset()


def waits_for_others(loop: Operation) -> bool:
    """Whether a while loop can spin until another program writes: it has an atomic or a volatile load in it."""
    return loop.name == "scf.while" and any(
        inner.name in ATOMICS or (inner.name == "tt.load" and bool(inner.attributes.get("isVolatile")))
        for inner in loop.walk()
    )


@lru_cache(maxsize=64)
def programs_wait(module: Module) -> bool:
    """Whether any loop of the module waits for other programs."""
    return any(waits_for_others(operation) for operation in module.walk())


@lru_cache(maxsize=64)
def order_is_seen(plan: Plan) -> bool:
    """Whether programs can tell in which order they ran: from more than one atomic's result, or one in a loop."""
    seen = 0
    for operation in plan.module.walk():
        loops = operation.name in ("scf.for", "scf.while")
        inside = [inner for inner in operation.walk() if inner is not operation] if loops else []
        if any(_is_read(inner, plan) for inner in inside):
            return True
        seen += _is_read(operation, plan)
    return seen > 1


def chunks_are_independent(plan: Plan, launch: Launch) -> bool:
    """Whether chunks may run at the same time and leave what they leave one after another.

    So it is when no tensor that is stored to is also loaded from or updated by an atomic, no atomic's
    result is read, and nothing is printed.
    """
    module = plan.module
    operations = list(module.walk())
    names = {operation.name for operation in operations}
    if len(module.functions) > 1 or names & ORDERED_OUTPUT or any(_is_read(each, plan) for each in operations):
        return False
    sources = pointer_sources(module.kernel)
    kinds = [_touched(operations, sources, names) for names in (LOADS, STORES, UPDATES)]
    if any(UNKNOWN in kind for kind in kinds):
        return False
    loaded, stored, updated = ([_memory(launch, index) for index in kind] for kind in kinds)
    return not (_share_bytes(stored, loaded + updated) or _share_bytes(updated, loaded))


def stored_tensors(module: Module, launch: Launch) -> list[str]:
    """The names of the tensors that a kernel stores to or updates, as far as they are known."""
    found = _touched_by(module, STORES | UPDATES) - {UNKNOWN}
    memories = (_memory(launch, index) for index in sorted(found))
    return [memory.tensor_name or memory.name for memory in memories if memory is not None]


def written_memories(module: Module, launch: Launch) -> tuple[Memory, ...]:
    """The memories that a kernel may store to or update: all of the launch's where that is not known."""
    return _memories_of(_touched_by(module, STORES | UPDATES), launch)


def loaded_memories(module: Module, launch: Launch) -> tuple[Memory, ...]:
    """The memories that a kernel may load from: all of the launch's where that is not known."""
    return _memories_of(_touched_by(module, LOADS), launch)


def _memories_of(indices: frozenset[int], launch: Launch) -> tuple[Memory, ...]:
    if UNKNOWN in indices:
        return launch.memories
    found = (_memory(launch, index) for index in sorted(indices))
    return tuple(memory for memory in found if memory is not None)


@lru_cache(maxsize=128)
def _touched_by(module: Module, names: frozenset[str]) -> frozenset[int]:
    """The parameters that operations of these names touch; what a function that is called touches is not known."""
    operations = list(module.walk())
    called = [op for function in module.functions if function is not module.kernel for op in function.walk()]
    found = _touched(operations, pointer_sources(module.kernel), names)
    return frozenset(found | ({UNKNOWN} if any(op.name in names for op in called) else set[int]()))


@lru_cache(maxsize=64)
def pointer_sources(kernel: Function) -> dict[Value, Sources]:
    """For each pointer or descriptor the indices of the parameters it may derive from; UNKNOWN if from elsewhere.

    What enters an operation with regions or successors is taken to reach everything in it and after it.
    """
    sources: dict[Value, Sources] = {
        value: frozenset({index}) for index, value in enumerate(kernel.arguments) if _is_pointer(value)
    }
    is_settled = False
    while not is_settled:
        is_settled = True
        for operation in kernel.walk():
            incoming = _incoming(operation, sources)
            for value in _targets(operation):
                known = sources.get(value, NOTHING)
                if not incoming <= known:
                    sources[value] = known | incoming
                    is_settled = False
    return sources


def _incoming(operation: Operation, sources: dict[Value, Sources]) -> Sources:
    if operation.name in LOADS | ATOMICS or not operation.operands:
        return frozenset({UNKNOWN})
    read = [value for inner in operation.walk() for value in inner.operands]
    read += [value for _, passed in operation.successors for value in passed]
    found = NOTHING.union(*(sources.get(value, NOTHING) for value in read))
    has_inputs = any(_is_pointer(value) for value in read)
    return found if has_inputs else frozenset({UNKNOWN})


def _targets(operation: Operation) -> Iterator[Value]:
    yield from filter(_is_pointer, operation.results)
    blocks = [block for region in operation.regions for block in region.blocks]
    for block in [*blocks, *(block for block, _ in operation.successors)]:
        yield from filter(_is_pointer, block.arguments)


def _is_pointer(value: Value) -> bool:
    return isinstance(element_type(value.type), PointerType | DescriptorType)


def _is_read(operation: Operation, plan: Plan) -> bool:
    return operation.name in UPDATES and any(result in plan.read_values for result in operation.results)


def _touched(operations: list[Operation], sources: dict[Value, Sources], names: frozenset[str]) -> set[int]:
    """The parameters whose tensors operations of these names touch."""
    accesses = [operation for operation in operations if operation.name in names]
    return {source for access in accesses for source in sources.get(access.operands[0], frozenset({UNKNOWN}))}


def _memory(launch: Launch, index: int) -> Memory | None:
    value: Any = launch.arguments[index].value
    return value if isinstance(value, Memory) else None


def _share_bytes(some: list[Memory | None], others: list[Memory | None]) -> bool:
    """Whether a tensor of one list overlaps one of the other; one that is not known may be any."""
    return any(one is None or other is None or one.overlaps(other) for one in some for other in others)
