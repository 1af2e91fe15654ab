"""Executes a launch: all programs of the grid, in chunks that run at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

import tilesight.engine.rules as rules
from tilesight.engine.binding import bind_arguments, check_grid
from tilesight.engine.budget import CACHED_LANES, chunk_size, widest_block
from tilesight.engine.chunks import Programs, run_at_once, run_one_by_one, split_programs
from tilesight.engine.communication import chunks_are_independent, order_is_seen, programs_wait, stored_tensors
from tilesight.engine.frame import Chunk, Frame, HearAccess, HearStep, Wait
from tilesight.engine.launch import Launch
from tilesight.engine.listener import ACCESS_KINDS, AccessKind, Listener
from tilesight.engine.options import ExecutionOptions
from tilesight.engine.plan import Plan, plan_module
from tilesight.engine.turns import Turns
from tilesight.engine.writes import Writes
from tilesight.errors import ExecutionError, TilesightError
from tilesight.ir.module import Module, Operation

KEPT_BYTES = 31 << 20
"""Just under the 32 MiB up to which glibc adapts its thresholds (mallopt(3), M_MMAP_THRESHOLD)."""

MOST_THREADS = 8

assert rules.__all__, "importing the package registers the rules"


@dataclass(frozen=True)
class Execution:
    """A launch that was executed.

    Args:
        programs: how many ran
        chunks: in how many chunks
        threads: how many chunks ran at the same time
        seconds: wall-clock time, listeners included
    """

    launch: Launch
    programs: int
    chunks: int
    threads: int
    seconds: float


def execute(
    module: Module,
    launch: Launch,
    listeners: Sequence[Listener] = (),
    options: ExecutionOptions | None = None,
) -> Execution:
    """Run a module's kernel for every program of a launch's grid, writing to the launch's memories.

    A chunk of programs runs at once, operation by operation, chunks in the order of their programs'
    linear ids; several chunks run at the same time where none can tell. Programs that race with each
    other may therefore see another order than on a GPU. Programs that wait for each other run by turns.

    Raises:  UnsupportedError: an operation has no rule; nothing has been executed then
             InputError: the arguments do not line up with the kernel's parameters, or the grid is too large
             ExecutionError: a device assert failed, a deadlock, or no room under the memory cap
    """
    started = perf_counter()
    options = options or ExecutionOptions()
    check_grid(launch)
    plan = plan_module(module)
    arguments = bind_arguments(module.kernel, launch)
    schedule = _schedule(plan, launch, listeners, options)
    run = partial(_run_chunk, plan, launch, arguments, _Hearing.of(listeners, module, schedule.threads), options)
    for listener in listeners:
        listener.launch_begins(launch)
    _let_the_heap_keep_memory()
    try:
        _run(schedule, run, options)
    except (TilesightError, MemoryError) as error:
        raise _half_way(error, plan, launch) from error
    for listener in listeners:
        listener.launch_ends(launch)
    return Execution(launch, launch.programs, len(schedule.chunks), schedule.threads, perf_counter() - started)


@dataclass(frozen=True)
class _Schedule:
    """The chunks, how many run at the same time, and whether they are single programs that run by turns."""

    chunks: Sequence[Programs]
    threads: int
    by_turns: bool = False


def _schedule(plan: Plan, launch: Launch, listeners: Sequence[Listener], options: ExecutionOptions) -> _Schedule:
    programs = _chosen_programs(launch, options)
    if programs_wait(plan.module):
        chunk_size(plan, len(programs), options, threads=1)
        return _Schedule(split_programs(programs, 1), threads=1, by_turns=True)
    threads = _threads(plan, launch, listeners, options)
    size = chunk_size(plan, len(programs), options, threads)
    if order_is_seen(plan):
        size = 1
    chunks = split_programs(programs, size)
    return _Schedule(chunks, max(1, min(threads, len(chunks))))


def _chosen_programs(launch: Launch, options: ExecutionOptions) -> Programs:
    """[P] int64 linear ids in the order in which programs run."""
    given = options.programs
    chosen = np.arange(launch.programs, dtype=np.int64) if given is None else np.array(given, np.int64)
    return chosen[::-1].copy() if options.backwards else chosen


def _threads(plan: Plan, launch: Launch, listeners: Sequence[Listener], options: ExecutionOptions) -> int:
    """How many chunks may run at the same time; 1 for launches that a thread's start would slow down."""
    wanted = options.threads or min(len(os.sched_getaffinity(0)), MOST_THREADS)
    is_short = options.threads is None and launch.programs * widest_block(plan) < 4 * CACHED_LANES
    if wanted == 1 or is_short or not all(listener.hears_in_any_order for listener in listeners):
        return 1
    return wanted if chunks_are_independent(plan, launch) else 1


def _run(schedule: _Schedule, run: Callable[..., None], options: ExecutionOptions) -> None:
    if schedule.by_turns:
        writes = Writes(holds_updates=False)
        turns: Turns

        def run_program(program: int) -> None:
            run(np.array([program], np.int64), writes, turns.wait)

        turns = Turns([int(chunk[0]) for chunk in schedule.chunks], run_program, writes, options.spin_limit)
        turns.run()
    elif schedule.threads > 1:
        run_at_once(schedule.chunks, run, schedule.threads)
    else:
        run_one_by_one(schedule.chunks, run, options.memory_cap_bytes // 4)


def _run_chunk(
    plan: Plan,
    launch: Launch,
    arguments: Sequence[Any],
    hearing: _Hearing,
    options: ExecutionOptions,
    programs: Programs,
    writes: Writes,
    wait: Wait | None = None,
) -> None:
    chunk = Chunk(
        launch=launch,
        plan=plan,
        memories=launch.memories,
        programs=programs,
        undefined=options.undefined,
        hear_before=hearing.before,
        hear_after=hearing.after,
        output=options.output,
        writes=writes,
        hear_steps=hearing.steps,
        loop_limit=options.loop_limit,
        wait=wait,
    )
    Frame(chunk).run_function(plan.module.kernel, arguments)


@dataclass(frozen=True)
class _Hearing:
    """The listeners' methods that are overridden; only one is called at a time."""

    before: dict[AccessKind, tuple[HearAccess, ...]]
    after: dict[AccessKind, tuple[HearAccess, ...]]
    steps: dict[Operation, tuple[HearStep, ...]]

    @classmethod
    def of(cls, listeners: Sequence[Listener], module: Module, threads: int) -> _Hearing:
        lock = threading.Lock() if threads > 1 else None
        before, after = (_overridden(listeners, method, lock) for method in ("before_access", "after_access"))
        steps: dict[Operation, tuple[HearStep, ...]] = {}
        for listener in listeners:
            hear = listener.after_step if lock is None else partial(_hear_alone, listener.after_step, lock)
            for operation in listener.watched(module):
                steps[operation] = (*steps.get(operation, ()), hear)
        return cls(before, after, steps)


def _overridden(
    listeners: Sequence[Listener], method: str, lock: threading.Lock | None
) -> dict[AccessKind, tuple[HearAccess, ...]]:
    """For each kind of access the bound methods of listeners that do not leave `method` as it is in Listener."""
    base = getattr(Listener, method)
    hearing = [it for it in listeners if getattr(type(it), method, base) is not base]
    heard = [(it, getattr(it, method)) for it in hearing]
    calls = [(it, hear if lock is None else partial(_hear_alone, hear, lock)) for it, hear in heard]
    return {kind: tuple(hear for it, hear in calls if kind in it.hears_kinds) for kind in ACCESS_KINDS}


def _hear_alone(hear: Callable[[Any], None], lock: threading.Lock, heard: Any) -> None:
    with lock:
        hear(heard)


def _half_way(error: TilesightError | MemoryError, plan: Plan, launch: Launch) -> TilesightError:
    """The error of a launch that had begun: it says which tensors may hold part of the results."""
    stored = ", ".join(stored_tensors(plan.module, launch)) or "the tensors that the kernel stores to"
    rest = f"the launch stopped half way: {stored} may be partly written"
    if isinstance(error, MemoryError):
        step = f"lower ExecutionOptions(memory_cap_bytes=…); {rest}"
        return ExecutionError(f"{launch.kernel} ran out of memory ({error})", next_step=step)
    step = f"{error.next_step}; {rest}" if error.next_step else rest
    return type(error)(error.got, where=error.where, expected=error.expected, next_step=step)


def _let_the_heap_keep_memory() -> None:
    """Free one large untouched block, after which glibc keeps twice its size instead of returning it.

    A chunk's arrays are then reused; without this, page faults can take longer than the arithmetic.
    """
    np.empty(KEPT_BYTES, np.uint8)
