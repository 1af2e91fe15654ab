"""tt: a scalar function mapped over the lanes of blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tilesight.engine.frame import Frame
from tilesight.engine.registry import frame_rule
from tilesight.engine.values import Array
from tilesight.ir.module import Operation
from tilesight.ir.types import block_shape


@frame_rule("tt.map_elementwise")
def map_elementwise(frame: Frame, operation: Operation, *sources: Array) -> tuple[Array, ...]:
    """Run the region for every `pack` neighbouring lanes, each such group as a program of its own.

    Lanes may therefore part ways in the region's loops and conditions as programs do.
    """
    pack = operation.attributes["pack"]
    assert isinstance(pack, int)
    size, shape = frame.chunk.size, block_shape(operation.operands[0].type)
    groups = int(np.prod(shape)) // pack
    arguments: list[Any] = []
    for source in sources:
        lanes = np.broadcast_to(source, (size, *shape)).reshape(size * groups, pack)
        arguments.extend(lanes[:, position] for position in range(pack))
    found = _frame_of_groups(frame, operation, groups).run_region(operation.regions[0], arguments)
    results: list[Array] = []
    for first in range(0, len(found), pack):
        parts = [np.broadcast_to(part, (size * groups,)) for part in found[first : first + pack]]
        results.append(np.stack(parts, axis=-1).reshape(size, *shape))
    return tuple(results)


def _frame_of_groups(frame: Frame, operation: Operation, groups: int) -> Frame:
    """A frame in which each group of lanes stands for its program."""
    chunk = replace(frame.chunk, programs=np.repeat(frame.chunk.programs, groups))
    inner = Frame(chunk, None if frame.active is None else np.repeat(frame.active, groups))
    for value in frame.chunk.plan.captures[operation]:
        outer = frame.values[value]
        inner.values[value] = outer if outer.size == 1 else np.repeat(outer, groups)
    return inner
