"""What a footprint shows: accesses that clash, stores that are overwritten unread."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilesight.engine.launch import Memory
from tilesight.ir.module import Operation

BARRIERS = frozenset(
    {
        "gpu.barrier",
        "ttg.barrier",
        "tt.atomic_cas",
        "tt.atomic_rmw",
        "tt.cat",
        "tt.dot",
        "tt.dot_scaled",
        "tt.gather",
        "tt.histogram",
        "tt.join",
        "tt.reduce",
        "tt.reshape",
        "tt.scan",
        "tt.split",
        "tt.trans",
    }
)
"""What makes a program's threads wait for each other, or may: they exchange lanes through shared memory."""


@dataclass
class Clash:
    """Two accesses of one element that nothing orders.

    Args:
        first, second: the operations, in the order in which the engine ran them
        first_kind, second_kind: load, store or atomic
        programs: of the two, in that order
        lane: flat lane of the second
        element: index in the tensor
        is_benign: both store the same bits
        units: how many units of memory show it
    """

    first: Operation
    second: Operation
    first_kind: str
    second_kind: str
    memory: Memory
    programs: tuple[int, int]
    lane: int
    element: int
    is_benign: bool
    units: int = 0
    seen_programs: set[int] = field(default_factory=set[int])


@dataclass
class Overwrite:
    """Stores that the same program overwrites before anything reads them."""

    first: Operation
    second: Operation
    memory: Memory
    program: int
    units: int = 0
