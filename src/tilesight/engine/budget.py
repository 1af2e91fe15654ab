"""How many programs run together: as many as stay in the cache, never more than the memory cap allows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from tilesight.engine.options import ExecutionOptions
from tilesight.engine.plan import Plan
from tilesight.engine.registry import where_of
from tilesight.errors import ExecutionError
from tilesight.ir.module import Block, Function, Operation, SymbolRef, Value
from tilesight.ir.types import Type, block_shape, item_bits

CACHED_LANES = 1 << 17
"""Lanes of the widest block in a chunk: 512 KiB of f32, so that a few live arrays fit a core's cache."""

MOST_PROGRAMS = 1 << 15

SCRATCH_BYTES_A_LANE = 48
"""What one rule may take for a lane while it runs: addresses, indices and masks of a gather, f64 copies."""


@dataclass(frozen=True)
class Need:
    """What one program's values take at most, and the operation at which they do."""

    bytes: int
    operation: Operation | None


def chunk_size(plan: Plan, programs: int, options: ExecutionOptions, threads: int) -> int:
    """How many programs run together in each of `threads` chunks.

    Raises: ExecutionError: the values of one program alone may not fit under the memory cap
    """
    need = need_of(plan)
    fitting = options.memory_cap_bytes // threads // max(1, need.bytes)
    if fitting < 1 and need.bytes <= options.memory_cap_bytes:
        fitting = 1
    if fitting < 1:
        raise ExecutionError(
            f"one program's values take up to {need.bytes:,} bytes at once",
            where=where_of(need.operation) if need.operation else "",
            expected=f"at most memory_cap_bytes = {options.memory_cap_bytes:,}",
            next_step="raise it (check --memory-cap, ExecutionOptions(memory_cap_bytes=…)) or make the blocks smaller; "
            "nothing was executed",
        )
    wanted = options.chunk_programs or min(CACHED_LANES // widest_block(plan), MOST_PROGRAMS)
    return max(1, min(wanted, fitting, programs))


@lru_cache(maxsize=64)
def widest_block(plan: Plan) -> int:
    """Lanes of the widest value."""
    values = (value for operation in plan.module.walk() for value in operation.results)
    return max((_lanes(value.type) for value in values), default=1)


@lru_cache(maxsize=64)
def need_of(plan: Plan) -> Need:
    """The most that one program's values take at once, every axis counted in full."""
    kernel = plan.module.kernel
    return _need_of_function(plan, kernel, sum(_bytes(value) for value in kernel.arguments))


def _need_of_function(plan: Plan, function: Function, held: int) -> Need:
    """Of several blocks everything is counted as held: values live across them."""
    blocks = function.body.blocks
    if len(blocks) > 1:
        held += sum(_bytes(value) for block in blocks for op in block.operations for value in op.results)
    return _largest(_need_of_block(plan, block, held) for block in blocks)


def _need_of_block(plan: Plan, block: Block, held: int) -> Need:
    """Walk the block's steps, adding what each defines and dropping what dies there."""
    most = Need(held, None)
    held += sum(_bytes(value) for value in block.arguments)
    for step in plan.blocks[block].steps:
        operation = step.operation
        inner = _largest(_need_of_block(plan, b, held) for region in operation.regions for b in region.blocks)
        called = _need_of_call(plan, operation, held)
        held += sum(_bytes(value) for value in step.results)
        widest = max((_lanes(value.type) for value in (*step.operands, *step.results)), default=1)
        own = Need(held + widest * SCRATCH_BYTES_A_LANE, operation)
        most = _largest((most, inner, called, own))
        held -= sum(_bytes(value) for value in step.dead)
    return most


def _need_of_call(plan: Plan, operation: Operation, held: int) -> Need:
    if operation.name != "tt.call":
        return Need(held, None)
    callee = operation.attributes["callee"]
    assert isinstance(callee, SymbolRef)
    return _need_of_function(plan, plan.module.function(callee.name), held)


def _largest(needs: Iterable[Need]) -> Need:
    return max(needs, key=lambda need: need.bytes, default=Need(0, None))


def _bytes(value: Value) -> int:
    return _lanes(value.type) * max(1, item_bits(value.type) // 8)


def _lanes(type_: Type) -> int:
    return prod(block_shape(type_))
