"""tt: device asserts and prints."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilesight.engine.frame import Frame
from tilesight.engine.registry import frame_rule, where_of
from tilesight.engine.values import Array, Pointer, spread_integers
from tilesight.errors import ExecutionError
from tilesight.ir.module import Operation
from tilesight.ir.types import PointerType, block_shape, element_type


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
    """A line for each element of each active program: `pid (x, y, z) idx (i, j) prefix: value`, as a GPU prints it.

    What is no block is printed once a program, where a GPU does so once a thread.
    """
    prefix = str(operation.attributes.get("prefix", ""))
    output = frame.chunk.output or sys.stdout
    rows = range(frame.chunk.size) if frame.active is None else np.flatnonzero(frame.active).tolist()
    for row in rows:
        place = f"pid ({', '.join(str(index) for index in _place(frame, row))})"
        if not operands:
            output.write(f"{place}{prefix}\n")
        for number, operand in enumerate(operands):
            which = f"(operand {number}) " if len(operands) > 1 else ""
            for index, value in _elements(frame, operation, number, operand, row):
                output.write(f"{place} idx ({index}){prefix}{which}{value}\n")


def _place(frame: Frame, row: int) -> tuple[int, int, int]:
    """The program's coordinates in the grid."""
    x, y, _ = frame.chunk.launch.grid
    program = int(frame.chunk.programs[row])
    return program % x, program // x % y, program // (x * y)


def _elements(frame: Frame, operation: Operation, number: int, operand: Any, row: int) -> Iterator[tuple[str, str]]:
    """Each element of one program's operand as (indices, value), in text; indices of an axis are equally wide."""
    type_ = operation.operands[number].type
    shape = block_shape(type_)
    array = spread_integers(operand.address if isinstance(operand, Pointer) else operand)
    values = np.broadcast_to(array, (frame.chunk.size, *shape))[row]
    show = _format(operation, number, values.dtype, isinstance(element_type(type_), PointerType))
    widths = [len(str(extent - 1)) for extent in shape]
    for place in np.ndindex(*shape):
        index = ", ".join(f"{position:{width}}" for position, width in zip(place, widths, strict=True))
        yield index, show(values[place])


def _format(operation: Operation, number: int, dtype: np.dtype[Any], is_pointer: bool) -> Callable[[Any], str]:
    """How C's printf shows an operand: %f, %i or %u, or hexadecimal in the type's full width."""
    bits = 8 * dtype.itemsize
    unsigned = (1 << bits) - 1
    if is_pointer:
        return lambda value: f"{int(value) & unsigned:#x}"
    if dtype.kind not in "bi":
        return lambda value: f"{float(value):f}"
    if operation.attributes.get("hex"):
        return lambda value: f"0x{int(value) & unsigned:0{bits // 4}x}"
    is_signed = operation.attributes.get("isSigned")
    if dtype.kind == "b" or (isinstance(is_signed, tuple) and not is_signed[number]):
        return lambda value: str(int(value) & unsigned)
    return lambda value: str(int(value))
