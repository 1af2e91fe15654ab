"""tt: loads and stores through pointers."""

from __future__ import annotations

from typing import Any

from tilesight.engine.access import load_lanes, pointee_of, store_lanes
from tilesight.engine.frame import Frame
from tilesight.engine.registry import frame_rule, unsupported
from tilesight.engine.values import Pointer, spread
from tilesight.ir.module import Operation

__all__ = ["pointee_of"]


def optional_operand(operation: Operation, operands: tuple[Any, ...], segment: str) -> Any:
    """The value of an optional operand, spread out, or None where the operation has none."""
    values = operation.operand_segments.get(segment, ())
    return spread(operands[operation.operands.index(values[0])]) if values else None


@frame_rule("tt.load", takes_lanes=True)
def load(frame: Frame, operation: Operation, *operands: Any) -> Any:
    pointer = operands[0]
    if not isinstance(pointer, Pointer):
        raise unsupported(operation, "tt.load of a block pointer")
    mask = optional_operand(operation, operands, "mask")
    other = optional_operand(operation, operands, "other")
    source = operation.operands[0]
    return load_lanes(frame, operation, pointer, mask, other, pointee_of(source.type), frame.full_shape(source))


@frame_rule("tt.store", takes_lanes=True)
def store(frame: Frame, operation: Operation, *operands: Any) -> None:
    pointer = operands[0]
    if not isinstance(pointer, Pointer):
        raise unsupported(operation, "tt.store to a block pointer")
    mask = optional_operand(operation, operands, "mask")
    target = operation.operands[0]
    store_lanes(frame, operation, pointer, operands[1], mask, pointee_of(target.type), frame.full_shape(target))
