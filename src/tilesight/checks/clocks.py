"""What orders the programs of a launch: atomics, by vector clocks.

An atomic hands on what its program did before it (release) and, where its result is read, takes over what
others handed on at the same address (acquire); `relaxed` ones do neither. Source: L. Lamport, "Time, clocks,
and the ordering of events in a distributed system", CACM 21(7), 1978; the epochs are those of C. Flanagan and
S. Freund, "FastTrack", PLDI 2009.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.shadow import FlatPlace, ShadowRegion
from tilesight.engine.communication import ATOMICS
from tilesight.engine.plan import plan_module
from tilesight.ir.module import Module, Operation

MOST_PROGRAMS = 4096
"""Clocks take 4 bytes for each pair of programs."""


@lru_cache(maxsize=64)
def synchronises(module: Module) -> bool:
    """Whether programs learn of each other: through an atomic's result, or a volatile load."""
    read = plan_module(module).read_values
    return any(
        (operation.name in ATOMICS and any(result in read for result in operation.results))
        or (operation.name == "tt.load" and bool(operation.attributes.get("isVolatile")))
        for operation in module.walk()
    )


class Clocks:
    """What each program knows of the others.

    Args:
        programs: how many; with more than `MOST_PROGRAMS` every atomic is taken to order everything
    """

    def __init__(self, programs: int) -> None:
        self._knows_all = programs > MOST_PROGRAMS
        size = 1 if self._knows_all else programs
        self._clocks = np.zeros((size, size), np.int32)
        np.fill_diagonal(self._clocks, 1)
        self._handed: dict[int, NDArray[np.int32]] = {}

    def epoch(self, programs: NDArray[np.int64]) -> NDArray[np.int32]:
        """[N] the programs' own clocks."""
        return np.ones(len(programs), np.int32) if self._knows_all else self._clocks[programs, programs]

    def is_ordered(self, earlier: NDArray[Any], epochs: NDArray[Any], programs: NDArray[np.int64]) -> NDArray[np.bool_]:
        """[N] whether each program knows of what an earlier one did at that epoch."""
        if self._knows_all:
            return np.ones(len(programs), np.bool_)
        return self._clocks[programs, earlier] >= epochs

    def synchronise(self, operation: Operation, region: ShadowRegion, place: FlatPlace) -> None:
        """Order the programs by an atomic or a volatile load that they run, in their order."""
        sem = "acquire" if operation.name == "tt.load" else str(operation.attributes.get("sem", "acq_rel"))
        if self._knows_all or sem == "relaxed":
            return
        pairs = dict.fromkeys(zip(place.programs.tolist(), place.index.tolist(), strict=True))
        for program, index in pairs:
            address = region.address + index * region.unit_bytes
            mine = self._clocks[program]
            handed = self._handed.get(address)
            if handed is not None and sem != "release":
                np.maximum(mine, handed, out=mine)
            if sem != "acquire":
                self._handed[address] = mine.copy() if handed is None else np.maximum(handed, mine)
                self._clocks[program, program] += 1
