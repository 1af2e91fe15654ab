"""tt: device asserts and prints."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tilesight.engine.frame import Frame
from tilesight.engine.registry import frame_rule, where_of
from tilesight.engine.values import Array, Pointer, spread_integers
from tilesight.errors import ExecutionError
from tilesight.ir.module import Operation


@frame_rule("tt.assert")
def assert_condition(frame: Frame, operation: Operation, condition: Array) -> None:
    check_assertion(frame, operation, condition, str(operation.attributes.get("message", "")))


def check_assertion(frame: Frame, operation: Operation, condition: Array, message: str) -> None:
    """Fail when an active program has a lane where the condition does not hold.

    Raises: ExecutionError: with the first such program and lane and the assert's own message
    """
    if condition.all():
        return
    failed = ~np.broadcast_to(condition, (frame.chunk.size, *condition.shape[1:]))
    if frame.active is not None:
        failed = failed & frame.active.reshape(-1, *(1,) * (condition.ndim - 1))
    if not failed.any():
        return
    rows = failed.reshape(frame.chunk.size, -1)
    row = int(rows.any(axis=1).argmax())
    raise ExecutionError(
        f"device assert failed in program {frame.chunk.programs[row]}, lane {int(rows[row].argmax())}: {message}",
        where=where_of(operation),
        next_step=f"{int(rows.any(axis=1).sum())} of {frame.chunk.size} programs run together fail it",
    )


@frame_rule("tt.print")
def print_values(frame: Frame, operation: Operation, *operands: Any) -> None:
    """One line for each active program and operand: `pid (x, y, z) prefix: [values]`."""
    prefix = str(operation.attributes.get("prefix", "")).strip()
    x, y, _ = frame.chunk.launch.grid
    output = frame.chunk.output or sys.stdout
    rows = range(frame.chunk.size) if frame.active is None else np.flatnonzero(frame.active).tolist()
    for row in rows:
        program = int(frame.chunk.programs[row])
        place = f"pid ({program % x}, {program // x % y}, {program // (x * y)})"
        shown = [_show(operand, row, operation) for operand in operands] or [""]
        for text in shown:
            output.write(f"{place} {prefix} {text}".rstrip() + "\n")


def _show(operand: Any, row: int, operation: Operation) -> str:
    array = spread_integers(operand.address if isinstance(operand, Pointer) else operand)
    values = array[min(row, array.shape[0] - 1)]
    if operation.attributes.get("hex") and values.dtype.kind in "iu":
        return np.array2string(values, formatter={"int": lambda number: hex(int(number))})
    return np.array2string(values) if values.ndim else str(values)
