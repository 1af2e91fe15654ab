"""An overflow of float16 that leaves no infinity behind: 1 / inf is 0, and what is stored is finite and wrong."""

from __future__ import annotations

from collections.abc import Collection

from tilesight.checks.precision import StoredError, errors_of, stored_by, widened
from tilesight.checks.replay import Replay
from tilesight.checks.widen import F32, can_widen, every_float
from tilesight.ir.module import Operation
from tilesight.ir.types import FloatType, element_type

LEAST_ROUNDINGS = 64
"""Of the tensor's type: more than sums that are rounded otherwise are apart."""


def makes_halves(operation: Operation) -> bool:
    """Whether an operation's result is of float16, whose numbers end at 65504."""
    return any(_is_half(element_type(value.type)) for value in operation.results)


def what_overflow_costs(replay: Replay, programs: Collection[int]) -> StoredError | None:
    """How far the worst stored value is from what the kernel stores with all its float16 in float32.

    None where nothing is far away: the infinity was in lanes that nobody looks at, or was clamped.

    Args:
        programs: those in which float16 has overflowed
    Raises: TilesightError: as `engine.execute`
    """
    module = replay.module
    if not can_widen(module):
        return None
    halves = {value: F32 for value in every_float(module) if _is_half(element_type(value.type))}
    chosen = tuple(sorted(programs))
    wide = stored_by(replay, widened(module, halves), chosen)
    errors = errors_of(stored_by(replay, widened(module, {}), chosen), wide)
    worst = max(errors.values(), key=lambda error: error.roundings, default=None)
    return worst if worst is not None and worst.roundings >= LEAST_ROUNDINGS else None


def _is_half(element: object) -> bool:
    return isinstance(element, FloatType) and element.name == "f16"
