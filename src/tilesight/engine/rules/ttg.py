"""ttg, gpu and llvm: the few of their operations that stand in TTIR.

All lanes of all programs of a chunk finish one operation before the next begins, so a barrier within
a program has nothing left to wait for.
"""

from __future__ import annotations

from tilesight.engine.frame import Frame
from tilesight.engine.registry import frame_rule
from tilesight.engine.values import Array
from tilesight.ir.module import Operation


def _nothing_to_wait_for(frame: Frame, operation: Operation) -> None:
    """The order is already kept."""


for _name in ("ttg.barrier", "gpu.barrier"):
    frame_rule(_name)(_nothing_to_wait_for)


@frame_rule("llvm.intr.assume")
def assume(frame: Frame, operation: Operation, condition: Array) -> None:
    """A promise to the optimiser, on which nothing here relies."""
