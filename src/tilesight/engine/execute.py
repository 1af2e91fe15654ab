"""Executes a launch: all programs of the grid, in chunks that run at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

import tilesight.engine.rules as rules
from tilesight.engine.frame import Chunk, Frame, HearAccess
from tilesight.engine.launch import Argument, Launch, Memory
from tilesight.engine.listener import Listener
from tilesight.engine.options import ExecutionOptions
from tilesight.engine.plan import Plan, plan_module
from tilesight.engine.values import UNKNOWN_ROOT, Array, Descriptor, Pointer, dtype_of
from tilesight.errors import InputError
from tilesight.ir.module import Function, Module
from tilesight.ir.types import DescriptorType, PointerType, Type, block_shape, item_bits

CACHED_LANES = 1 << 17
"""Lanes of the widest block in a chunk: 512 KiB of f32, so that a few live arrays fit a core's cache."""

MOST_PROGRAMS = 1 << 15

KEPT_BYTES = 31 << 20
"""Just under the 32 MiB up to which glibc adapts its thresholds (mallopt(3), M_MMAP_THRESHOLD)."""

assert rules.__all__, "importing the package registers the rules"


@dataclass(frozen=True)
class Execution:
    """A launch that was executed.

    Args:
        programs: how many ran
        chunks: in how many chunks
        seconds: wall-clock time, listeners included
    """

    launch: Launch
    programs: int
    chunks: int
    seconds: float


def execute(
    module: Module,
    launch: Launch,
    listeners: Sequence[Listener] = (),
    options: ExecutionOptions | None = None,
) -> Execution:
    """Run a module's kernel for every program of a launch's grid, writing to the launch's memories.

    Programs run in the order of their linear ids, a chunk of them at once and operation by
    operation; programs that race with each other may therefore see another order than on a GPU.

    Raises:  UnsupportedError: an operation has no rule; nothing has been executed then
             InputError: the arguments do not line up with the kernel's parameters
             ExecutionError: a device assert failed
    """
    started = perf_counter()
    options = options or ExecutionOptions()
    plan = plan_module(module)
    kernel = module.kernel
    arguments = bind_arguments(kernel, launch)
    size = chunk_size(module, launch, options)
    for listener in listeners:
        listener.launch_begins(launch)
    chunks = 0
    _let_the_heap_keep_memory()
    with np.errstate(all="ignore"):
        for programs in _split_programs(launch.programs, size):
            chunk = _chunk(plan, launch, programs, listeners, options)
            Frame(chunk).run_function(kernel, arguments)
            chunks += 1
    for listener in listeners:
        listener.launch_ends(launch)
    return Execution(launch, launch.programs, chunks, perf_counter() - started)


def _let_the_heap_keep_memory() -> None:
    """Free one large untouched block, after which glibc keeps twice its size instead of returning it.

    A chunk's arrays are then reused; without this, page faults can take longer than the arithmetic.
    """
    np.empty(KEPT_BYTES, np.uint8)


def _split_programs(count: int, size: int) -> Iterator[Array]:
    for first in range(0, count, size):
        yield np.arange(first, min(first + size, count), dtype=np.int64)


def _chunk(
    plan: Plan, launch: Launch, programs: Array, listeners: Sequence[Listener], options: ExecutionOptions
) -> Chunk:
    return Chunk(
        launch=launch,
        plan=plan,
        memories=launch.memories,
        programs=programs,
        undefined=options.undefined,
        hear_before=_overridden(listeners, "before_access"),
        hear_after=_overridden(listeners, "after_access"),
        output=options.output,
        spin_limit=options.spin_limit,
    )


def _overridden(listeners: Sequence[Listener], method: str) -> tuple[HearAccess, ...]:
    """The bound methods of listeners that do not leave `method` as it is in Listener."""
    base = getattr(Listener, method)
    return tuple(getattr(it, method) for it in listeners if getattr(type(it), method, base) is not base)


def bind_arguments(kernel: Function, launch: Launch) -> list[Any]:
    """The values of the kernel's parameters.

    Raises: InputError: more or fewer arguments than parameters, or one of the wrong kind
    """
    if len(kernel.arguments) != len(launch.arguments):
        raise InputError(
            f"{len(launch.arguments)} arguments for {launch.kernel}",
            expected=f"{len(kernel.arguments)}: {', '.join(a.name for a in kernel.arguments)}",
        )
    roots = {id(memory): index for index, memory in reversed(list(enumerate(launch.memories)))}
    pairs = zip(kernel.arguments, launch.arguments, strict=True)
    return [_bind(parameter.type, argument, roots) for parameter, argument in pairs]


def _bind(type_: Type, argument: Argument, roots: dict[int, int]) -> Any:
    value = argument.value
    if isinstance(type_, DescriptorType) and isinstance(value, Memory):
        return _bind_descriptor(value, roots[id(value)])
    if isinstance(type_, PointerType):
        if isinstance(value, Memory):
            return Pointer(np.array([value.pointer], np.int64), roots[id(value)])
        return Pointer(np.array([int(value or 0)], np.int64), UNKNOWN_ROOT)
    if value is None or isinstance(value, Memory):
        raise InputError(f"{value!r} for parameter {argument.name}", expected=f"a value of type {type_}")
    dtype = dtype_of(type_)
    if dtype.kind == "i":
        return np.array([int(value) % (1 << 8 * dtype.itemsize)], f"u{dtype.itemsize}").view(dtype)
    return np.array([value]).astype(dtype)


def _bind_descriptor(memory: Memory, root: int) -> Descriptor:
    """A descriptor made on the host, of the tensor that it is given."""
    base = Pointer(np.array([memory.pointer], np.int64), root)
    shape, strides = (tuple(np.array([n], np.int64) for n in sizes) for sizes in (memory.shape, memory.strides))
    return Descriptor(base, shape, strides)


def chunk_size(module: Module, launch: Launch, options: ExecutionOptions) -> int:
    """How many programs run together: what the options say, otherwise what stays in the cache.

    A kernel that waits in a loop for an atomic runs one program after another, as one program that
    spins would otherwise hold up the one that it waits for.
    """
    if options.chunk_programs is not None:
        return max(1, options.chunk_programs)
    if _waits_for_others(module):
        return 1
    sizes = [_value_sizes(value.type) for function in module.functions for value in _values_of(function)]
    widest = max((lanes for lanes, _ in sizes), default=1)
    live_bytes = sum(bytes_ for _, bytes_ in sizes)
    wanted = min(CACHED_LANES // widest, options.memory_cap_bytes // max(1, live_bytes), MOST_PROGRAMS)
    return max(1, min(wanted, launch.programs))


def _values_of(function: Function) -> Iterator[Any]:
    for operation in function.walk():
        yield from operation.results


def _value_sizes(type_: Type) -> tuple[int, int]:
    shape = block_shape(type_)
    lanes = int(np.prod(shape)) if shape else 1
    return lanes, lanes * max(1, item_bits(type_) // 8)


def _waits_for_others(module: Module) -> bool:
    loops = (operation for function in module.functions for operation in function.walk())
    return any(
        loop.name == "scf.while" and any(inner.name in rules.scf.WAITING for inner in loop.walk()) for loop in loops
    )
