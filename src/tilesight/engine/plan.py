"""A module prepared for execution: each block's steps with their rules and the values that die there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tilesight.engine.registry import find_rule
from tilesight.ir.module import Block, Function, Module, Operation, Region, Value

TERMINATORS = frozenset(
    {
        "cf.br",
        "cf.cond_br",
        "scf.condition",
        "scf.yield",
        "tt.map_elementwise.return",
        "tt.reduce.return",
        "tt.return",
        "tt.scan.return",
        "ub.unreachable",
    }
)


@dataclass(frozen=True, eq=False)
class Step:
    """One operation of a block.

    `dead` are the values that nothing reads after this step, so that their memory is used again
    while it is still in the cache.
    """

    operation: Operation
    function: Callable[..., Any]
    takes_frame: bool
    takes_lanes: bool
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    dead: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class BlockPlan:
    steps: tuple[Step, ...]
    terminator: Operation | None


@dataclass(frozen=True, eq=False)
class Plan:
    """Steps of every block, what the combining regions of tt operations capture, values read and what defines them."""

    module: Module
    blocks: dict[Block, BlockPlan]
    captures: dict[Operation, tuple[Value, ...]]
    read_values: frozenset[Value]
    definitions: dict[Value, Operation]


@lru_cache(maxsize=64)
def plan_module(module: Module) -> Plan:
    """Find the rule of every operation and the last use of every value; kept for the module's next launch.

    Raises: UnsupportedError: an operation has no rule; nothing has been executed then
    """
    blocks: dict[Block, BlockPlan] = {}
    captures: dict[Operation, tuple[Value, ...]] = {}
    for function in module.functions:
        escaping = _values_between_blocks(function)
        for block in _blocks_of(function):
            blocks[block] = _plan_block(block, escaping)
        combining = [operation for operation in function.walk() if operation.regions and operation.dialect == "tt"]
        captures.update({operation: _captured_values(operation) for operation in combining})
    read = {value for inner in module.walk() for value in _values_read(inner)}
    definitions = {value: inner for inner in module.walk() for value in inner.results}
    return Plan(module, blocks, captures, frozenset(read), definitions)


def _blocks_of(function: Function) -> Iterator[Block]:
    for region in _regions_of(function):
        yield from region.blocks


def _regions_of(function: Function) -> Iterator[Region]:
    yield function.body
    for operation in function.walk():
        yield from operation.regions


def _values_read(operation: Operation) -> Iterator[Value]:
    """Every value that an operation or an operation inside it reads."""
    for inner in operation.walk():
        yield from inner.operands
        for _, passed in inner.successors:
            yield from passed


def values_defined(operation: Operation) -> Iterator[Value]:
    """Every value that an operation or an operation inside it defines."""
    for inner in operation.walk():
        yield from inner.results
        for region in inner.regions:
            for block in region.blocks:
                yield from block.arguments


def _captured_values(operation: Operation) -> tuple[Value, ...]:
    """The values that an operation's regions read from outside."""
    defined = set(values_defined(operation))
    inner = [op for region in operation.regions for block in region.blocks for op in block.operations]
    read = dict.fromkeys(value for operation in inner for value in _values_read(operation))
    return tuple(value for value in read if value not in defined)


def _values_between_blocks(function: Function) -> set[Value]:
    """Values that a block reads and another block of the same region may have defined."""
    escaping: set[Value] = set()
    for region in _regions_of(function):
        for block in region.blocks if len(region.blocks) > 1 else ():
            defined = set(block.arguments)
            defined.update(value for operation in block.operations for value in values_defined(operation))
            read = {value for operation in block.operations for value in _values_read(operation)}
            escaping |= read - defined
    return escaping


def _plan_block(block: Block, escaping: set[Value]) -> BlockPlan:
    terminator = block.operations[-1] if block.operations and block.operations[-1].name in TERMINATORS else None
    body = block.operations[:-1] if terminator else block.operations
    kept = escaping | (set(_values_read(terminator)) if terminator else set[Value]())
    dying = _last_uses(block, body, kept)
    return BlockPlan(tuple(_plan_step(operation, dying.get(operation, [])) for operation in body), terminator)


def _plan_step(operation: Operation, dead: list[Value]) -> Step:
    found = find_rule(operation)
    return Step(
        operation,
        found.function,
        found.takes_frame,
        found.takes_lanes,
        operation.operands,
        operation.results,
        tuple(dead),
    )


def _last_uses(block: Block, body: list[Operation], kept: set[Value]) -> dict[Operation, list[Value]]:
    """Operation → values of this block that are read here and nowhere after it."""
    last: dict[Value, Operation] = {}
    mine = set(block.arguments)
    for operation in body:
        mine.update(operation.results)
        last.update(dict.fromkeys(operation.results, operation))
        last.update(dict.fromkeys(_values_read(operation), operation))
    dying: dict[Operation, list[Value]] = {}
    for value, operation in last.items():
        if value in mine and value not in kept:
            dying.setdefault(operation, []).append(value)
    return dying
