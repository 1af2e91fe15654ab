"""Operations made by a check: with the operand groups that the IR's rules ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilesight.ir.module import UNKNOWN, Attribute, Location, Operation, Value
from tilesight.ir.ops import FORMATS


def build(
    name: str,
    operands: Sequence[Value],
    result: Value,
    attributes: dict[str, Attribute] | None = None,
    location: Location = UNKNOWN,
) -> Operation:
    """An operation of one result, each of whose operands is a group of its own."""
    specs = FORMATS[name].operand_specs
    segments = {spec.name: (operand,) for spec, operand in zip(specs, operands, strict=True)}
    return Operation(name, tuple(operands), (result,), attributes or {}, (), location, segments)


def with_operands(operation: Operation, operands: Sequence[Value], results: tuple[Value, ...]) -> Operation:
    """The operation with other values in the same places."""
    return replace(
        operation, operands=tuple(operands), results=results, operand_segments=segments_of(operation, operands)
    )


def segments_of(operation: Operation, operands: Sequence[Value]) -> dict[str, tuple[Value, ...]]:
    """The groups of an operation's operands, filled with other values in the same places."""
    segments: dict[str, tuple[Value, ...]] = {}
    start = 0
    for name, group in operation.operand_segments.items():
        segments[name] = tuple(operands[start : start + len(group)])
        start += len(group)
    return segments
