"""Loops that can be seen not to end: what their condition is made of comes back unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np

from tilesight.engine.communication import LOADS, UPDATES
from tilesight.engine.registry import where_of
from tilesight.engine.turns import bytes_of
from tilesight.engine.values import Array, Mask
from tilesight.errors import EndlessLoopError
from tilesight.ir.module import Operation, Value

FIRST_LOOK = 256
"""Rounds of a loop before it is looked at; then again whenever they have doubled."""
NOT_COMPUTED = LOADS | UPDATES | {"tt.call", "tt.elementwise_inline_asm"}
"""What may give another result for the same operands."""


@lru_cache(maxsize=256)
def deciding_values(loop: Operation) -> tuple[int, ...] | None:
    """Which of the values that a while loop carries its condition depends on, over however many rounds.

    None where it depends on anything else that may change, such as what is read from memory.
    """
    before, after = loop.regions
    defined = {result: inner for inner in loop.walk() for result in inner.results}
    condition, carried = before.entry.operations[-1].operands, after.entry.operations[-1].operands
    from_rounds = {argument: number for number, argument in enumerate(before.entry.arguments)}
    from_condition = dict(zip(after.entry.arguments, condition[1:], strict=True))
    deciding: set[int] = set()
    seen: set[Value] = set()
    left = [condition[0]]
    while left:
        value = left.pop()
        if value in seen:
            continue
        seen.add(value)
        if value in from_rounds:
            deciding.add(from_rounds[value])
            left.append(carried[from_rounds[value]])
        elif value in from_condition:
            left.append(from_condition[value])
        elif value in defined:
            inside = list(defined[value].walk())
            if any(inner.name in NOT_COMPUTED for inner in inside):
                return None
            left += [operand for inner in inside for operand in inner.operands]
    return tuple(sorted(deciding))


class Watch:
    """Looks at a while loop now and then, and gives it up where it goes in a circle of one round.

    Args: loop: `scf.while` that waits for no other program
    """

    def __init__(self, loop: Operation) -> None:
        self._loop = loop
        self._deciding = deciding_values(loop)
        self._look_at = FIRST_LOOK
        self._state: tuple[Any, ...] | None = None

    def look(self, rounds: int, carried: Sequence[Any], active: Mask | None) -> None:
        """Called before each round.

        Args: active: the programs that are still in the loop; None for all of the frame's
        Raises: EndlessLoopError: where neither they nor what decides has changed in a round
        """
        if self._deciding is None or rounds < self._look_at:
            return
        going = None if active is None else active.tobytes()
        state = (going, *(bytes_of(_of_programs(carried[place], active)) for place in self._deciding))
        if rounds == self._look_at:
            self._state = state
            return
        self._look_at *= 2
        if state == self._state:
            raise EndlessLoopError(
                f"a loop never ends: what its condition is made of was the same in its {rounds - 1:,}th and its "
                f"{rounds:,}th round",
                where=where_of(self._loop),
                expected="something in the condition that the loop changes",
            )


def _of_programs(value: Any, active: Mask | None) -> Any:
    """Those of a value's lanes that active programs have: what the others carry is never used again."""
    if active is None or not isinstance(value, np.ndarray):
        return value
    array = cast(Array, value)
    return array if len(array) != len(active) else array[active]
