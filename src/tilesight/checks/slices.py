"""What a value is computed from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tilesight.ir.module import Block, Function, Module, Operation, Region, SymbolRef, Value


@dataclass(frozen=True, eq=False)
class Flow:
    """Where the values of a module come from.

    Args:
        definitions: the operation that a value is a result of
        sources: for a block's argument or a result of control flow the values that it may be
        parents: the operation whose region an operation lies in
    """

    definitions: dict[Value, Operation]
    sources: dict[Value, tuple[Value, ...]]
    parents: dict[Operation, Operation]

    def backward(self, *values: Value) -> frozenset[Operation]:
        """Every operation that the values are computed from, through loops, conditions and calls."""
        seen: set[Value] = set()
        found: set[Operation] = set()
        waiting = list(values)
        while waiting:
            value = waiting.pop()
            if value in seen:
                continue
            seen.add(value)
            waiting += self.sources.get(value, ())
            operation = self.definitions.get(value)
            if operation is not None:
                found.add(operation)
                waiting += operation.operands
        return frozenset(found)

    def enclosing(self, operation: Operation) -> Iterator[Operation]:
        """The operations around one, innermost first."""
        while operation in self.parents:
            operation = self.parents[operation]
            yield operation


@lru_cache(maxsize=64)
def flow_of(module: Module) -> Flow:
    """The flow of values in a module."""
    flow = Flow({}, {}, {})
    for function in module.functions:
        for operation in function.walk():
            flow.definitions.update(dict.fromkeys(operation.results, operation))
            for region in operation.regions:
                for block in region.blocks:
                    flow.parents.update(dict.fromkeys(block.operations, operation))
            _note_control_flow(flow, module, operation)
    return flow


def _note_control_flow(flow: Flow, module: Module, operation: Operation) -> None:
    if operation.name == "scf.for":
        block = operation.regions[0].entry
        yielded = _yielded(operation.regions[0])
        initial = operation.operands[3:]
        _add(flow, block.arguments[0], *operation.operands[:3])
        for argument, result, first, last in zip(block.arguments[1:], operation.results, initial, yielded, strict=True):
            _add(flow, argument, first, last)
            _add(flow, result, first, last)
    elif operation.name == "scf.while":
        before, after = operation.regions
        condition, *passed = _yielded(before)
        for argument, first, last in zip(before.entry.arguments, operation.operands, _yielded(after), strict=True):
            _add(flow, argument, first, last)
        for argument, result, value in zip(after.entry.arguments, operation.results, passed, strict=True):
            _add(flow, argument, value, condition)
            _add(flow, result, value, condition)
    elif operation.name == "scf.if":
        for region in operation.regions:
            if region.blocks:
                for result, value in zip(operation.results, _yielded(region), strict=True):
                    _add(flow, result, value)
    elif operation.name == "tt.call":
        callee = operation.attributes["callee"]
        assert isinstance(callee, SymbolRef)
        _note_call(flow, module.function(callee.name), operation)
    for block, passed in operation.successors:
        for argument, value in zip(block.arguments, passed, strict=True):
            _add(flow, argument, value)


def _note_call(flow: Flow, function: Function, call: Operation) -> None:
    for argument, value in zip(function.arguments, call.operands, strict=True):
        _add(flow, argument, value)
    for block in function.body.blocks:
        last = block.operations[-1] if block.operations else None
        if last is not None and last.name == "tt.return":
            for result, value in zip(call.results, last.operands, strict=True):
                _add(flow, result, value)


def _add(flow: Flow, value: Value, *sources: Value) -> None:
    flow.sources[value] = (*flow.sources.get(value, ()), *sources)


def _yielded(region: Region) -> tuple[Value, ...]:
    block: Block = region.entry
    return block.operations[-1].operands if block.operations else ()
