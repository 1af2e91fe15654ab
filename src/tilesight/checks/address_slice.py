"""The part of a kernel that addresses, masks, indices and control flow are computed from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from tilesight.checks.slices import Flow, flow_of
from tilesight.engine.communication import ATOMICS, LOADS, STORES
from tilesight.ir.module import Module, Operation, Value
from tilesight.ir.types import FloatType, element_type

POINTER_ACCESSES = ATOMICS | {"tt.load", "tt.store"}
DESCRIPTOR_ACCESSES = (LOADS | STORES | {"tt.descriptor_reduce"}) - POINTER_ACCESSES
OPAQUE = LOADS | ATOMICS | {"arith.fptosi", "arith.fptoui"}
"""What comes out of these is taken as it is: it is data, whatever it was found by."""

INDEX_SEGMENTS = ("indices", "x_offsets", "y_offset")

SinkKind = Literal["access", "index", "bounds", "control"]


@dataclass(frozen=True, eq=False)
class Sink:
    """A place where integers decide what is done to memory.

    Args:
        operation: the access, the descriptor's making or the control flow
        kind: what the values are
        values: of an access the pointer and, where there is one, the mask; otherwise one integer or condition
    """

    operation: Operation
    kind: SinkKind
    values: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class AddressSlice:
    """What reaches memory other than as data.

    Args:
        values: integers, conditions and pointers that a sink depends on
        sinks: in the order of the text, by operation
    """

    values: frozenset[Value]
    sinks: dict[Operation, tuple[Sink, ...]]


@lru_cache(maxsize=64)
def address_slice(module: Module) -> AddressSlice:
    """The slice of a module: followed backwards from each sink to loads, floats and arguments.

    A loop or condition counts where an access lies in it or one of its results is in the slice; what
    lies in combining regions (reductions, scans) is not followed.
    """
    flow = flow_of(module)
    operations = list(module.walk())
    sinks = {operation: tuple(_memory_sinks(operation)) for operation in operations}
    waiting = [operation for operation in operations if _is_control(operation)]
    values = _backward(flow, [value for each in sinks.values() for sink in each for value in sink.values], frozenset())
    is_settled = False
    while not is_settled:
        steering = [operation for operation in waiting if _steers(operation, values, flow)]
        waiting = [operation for operation in waiting if operation not in set(steering)]
        for operation in steering:
            sinks[operation] += tuple(_control_sinks(operation))
        found = [value for operation in steering for sink in sinks[operation] for value in sink.values]
        values = _backward(flow, found, values)
        is_settled = not steering
    return AddressSlice(values, {operation: each for operation, each in sinks.items() if each})


def _memory_sinks(operation: Operation) -> Iterator[Sink]:
    segments = operation.operand_segments
    if operation.name in POINTER_ACCESSES:
        yield Sink(operation, "access", (operation.operands[0], *segments.get("mask", ())))
    elif operation.name in DESCRIPTOR_ACCESSES:
        for name in INDEX_SEGMENTS:
            yield from (Sink(operation, "index", (value,)) for value in segments.get(name, ()))
    elif operation.name == "tt.make_tensor_descriptor":
        yield Sink(operation, "access", operation.operands[:1])
        yield from (Sink(operation, "bounds", (value,)) for value in operation.operands[1:])


def _is_control(operation: Operation) -> bool:
    return operation.name in ("scf.for", "scf.if", "scf.condition", "cf.cond_br")


def _control_sinks(operation: Operation) -> Iterator[Sink]:
    for value in operation.operands[: 3 if operation.name == "scf.for" else 1]:
        yield Sink(operation, "control", (value,))


def _steers(operation: Operation, values: frozenset[Value], flow: Flow) -> bool:
    """Whether a condition or bound decides on an access or on a value of the slice."""
    if operation.name == "cf.cond_br":
        return True
    owner = flow.parents[operation] if operation.name == "scf.condition" else operation
    if not values.isdisjoint(owner.results):
        return True
    return any(inner.name in POINTER_ACCESSES | DESCRIPTOR_ACCESSES for inner in owner.walk())


def _backward(flow: Flow, seeds: list[Value], known: frozenset[Value]) -> frozenset[Value]:
    """The values known with those that the seeds depend on."""
    found = set(known)
    waiting = list(seeds)
    while waiting:
        value = waiting.pop()
        if value in found or isinstance(element_type(value.type), FloatType):
            continue
        found.add(value)
        waiting += flow.sources.get(value, ())
        operation = flow.definitions.get(value)
        if operation is not None and operation.name not in OPAQUE and not operation.regions:
            waiting += operation.operands
    return frozenset(found)
