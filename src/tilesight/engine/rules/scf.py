"""scf: loops and conditions; programs that disagree run under a mask."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilesight.engine.communication import waits_for_others
from tilesight.engine.endless import Watch
from tilesight.engine.frame import Frame
from tilesight.engine.registry import frame_rule
from tilesight.engine.values import Array, Mask, choose_programs
from tilesight.ir.module import Operation


@frame_rule("scf.for", takes_lanes=True)
def run_for(frame: Frame, operation: Operation, *operands: Any) -> tuple[Any, ...]:
    """`for i in range(lower, upper, step)` with carried values."""
    bounds = [_same_for_all(frame, operand) for operand in operands[:3]]
    lower, upper, step = bounds
    dtype = operands[0].dtype
    carried = list(operands[3:])
    if lower is None or upper is None or step is None:
        return tuple(_run_divergent_for(frame, operation, operands[:3], carried))
    if operation.attributes.get("unsignedCmp"):
        lower, upper, step = (bound % (1 << 8 * dtype.itemsize) for bound in (lower, upper, step))
    frame.check_rounds(operation, len(range(lower, upper, step)))
    for index in range(lower, upper, step):
        induction = np.array([index], np.int64).astype(dtype)
        carried = frame.run_region(operation.regions[0], [induction, *carried])
    return tuple(carried)


def _same_for_all(frame: Frame, bound: Array) -> int | None:
    """A bound as one number, or None where active programs have different ones."""
    if bound.size > 1 and frame.active is not None:
        bound = bound[frame.active]
    first = bound[0]
    return int(first) if bound.size == 1 or bool((bound == first).all()) else None


def _run_divergent_for(frame: Frame, operation: Operation, bounds: tuple[Array, ...], carried: list[Any]) -> list[Any]:
    """Each program runs its own number of iterations; those that are done keep their values."""
    index, upper, step = (np.broadcast_to(bound, (frame.chunk.size,)) for bound in bounds)
    unsigned = f"u{index.dtype.itemsize}" if operation.attributes.get("unsignedCmp") else index.dtype
    rounds = 0
    while True:
        frame.check_rounds(operation, rounds := rounds + 1)
        running = frame.is_active(index.view(unsigned) < upper.view(unsigned))
        if not running.any():
            return carried
        if running.all():
            carried = frame.run_region(operation.regions[0], [index, *carried])
            index = index + step
            continue
        found = frame.run_region(operation.regions[0], [index, *carried], running)
        carried = [choose_programs(running, new, old) for new, old in zip(found, carried, strict=True)]
        index = np.where(running, index + step, index)


@frame_rule("scf.if")
def run_if(frame: Frame, operation: Operation, condition: Array) -> tuple[Any, ...]:
    """One of two regions, or both under complementary masks where programs disagree."""
    decision = frame.decide(condition, frame.active)
    if isinstance(decision, bool):
        return tuple(_run_branch(frame, operation, 0 if decision else 1, None))
    others = frame.is_active(~decision)
    chosen = _run_branch(frame, operation, 0, decision)
    alternative = _run_branch(frame, operation, 1, others)
    return tuple(choose_programs(decision, a, b) for a, b in zip(chosen, alternative, strict=True))


def _run_branch(frame: Frame, operation: Operation, index: int, active: Mask | None) -> list[Any]:
    if index >= len(operation.regions) or not operation.regions[index].blocks:
        return []
    return frame.run_region(operation.regions[index], [], active)


@frame_rule("scf.while", takes_lanes=True)
def run_while(frame: Frame, operation: Operation, *carried: Any) -> tuple[Any, ...]:
    """Run the condition's region, then the body, until every program's condition is false.

    A loop that may wait for another program tells so after each round.
    """
    before, after = operation.regions
    may_wait = waits_for_others(operation)
    wait = frame.chunk.wait if may_wait else None
    watch = None if may_wait else Watch(operation)
    active, values = frame.active, list(carried)
    results: list[Any] | None = None
    rounds = 0
    while True:
        frame.check_rounds(operation, rounds := rounds + 1)
        if watch is not None:
            watch.look(rounds, values, active)
        condition, *passed = frame.run_region(before, values, active)
        if results is None or active is None:
            results = passed
        else:
            results = [choose_programs(active, new, old) for new, old in zip(passed, results, strict=True)]
        decision = frame.decide(condition, active)
        if decision is False:
            return tuple(results)
        active = active if decision is True else decision
        values = frame.run_region(after, passed, active)
        if wait is not None:
            wait(operation, values)
