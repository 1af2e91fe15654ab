"""Sums that are kept in a tensor of f16 or bf16, and so are rounded each time that something is added to them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.finding import Finding, Level
from tilesight.checks.narrow import NARROW, SUMS, Candidate, is_narrow, promoted_values
from tilesight.checks.place import line_of, name_of
from tilesight.checks.precision import (
    FLOAT64,
    LEAST_ROUNDINGS,
    LEAST_SHARE,
    LEAST_UNIT,
    ROUNDING_UNITS,
    WRITING,
    StoredError,
    error_text,
    relative_error,
    widened,
)
from tilesight.checks.replay import Replay, overlap_groups, with_memories
from tilesight.checks.slices import flow_of
from tilesight.checks.widen import F32, F64, LOADING, STORING_TILES, Widened, can_widen, every_float
from tilesight.engine import Launch, Listener, Memory, execute
from tilesight.engine.communication import LOADS, STORES, UPDATES, pointer_sources, programs_wait
from tilesight.engine.floats import cast_float
from tilesight.engine.listener import Access
from tilesight.engine.values import FLOAT_DTYPES
from tilesight.ir.module import Module, Operation, Value
from tilesight.ir.types import DescriptorType, FloatType, PointerType, Type, element_type

FEWEST_UPDATES = 4
"""Times that one element is added to: fewer roundings than these are the price of a narrow output."""

POINTER_STEPS = ("addptr", "broadcast", "expand_dims", "make_tensor_descriptor", "reshape", "splat", "trans")
MOVES_POINTERS = frozenset({"arith.select", *(f"tt.{name}" for name in POINTER_STEPS)})
DTYPE_NAMES = {"f16": "float16", "bf16": "bfloat16"}
MEMORY_DTYPES = {F32: "float32", F64: "float64"}
PAGE_BYTES = 1 << 16


@dataclass(frozen=True, eq=False)
class SumInMemory:
    """A store or an atomic that adds to what a narrow tensor holds.

    Args:
        operation: the one that writes
        memory: the tensor
        element: its elements' type
        place: the parameter that the operation reaches it through
        indices: all parameters that share bytes with it
        narrow: values of the sum that are as narrow as the tensor
    """

    operation: Operation
    memory: Memory
    element: FloatType
    place: int
    indices: frozenset[int]
    narrow: frozenset[Value]

    @property
    def is_atomic(self) -> bool:
        return self.operation.name in UPDATES


def find_sums_in_memory(replay: Replay) -> list[Finding]:
    """Sums in f16 or bf16 tensors whose rounding at each addition shows in what the launch leaves, one a line.

    The launch runs again with the tensor and every float in f64, and with the tensor and the sum alone in f32. The
    error of an element that is added to at least `FEWEST_UPDATES` times is |left − f64| / (|f64| + rms(f64)); it is
    found when it is at least twice that of rounding once and twice that of the second run. Under a lock it is a note,
    as its non-determinism is: the author means one addition after another. Tensors that the kernel
    also reaches in ways that are not followed, and kernels that `can_widen` refuses, are not measured.

    Raises: TilesightError: as `engine.execute`
    """
    sums = _sums_in_memory(replay.module, replay.launch)
    if not sums or not can_widen(replay.module):
        return []
    found: dict[tuple[str, int], Finding] = {}
    for one in sums:
        error, updates = _measured(replay, one)
        if error is not None:
            finding = _finding(one, error, updates, replay)
            found.setdefault((finding.file, finding.line), finding)
    return list(found.values())


def _sums_in_memory(module: Module, launch: Launch) -> list[SumInMemory]:
    """The sums of a module, where what touches their tensor is known."""
    found: list[SumInMemory] = []
    for operation in module.walk():
        element = pointed_at(operation.operands[0].type) if operation.name in STORES | UPDATES else None
        if isinstance(element, FloatType) and element.name in NARROW:
            reached = pointer_sources(module.kernel).get(operation.operands[0], frozenset())
            indices = _indices_of_tensor(module, launch, reached, element)
            narrow = _narrow_values(module, operation, indices) if indices else None
            if indices and narrow is not None:
                memory = launch.arguments[min(reached)].value
                assert isinstance(memory, Memory)
                found.append(SumInMemory(operation, memory, element, min(reached), indices, narrow))
    return found


def _narrow_values(module: Module, operation: Operation, indices: frozenset[int]) -> frozenset[Value] | None:
    """What of a sum is narrow beside its tensor; None where the operation adds nothing to what the tensor holds."""
    flow, sources = flow_of(module), pointer_sources(module.kernel)

    def reads(each: Operation) -> bool:
        return each.name in LOADS and bool(sources.get(each.operands[0], frozenset()) & indices)

    before = flow.backward(*operation.operand_segments["value"])
    adds = [each for each in before if each.name in SUMS and any(map(reads, flow.backward(*each.operands)))]
    if not _is_sum(operation) and (operation.name in UPDATES or not adds):
        return None
    made = [value for each in (*adds, *filter(reads, before)) for value in each.results]
    return frozenset(filter(is_narrow, made))


def pointed_at(type_: Type) -> Type | None:
    """What a pointer, a block of them or a descriptor points to."""
    if isinstance(type_, DescriptorType):
        return type_.block.element
    element = element_type(type_)
    return element.pointee if isinstance(element, PointerType) else None


def _is_sum(operation: Operation) -> bool:
    if operation.name == "tt.descriptor_reduce":
        return str(operation.attributes["kind"]) == "add"
    return operation.attributes.get("atomic_rmw_op") == "fadd"


def _indices_of_tensor(
    module: Module, launch: Launch, reached: frozenset[int], element: FloatType
) -> frozenset[int] | None:
    """The parameters that share a tensor's bytes; None when not all that touches it is known and of one type."""
    if len(reached) != 1 or min(reached) < 0:
        return None
    memory = launch.arguments[min(reached)].value
    groups = overlap_groups(launch.memories)
    (group,) = [each for each in groups if any(one is memory for one in each)] or [[]]
    indices = frozenset(place for place, each in enumerate(launch.arguments) if any(each.value is one for one in group))
    is_whole = len(indices) == len(group) and all(each.item_bytes * 8 == element.bits for each in group)
    return indices if is_whole and _is_followed(module, indices, element) else None


def _is_followed(module: Module, indices: frozenset[int], element: FloatType) -> bool:
    """Whether every use of a tensor's pointers is one that a wider tensor can have too."""
    sources = pointer_sources(module.kernel)
    mine = {value for value, reached in sources.items() if reached & indices}
    if any(not sources[value] <= indices or pointed_at(value.type) != element for value in mine):
        return False
    for operation in module.walk():
        is_mine = any(value in mine for value in operation.operands)
        is_known = operation.name in MOVES_POINTERS | LOADING | STORING_TILES or operation.dialect in ("scf", "cf")
        is_update = operation.name in UPDATES and not _is_sum(operation)
        if is_mine and (not is_known or is_update):
            return False
    return True


def _measured(replay: Replay, one: SumInMemory) -> tuple[StoredError | None, int]:
    """The error of a sum, None where it does not stand out, and how often an element is added to at most."""
    module = replay.module
    exact, updates = _contents(
        replay, one, widened(module, {**every_float(module), **_pointers(module, one, F64)}), F64
    )
    often = updates >= FEWEST_UPDATES
    if not often.any():
        return None, 0
    wanted = exact[often]
    dtype = FLOAT_DTYPES[one.element.name]
    left = cast_float(_elements(one.memory).view(dtype), FLOAT64)[often]
    once = cast_float(cast_float(wanted, dtype), FLOAT64)
    rounding = max(relative_error(once, wanted), LEAST_UNIT * ROUNDING_UNITS[one.element.name])
    size = relative_error(left, wanted)
    if size < LEAST_ROUNDINGS * rounding:
        return None, 0
    promoted = promoted_values(module, [Candidate("carried", one.operation, one.narrow, "")])
    wider = {**dict.fromkeys(promoted, F32), **_pointers(module, one, F32)}
    repaired, _ = _contents(replay, one, widened(module, wider), F32)
    better = relative_error(repaired[often], wanted)
    error = StoredError(one.operation, size, rounding, one.element.name, name_of(one.memory), better)
    return (error if size >= LEAST_SHARE * better else None), int(updates.max())


def _pointers(module: Module, one: SumInMemory, float_: FloatType) -> dict[Value, FloatType]:
    sources = pointer_sources(module.kernel)
    return {value: float_ for value, reached in sources.items() if reached <= one.indices and reached}


def _contents(
    replay: Replay, one: SumInMemory, twin: Widened, float_: FloatType
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """[elements] f64: what a launch leaves in a tensor that is wider, and how often each element was written."""
    fresh = replay.fresh()
    group = [
        value for value in (fresh.arguments[place].value for place in sorted(one.indices)) if isinstance(value, Memory)
    ]
    wide = _widened_memories(group, float_, one.element, fresh.memories)
    launch = with_memories(fresh, lambda memory: wide.get(id(memory), memory))
    updates = _Updates(twin, one.operation)
    execute(twin.module, launch, [updates], replace(replay.options, output=io.StringIO()))
    target = launch.arguments[one.place].value
    assert isinstance(target, Memory)
    values = _elements(target).view(FLOAT_DTYPES[float_.name])
    counts = np.zeros(len(values), np.int64) if updates.counts is None else updates.counts
    return cast_float(values, FLOAT64), counts


def _widened_memories(
    group: Sequence[Memory], float_: FloatType, element: FloatType, others: Iterable[Memory]
) -> dict[int, Memory]:
    """Memories that share bytes, each with wider elements, in a place that nothing else has."""
    first = min(memory.address for memory in group)
    last = max(memory.address + len(memory.data) for memory in group)
    narrow = np.zeros(last - first, np.uint8)
    for memory in group:
        narrow[memory.address - first :][: len(memory.data)] = memory.data
    dtype = FLOAT_DTYPES[float_.name]
    data = cast_float(narrow.view(FLOAT_DTYPES[element.name]), dtype).view(np.uint8)
    times = dtype.itemsize * 8 // element.bits
    end = max((memory.address + len(memory.data) for memory in others), default=0)
    start = (end // PAGE_BYTES + 2) * PAGE_BYTES

    def moved(memory: Memory) -> Memory:
        offset = (memory.address - first) * times
        return replace(
            memory,
            address=start + offset,
            data=data[offset : offset + len(memory.data) * times],
            dtype=MEMORY_DTYPES[float_],
            item_bytes=dtype.itemsize,
            pointer=start + offset + (memory.pointer - memory.address) * times,
            undefined=None,
        )

    return {id(memory): moved(memory) for memory in group}


def _elements(memory: Memory) -> NDArray[Any]:
    return np.ascontiguousarray(memory.data)


@dataclass(eq=False)
class _Updates(Listener):
    """Counts how often an operation writes each element of its tensor."""

    hears_in_any_order = True
    hears_kinds = WRITING
    twin: Widened
    operation: Operation
    counts: NDArray[np.int64] | None = None

    def after_access(self, access: Access) -> None:
        if self.twin.unrounded.get(access.operation) is self.operation and access.memory is not None:
            elements = len(access.memory.data) // access.item_bytes
            places = np.broadcast_to((access.address - access.memory.address) // access.item_bytes, access.shape)
            is_inside = (places >= 0) & (places < elements)
            chosen = is_inside if access.mask is None else is_inside & access.mask
            self.counts = np.zeros(elements, np.int64) if self.counts is None else self.counts
            np.add.at(self.counts, places[chosen], 1)


def _finding(one: SumInMemory, error: StoredError, updates: int, replay: Replay) -> Finding:
    tensor, type_name = name_of(one.memory) or "a tensor", DTYPE_NAMES[one.element.name]
    way = "by atomics" if one.is_atomic else "by a load, an addition and a store"
    figures = error_text(error, f"what is left in {tensor}", "in float32")
    message = (
        f"{tensor} is summed up in memory in {type_name}, {way}, with up to {updates:,} roundings an element: {figures}"
    )
    place = line_of(one.operation, replay.launch)
    level: Level = "note" if programs_wait(replay.module) else "warning"
    return Finding.of_line("precision", place, message, _hint(one), tensor=tensor, level=level)


def _hint(one: SumInMemory) -> str:
    tensor = name_of(one.memory) or "the tensor"
    if one.is_atomic:
        return f"let {tensor} be float32, or let each program store a partial sum in float32, and cast once, afterwards"
    return f"add up in a float32 accumulator and store it once, or let {tensor} be float32 and cast it once, afterwards"
