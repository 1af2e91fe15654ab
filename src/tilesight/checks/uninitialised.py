"""Reads of what nothing has written, told from those whose values are thrown away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.aliasing import Writes
from tilesight.checks.clashes import find_uninitialised_reads
from tilesight.checks.finding import Finding
from tilesight.checks.footprint import Footprint
from tilesight.checks.replay import Replay, with_memories
from tilesight.checks.slices import flow_of
from tilesight.engine import execute
from tilesight.engine.communication import written_memories
from tilesight.engine.launch import Memory
from tilesight.errors import TilesightError

FILLS = (0x00, 0x3F, 0xFF)
"""Bytes to fill unwritten elements with: 0; about 0.75 in f32 and bf16, 1.8 in f16; NaN, and -1 for integers."""
MIXING = frozenset({"tt.dot", "tt.dot_scaled", "tt.reduce", "tt.scan"})


def find_reads_of_nothing(replay: Replay, footprint: Footprint) -> list[Finding]:
    """Reads of `torch.empty` elements that nothing wrote, milder where no output changes with what they hold.

    Where a select right after the load throws the values away, as in code that loads both sides of a condition, it
    is a note; where they enter a sum or a product of matrices first, which another mask may not undo, a warning. That
    no output changes is shown by running the launch with several contents. Ask before the launch's own writes are
    noted in its tensors' flags.
    """
    found = find_uninitialised_reads(footprint, replay.launch)
    if not found or not _is_without_effect(replay):
        return found
    flow = flow_of(replay.module)
    mixing = [operation.operands for operation in replay.module.walk() if operation.name in MIXING]
    mixed = flow.backward(*(value for operands in mixing for value in operands))
    reads = footprint.unwritten.values()
    return [
        replace(
            each,
            level="warning" if read.operation in mixed else "note",
            message=f"{each.message}; what it reads there changes no output",
        )
        for each, read in zip(found, reads, strict=True)
    ]


def _is_without_effect(replay: Replay) -> bool:
    """Whether all that the launch writes is the same whatever unwritten elements hold."""
    try:
        first, *others = (_written_by(replay, fill) for fill in FILLS)
    except TilesightError:
        return False
    return all(
        np.array_equal(flags, other_flags) and np.array_equal(data[flags], other_data[flags])
        for other in others
        for (data, flags), (other_data, other_flags) in zip(first, other, strict=True)
    )


def _written_by(replay: Replay, fill: int) -> Sequence[tuple[NDArray[np.uint8], NDArray[np.bool_]]]:
    """Of each tensor that the launch may write its bytes afterwards, and which of them it wrote."""
    own = {id(memory) for memory in replay.launch.memories}
    launch = with_memories(replay.fresh(), lambda memory: _filled(memory, fill, is_own=id(memory) in own))
    written = written_memories(replay.module, launch)
    writes = Writes(written)
    execute(replay.module, launch, (writes,), replay.options)
    return [(memory.data, writes.bytes_of(memory)[: len(memory.data)]) for memory in written]


def _filled(memory: Memory, fill: int, *, is_own: bool) -> Memory:
    """A tensor whose unwritten bytes are `fill`: the caller's own is copied first."""
    if memory.undefined is None:
        return memory
    filled = replace(memory, data=memory.data.copy()) if is_own else memory
    filled.data[~memory.undefined.written_units(memory.address, len(memory.data))] = fill
    return filled
