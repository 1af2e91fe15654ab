"""How many programs a grid lacks along one axis, told from where the programs that it has have stored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.shadow import ShadowRegion
from tilesight.checks.unwritten import NOBODY
from tilesight.engine.launch import Launch, Memory

Positions = NDArray[np.int64]


@dataclass(frozen=True)
class Shortage:
    """A grid that ends early along an axis.

    Args:
        axis: 0, 1 or 2
        extent: the programs along it that would reach the end of the tensor
    """

    axis: int
    extent: int


def find_shortage(
    region: ShadowRegion, memory: Memory, missing: Positions, launch: Launch
) -> tuple[Shortage | None, bool]:
    """The axis along which more programs of the same kind would store exactly what is missing.

    Programs must lie at equal distances along the axis. What the first of them stored, moved on by that
    distance past the last one, has to cover all that is missing, and must begin where nothing is stored.

    Args:    missing: [N] elements in row-major order that nothing has written
    Returns: the shortage, None where there is none; whether the distances are equal and so settle it
    """
    writers = np.full(region.units, NOBODY, np.int32)
    for name in ("updater", "writer"):
        known = region.known(name)
        writers = writers if known is None else np.where(known >= 0, known, writers)
    places = region.view_of(memory, np.arange(region.units, dtype=np.int64))[..., 0].reshape(-1)
    programs = writers[places].astype(np.int64)
    stored = programs >= 0
    is_missing = np.zeros(region.units, np.bool_)
    is_missing[places[missing]] = True
    size, is_settled = 1, False
    for axis, extent in enumerate(launch.grid):
        along = programs[stored] // size % extent
        size *= extent
        starts = _starts(along, places[stored], extent, region.units) if extent > 1 else None
        if starts is None:
            continue
        needed = _needed(starts, places[stored][along == 0], is_missing)
        if needed is not None:
            return Shortage(axis, needed), True
        is_settled = True
    return None, is_settled


def _starts(along: Positions, places: Positions, extent: int, units: int) -> Positions | None:
    """[extent] where the programs at each coordinate begin; None where they do not lie at equal distances."""
    starts = np.full(extent, units, np.int64)
    np.minimum.at(starts, along, places)
    steps = np.diff(starts)
    is_even = starts.max() < units and steps[0] > 0 and bool((steps == steps[0]).all())
    return starts if is_even else None


def _needed(starts: Positions, pattern: Positions, is_missing: NDArray[np.bool_]) -> int | None:
    """The extent that would cover all that is missing, or None where none would.

    Args: pattern: what the first programs along the axis stored
    """
    units, extent = len(is_missing), len(starts)
    first, step = int(starts[0]), int(starts[1] - starts[0])
    wanted = np.flatnonzero(is_missing)
    beyond = int(wanted[-1]) - int(pattern.max()) if len(wanted) else 0
    needed = -(-beyond // step) + 1
    begins = first + step * extent
    if needed <= extent or begins >= units or not is_missing[begins] or (needed - extent) * len(pattern) > 4 * units:
        return None
    more = (pattern + step * np.arange(extent, needed)[:, np.newaxis]).reshape(-1)
    covered = np.zeros(units, np.bool_)
    covered[more[more < units]] = True
    return needed if covered[wanted].all() else None
