"""A launch that is too large to run: the programs at the ends of its grid, and those around each wrap."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product

import numpy as np

from tilesight.checks.bounds import BoundsCheck
from tilesight.checks.finding import Finding
from tilesight.checks.overflow import OverflowCheck
from tilesight.checks.place import line_of
from tilesight.checks.replay import Replay
from tilesight.checks.shortened import Shortened, shorten
from tilesight.engine import ExecutionOptions, Launch, execute
from tilesight.errors import ExecutionError
from tilesight.ir.module import Module, Operation

RANDOM_PROGRAMS = 8
LOOP_LIMIT = 10_000


@dataclass(frozen=True)
class Extremes:
    """What was seen of a launch of which few programs ran.

    Args:
        findings: overflows and accesses out of bounds that they do not explain
        programs: linear ids of the programs that ran
        uncovered: what was not looked at, one sentence each
    """

    findings: tuple[Finding, ...]
    programs: tuple[int, ...]
    uncovered: tuple[str, ...]


def inspect_extremes(module: Module, launch: Launch) -> Extremes:
    """Run the corners of a launch's grid, a few programs at random and those at which arithmetic begins to wrap.

    Loops run their first and last rounds. The launch writes to its own memories.

    Raises: TilesightError: as `engine.execute`; a loop that does not end is told in `uncovered` instead
    """
    if launch.programs == 0:
        return Extremes((), (), ())
    short = shorten(module)
    programs = set(_first_choice(launch))
    check, _, error = _run(short, launch, programs)
    for operation, heard in check.wrapped.items():
        programs |= _around_first(short, launch, operation, programs, min(heard))
    check, bounds, error = _run(short, launch, programs)
    found = check.findings(_replay(short, launch))
    found += [finding for finding in bounds.findings() if not check.explains(finding)]
    uncovered = [_cut_text(loop, launch) for loop in short.cut]
    if error is not None:
        uncovered.append(f"{error.where or launch.kernel}: {error.got}: what comes after it was not run")
    return Extremes(tuple(found), tuple(sorted(programs)), tuple(uncovered))


def _first_choice(launch: Launch) -> Iterable[int]:
    """The corners of the grid's box and a few programs at random, the same each time."""
    x, y, _ = launch.grid
    ends = [sorted({0, extent - 1}) for extent in launch.grid]
    yield from (i + x * (j + y * k) for i, j, k in product(*ends))
    yield from np.random.default_rng(0).integers(0, launch.programs, RANDOM_PROGRAMS).tolist()


def _options(programs: Iterable[int]) -> ExecutionOptions:
    return ExecutionOptions(programs=tuple(sorted(programs)), threads=1, loop_limit=LOOP_LIMIT, output=io.StringIO())


def _replay(short: Shortened, launch: Launch) -> Replay:
    """To run it again on its own memories: copies of what it writes would not fit."""
    return Replay(short.module, launch, (), _options(()))


def _run(
    short: Shortened, launch: Launch, programs: Iterable[int]
) -> tuple[OverflowCheck, BoundsCheck, ExecutionError | None]:
    check, bounds = OverflowCheck(), BoundsCheck()
    try:
        execute(short.module, launch, [check, bounds], _options(programs))
    except ExecutionError as error:
        return check, bounds, error
    return check, bounds, None


def _around_first(
    short: Shortened, launch: Launch, operation: Operation, programs: Iterable[int], wrapped: int
) -> set[int]:
    """The program at which an operation begins to wrap, and the one before it."""

    def wraps(program: int) -> bool:
        return operation in _run(short, launch, (program,))[0].wrapped

    below = max((program for program in programs if program < wrapped), default=-1)
    first = _first_true(wraps, below, wrapped)
    return {program for program in (first - 1, first) if program >= 0}


def _first_true(holds: Callable[[int], bool], low: int, high: int) -> int:
    """A number at which a condition turns true, between one where it is false and one where it is true."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _cut_text(loop: Operation, launch: Launch) -> str:
    file, line = line_of(loop, launch)
    name = file.rsplit("/", 1)[-1]
    return f"{name}:{line}: only the loop's first rounds ran: what it carries into addresses grows by no fixed step"
