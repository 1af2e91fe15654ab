"""Bytes of a launch from the addresses of a few of its programs, for grids and tensors that are too large to run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tilesight.engine import ExecutionOptions, Launch, execute
from tilesight.engine.launch import Memory
from tilesight.engine.listener import Access, Listener
from tilesight.ir import Module
from tilesight.ledger.model import Bytes

FEW_PROGRAMS = 16
"""Grids up to this many programs are run as a whole."""
ELEMENTS_A_PROGRAM = 1 << 19
"""A program that has more elements of its tensors to walk is not run."""

_Tensor = tuple[str, int]


@dataclass(frozen=True)
class SampledBytes:
    """What a launch moves, as a few of its programs tell.

    Args:
        bytes: `touched` is what those programs touch, times the programs that are like them, but no more than each
            tensor holds; None where addresses depend on loaded values
        ran: programs that were run
        programs: programs of the grid
        is_uniform: programs taken for alike move equally much, so `requested` is exact
    """

    bytes: Bytes
    ran: int
    programs: int
    is_uniform: bool


@dataclass
class _Moved:
    """What one program moves: bytes requested, and the bytes it touches of each tensor, apart for loads and stores."""

    requested: int = 0
    touched: dict[_Tensor, int] = field(default_factory=dict[_Tensor, int])


class _ProgramListener(Listener):
    """The addresses of one program."""

    hears_in_any_order = True

    def __init__(self) -> None:
        self._requested = 0
        self._seen: dict[_Tensor, list[NDArray[np.int64]]] = {}
        self._items: dict[_Tensor, int] = {}

    def after_access(self, access: Access) -> None:
        addresses = np.broadcast_to(access.address, access.shape)
        is_on = np.ones(access.shape, np.bool_) if access.mask is None else np.broadcast_to(access.mask, access.shape)
        if access.out_of_bounds is not None:
            is_on = is_on & ~np.broadcast_to(access.out_of_bounds, access.shape)
        taken = addresses[is_on]
        self._requested += taken.size * access.item_bytes
        if access.memory is None:
            return
        for way in _WAYS[access.kind]:
            tensor = (way, access.memory.address)
            self._seen.setdefault(tensor, []).append(np.unique(taken))
            self._items[tensor] = access.item_bytes

    def moved(self) -> _Moved:
        touched = {
            tensor: len(np.unique(np.concatenate(parts))) * self._items[tensor] for tensor, parts in self._seen.items()
        }
        return _Moved(self._requested, touched)


_WAYS = {"load": ("read",), "store": ("written",), "atomic": ("read", "written")}


def sample_bytes(module: Module, launch: Launch) -> SampledBytes | None:
    """The bytes of a launch; None where one program alone has too much to walk.

    Of each axis of the grid the last program may have a tail; the others are taken for alike, and the first, a middle
    and the last but one of them are run. Nothing is assumed of what they load: it is zero.
    """
    elements = sum(memory.elements for memory in launch.memories)
    if elements / max(launch.programs, 1) > ELEMENTS_A_PROGRAM:
        return None
    chosen = list(_programs(launch.grid))
    moved = [(_run(module, launch, number), weight) for number, _, weight in chosen]
    requested = sum(each.requested * weight for each, weight in moved)
    alike: dict[tuple[bool, ...], set[int]] = {}
    for (_, ends, _), (each, _) in zip(chosen, moved, strict=True):
        alike.setdefault(ends, set()).add(each.requested)
    return SampledBytes(
        bytes=Bytes(requested=round(requested), touched=_touched(moved, launch)),
        ran=len(chosen),
        programs=launch.programs,
        is_uniform=len(chosen) == launch.programs or all(len(each) == 1 for each in alike.values()),
    )


def _run(module: Module, launch: Launch, number: int) -> _Moved:
    listener = _ProgramListener()
    execute(module, launch, [listener], ExecutionOptions(programs=(number,), threads=1))
    return listener.moved()


def _programs(grid: tuple[int, int, int]) -> Iterator[tuple[int, tuple[bool, ...], float]]:
    """(linear id, on which axes it is the last, how many programs it stands for)."""
    x_extent, y_extent, _ = grid
    is_small = x_extent * y_extent * grid[2] <= FEW_PROGRAMS
    for (x, x_last, x_weight), (y, y_last, y_weight), (z, z_last, z_weight) in product(
        *(list(_places(extent, is_whole=is_small)) for extent in grid)
    ):
        yield x + x_extent * (y + y_extent * z), (x_last, y_last, z_last), x_weight * y_weight * z_weight


def _places(extent: int, *, is_whole: bool) -> Iterator[tuple[int, bool, float]]:
    if is_whole:
        yield from ((place, place == extent - 1, 1.0) for place in range(extent))
        return
    alike = sorted({0, (extent - 1) // 2, max(extent - 2, 0)}) if extent > 1 else []
    yield from ((place, False, (extent - 1) / len(alike)) for place in alike)
    yield extent - 1, True, 1.0


def _touched(moved: Iterable[tuple[_Moved, float]], launch: Launch) -> int | None:
    if any(_is_index(memory) for memory in launch.memories):
        return None
    held = {memory.address: memory.elements * memory.item_bytes for memory in launch.memories}
    sums: dict[_Tensor, float] = {}
    for each, weight in moved:
        for tensor, count in each.touched.items():
            sums[tensor] = sums.get(tensor, 0.0) + count * weight
    return round(sum(min(count, held.get(tensor[1], count)) for tensor, count in sums.items()))


def _is_index(memory: Memory) -> bool:
    return memory.dtype in ("int64", "int32")
