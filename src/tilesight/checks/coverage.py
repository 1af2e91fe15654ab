"""What a launch left unwritten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.cut_short import Shortage, find_shortage
from tilesight.checks.dealing import ONE_BLOCK_EACH, Dealing, dealing_of, turning_branch
from tilesight.checks.finding import Finding
from tilesight.checks.footprint import Footprint
from tilesight.checks.grids import shape_text, too_few, touched_units, worst
from tilesight.checks.place import line_of, name_of
from tilesight.checks.reach import MaskReach, Reach
from tilesight.checks.replay import Replay
from tilesight.checks.shadow import ShadowRegion
from tilesight.checks.withheld import withholding_store
from tilesight.engine.launch import Launch, Memory
from tilesight.ir.module import Operation


@dataclass(frozen=True, eq=False)
class Output:
    """A tensor that a launch stored to and did not fill; whether that is a fault is known when all is over.

    Args:
        memory: the tensor
        launch: the launch
        operation: its store to the tensor, of several the one whose mask keeps back what is missing, or the first
        short: the comparison of the store's mask that the grid does not exhaust, with its reach
        shortage: the axis that ends early, where the programs' own stores tell it
        may_end_early: no order of the programs' stores settles it, and each of them stored something
        dealing: how the kernel's programs share the work
        branch: what turns the programs away that stored nothing to it
    """

    memory: Memory
    launch: Launch
    operation: Operation
    short: tuple[Operation, Reach] | None
    shortage: Shortage | None = None
    may_end_early: bool = False
    dealing: Dealing = ONE_BLOCK_EACH
    branch: Operation | None = None

    def missing(self) -> NDArray[np.int64]:
        """[N] the elements, in row-major order, that nothing has written by now."""
        undefined = self.memory.undefined
        if undefined is None:
            return np.empty(0, np.int64)
        flags = undefined.written_units(self.memory.address, len(self.memory.data), undefined.item_bytes)
        region = ShadowRegion((self.memory,), self.memory.address, undefined.item_bytes, len(flags))
        return np.flatnonzero(~region.view_of(self.memory, flags).all(axis=-1).reshape(-1))


def note_written(footprint: Footprint, reach: MaskReach, replay: Replay) -> list[Output]:
    """Set the flags of what the launch wrote; the outputs that are not full yet.

    Raises: TilesightError: as `engine.execute`
    """
    module, launch = replay.module, replay.launch
    outputs: list[Output] = []
    regions = {id(region): region for region in footprint.regions.values()}
    short = worst(reach.fallen_short())
    for region in regions.values():
        touched = touched_units(region)
        stores = footprint.stores.get(id(region), [])
        for memory in region.memories:
            if memory.undefined is not None and touched is not None:
                _set_flags(memory, region, touched)
                if stores and not region.view_of(memory, touched).all() and region.view_of(memory, touched).any():
                    branch = turning_branch(module, stores) if _has_absent(region, launch) else None
                    output = Output(memory, launch, stores[0], short, dealing=dealing_of(module), branch=branch)
                    missing = output.missing()
                    shortage, is_settled = find_shortage(region, memory, missing, launch)
                    may_end_early = not is_settled and bool(footprint.active_programs.all())
                    store = withholding_store(replay, memory, stores, missing)
                    outputs.append(replace(output, operation=store, shortage=shortage, may_end_early=may_end_early))
    return outputs


def _has_absent(region: ShadowRegion, launch: Launch) -> bool:
    """Whether some programs stored nothing to a region."""
    known = [region.known(name) for name in ("writer", "updater")]
    present = {program for each in known if each is not None for program in np.unique(each).tolist() if program >= 0}
    return len(present) < launch.programs


def _set_flags(memory: Memory, region: ShadowRegion, touched: NDArray[np.bool_]) -> None:
    undefined = memory.undefined
    assert undefined is not None
    start = (memory.address - region.address) // region.unit_bytes
    part = touched[start : start + len(memory.data) // region.unit_bytes]
    width = undefined.item_bytes // region.unit_bytes
    if width > 1:
        part = np.logical_and.reduce(part[: len(part) // width * width].reshape(-1, width), axis=1)
    first = (memory.address - undefined.address) // undefined.item_bytes
    undefined.written[first : first + len(part)] |= part


def find_never_written(outputs: Sequence[Output]) -> list[Finding]:
    """What is still unwritten now that all launches are over, one finding a tensor; and the grids to blame."""
    found: list[Finding] = []
    last = {(output.memory.address, len(output.memory.data)): output for output in outputs}
    for output in last.values():
        missing = output.missing()
        if len(missing):
            found.append(_never_written(output, missing))
            is_short = output.short is not None or output.shortage is not None or _is_tail(output, missing)
            if is_short and not output.dealing.reaches_all(output.launch):
                short, shortage = output.short, output.shortage
                found.append(too_few(output.memory, output.launch, output.dealing, short, missing, shortage))
    return found


def _is_tail(output: Output, missing: NDArray[np.int64]) -> bool:
    """Whether what is missing are the last rows (or elements) of the tensor, whole."""
    memory = output.memory
    row = memory.elements // max(1, memory.shape[0]) if memory.shape else 1
    first = int(missing[0])
    is_suffix = len(missing) == memory.elements - first
    return output.may_end_early and is_suffix and first > 0 and first % row == 0 and output.launch.programs > 1


def _never_written(output: Output, missing: NDArray[np.int64]) -> Finding:
    memory = output.memory
    tensor, first, last = name_of(memory), int(missing[0]), int(missing[-1])
    if last - first + 1 == len(missing):
        which = f"elements {first} to {last}" if last > first else f"element {first}"
    else:
        which = f"{len(missing)} elements ({first} the first, {last} the last)"
    were = "was" if len(missing) == 1 else "were"
    return Finding.of_line(
        "never-written",
        line_of(output.operation, output.launch),
        f"{which} of {tensor} {shape_text(memory)} (from torch.empty) {were} stored by no program",
        _whole(output),
        tensor=tensor,
        lane_count=len(missing),
    )


def _whole(output: Output) -> str:
    """How to fill an output."""
    tensor, launch, dealing = name_of(output.memory), output.launch, output.dealing
    if output.branch is not None:
        line = line_of(output.branch, launch)[1]
        return f"let programs that line {line} turns away store their part of {tensor} too, or make it with torch.zeros"
    if dealing.loop is not None:
        return f"{dealing.all_tiles(line_of(dealing.loop, launch)[1])}; or make {tensor} with torch.zeros"
    return f"store every element of {tensor} (look at grid, mask and strides), or make it with torch.zeros"
