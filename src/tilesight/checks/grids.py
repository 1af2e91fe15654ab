"""Grids that are too small, or too large: tails that no program reaches, programs that store nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.cut_short import Shortage
from tilesight.checks.dealing import Dealing, dealing_of, fewer_programs, programs_for
from tilesight.checks.finding import SHOWN_PROGRAMS, Finding
from tilesight.checks.footprint import Footprint
from tilesight.checks.place import launch_line, line_of, name_of
from tilesight.checks.reach import MaskReach, Reach, has_scalar_base, loads_under
from tilesight.checks.shadow import ShadowRegion
from tilesight.checks.slices import flow_of
from tilesight.checks.unwritten import NOBODY
from tilesight.checks.wording import counted
from tilesight.engine.communication import ATOMICS, LOADS, STORES, UPDATES, pointer_sources
from tilesight.engine.launch import Launch, Memory
from tilesight.ir.module import Module, Operation, Value

AXES = "xyz"


def worst(short: Mapping[Operation, Reach]) -> tuple[Operation, Reach] | None:
    """The comparison that falls short by most; None for none."""
    return max(short.items(), key=lambda item: item[1].bound - item[1].highest, default=None)


def touched_units(region: ShadowRegion) -> NDArray[np.bool_] | None:
    """[units] what the launch stored to or updated."""
    known = [region.known(name) for name in ("writer", "updater")]
    touched = [each != NOBODY for each in known if each is not None]
    return np.logical_or.reduce(touched) if touched else None


def shape_text(memory: Memory) -> str:
    """`[3, 40]`."""
    return f"[{', '.join(map(str, memory.shape))}]"


def find_short_grids(footprint: Footprint, reach: MaskReach, module: Module, launch: Launch) -> list[Finding]:
    """A grid that leaves part of a tensor, which was defined before, untouched although its mask lets more through.

    Where an argument enters the offsets, another launch may do the rest: nothing is said then.
    """
    short = worst({each: r for each, r in reach.fallen_short().items() if not has_scalar_base(each, module)})
    if short is None:
        return _find_unread_tails(reach, module, launch)
    found: list[Finding] = []
    for region in {id(region): region for region in footprint.regions.values()}.values():
        touched = touched_units(region)
        for memory in region.memories:
            if touched is None or memory.undefined is not None or not footprint.stores.get(id(region)):
                continue
            seen = region.view_of(memory, touched)
            missing = np.flatnonzero(~seen.all(axis=-1).reshape(-1))
            if 0 < len(missing) < memory.elements and short[1].bound <= memory.elements:
                found.append(too_few(memory, launch, dealing_of(module), short, missing))
    return found or _find_unread_tails(reach, module, launch)


def _find_unread_tails(reach: MaskReach, module: Module, launch: Launch) -> list[Finding]:
    """Tensors whose last tiles no program reads, although the mask of the load lets a whole extent of them in.

    One that other loads read as well, such as those of the next round of a loop, is left to them.
    """
    found: dict[str, Finding] = {}
    fallen_short = reach.tiles_fallen_short()
    ended = {operation: loads_under(operation, module) for operation in fallen_short}
    others = {load for load in module.walk() if load.name in LOADS}.difference(*ended.values())
    read_on = {source for load in others for source in _sources_of(load, module)}
    for operation, short in fallen_short.items():
        sources = {source for load in ended[operation] for source in _sources_of(load, module)}
        for source in sorted(sources - read_on):
            memory = launch.arguments[source].value if source >= 0 else None
            if isinstance(memory, Memory) and short.bound in (memory.elements, *memory.shape):
                found.setdefault(
                    name_of(memory), _unread_tail(memory, launch, dealing_of(module, LOADS), operation, short)
                )
    return list(found.values())


def _sources_of(load: Operation, module: Module) -> frozenset[int]:
    """The arguments that a load's pointers may come from."""
    return pointer_sources(module.kernel).get(load.operands[0], frozenset())


def _unread_tail(memory: Memory, launch: Launch, dealing: Dealing, operation: Operation, reach: Reach) -> Finding:
    tensor = name_of(memory)
    return Finding.of_line(
        "grid",
        launch_line(launch),
        f"grid {launch.grid} is too small: {_reach_text(operation, reach, launch)}, "
        f"the extent of {tensor} {shape_text(memory)}; the rest is read by none",
        programs_for(reach, dealing, _loop_line(dealing, launch)),
        tensor=tensor,
        level="warning",
    )


def _reach_text(operation: Operation, reach: Reach, launch: Launch) -> str:
    """How far the offsets that a mask compares come, and how far they might."""
    name, where = reach.name or "offsets", line_of(operation, launch)[1]
    return f"{name} reaches {reach.highest} where the mask in line {where} lets everything below {reach.bound} in"


def _loop_line(dealing: Dealing, launch: Launch) -> int:
    return line_of(dealing.loop, launch)[1] if dealing.loop is not None else 0


def too_few(
    memory: Memory,
    launch: Launch,
    dealing: Dealing,
    short: tuple[Operation, Reach] | None,
    missing: NDArray[np.int64],
    shortage: Shortage | None = None,
) -> Finding:
    """A grid, or a loop over tiles, that ends before a tensor does; the other arguments are as of `coverage.Output`.

    Args: missing: [N] elements that nothing stored
    """
    tensor = name_of(memory)
    reason = f"its programs end before the last {len(missing)} of the tensor's {memory.elements} elements"
    loop_line = _loop_line(dealing, launch)
    hint = dealing.more_programs(loop_line)
    if shortage is not None:
        axis = AXES[shortage.axis]
        reason = f"its {launch.grid[shortage.axis]} programs along {axis} end where {shortage.extent} reach the end"
    if short is not None:
        reason, hint = _reach_text(*short, launch), programs_for(short[1], dealing, loop_line)
    if shortage is not None and dealing.loop is None:
        hint = f"launch {shortage.extent} programs along {AXES[shortage.axis]} for this tensor, one for each part of it"
    place, what = launch_line(launch), f"grid {launch.grid} is too small"
    if dealing.loop is not None and dealing.reaches_all(launch):
        place, what = line_of(dealing.loop, launch), "the loop over tiles ends early"
        hint = dealing.all_tiles(loop_line)
    return Finding.of_line(
        "grid",
        place,
        f"{what}: {reason}; {counted(len(missing), 'element')} of {tensor} "
        f"{'is' if len(missing) == 1 else 'are'} stored by none",
        hint,
        tensor=tensor,
        program_count=launch.programs,
        lane_count=len(missing),
    )


def find_idle_programs(footprint: Footprint, module: Module, launch: Launch, *, is_done: bool) -> list[Finding]:
    """Programs at the end of an axis that store nothing, whatever the other ids, where no data decides it.

    Args: is_done: every output is full; where elements are left that they might have stored, their stores are wrong
    """
    active = footprint.active_programs
    elements = [memory.elements for memory in launch.memories]
    if active.all() or not active.any() or not all(elements) or not (is_done and _decides_by_ids(module)):
        return []
    by_axis = active.reshape(launch.grid[::-1])
    for axis in range(3):
        used = np.asarray(by_axis.any(axis=tuple(other for other in range(3) if other != 2 - axis)))
        count = len(used) - int(np.flatnonzero(used)[-1]) - 1
        if count:
            idle = _idle(launch, axis, count, active, dealing_of(module))
            return [_sent_home(idle) if _returns_by_ids(module) else idle]
    return []


@lru_cache(maxsize=64)
def _returns_by_ids(module: Module) -> bool:
    """Whether the kernel itself tests a program's id before it works: its author knows of programs too many."""
    flow = flow_of(module)
    tested = [each.operands[0] for each in module.walk() if each.name in ("scf.if", "cf.cond_br")]
    return any(each.name == "tt.get_program_id" for each in flow.backward(*tested)) if tested else False


def _sent_home(idle: Finding) -> Finding:
    hint = "nothing, where the kernel's own test is meant for them: they return at once"
    return replace(idle, level="note", hint=hint)


@lru_cache(maxsize=64)
def _decides_by_ids(module: Module) -> bool:
    """Whether what is stored depends on ids and sizes alone, and programs take one tile each."""
    flow = flow_of(module)
    for operation in module.walk():
        decided_by: list[Value] = []
        if operation.name in STORES | UPDATES:
            decided_by += operation.operand_segments.get("mask", ())
        elif operation.name in ("scf.if", "cf.cond_br"):
            decided_by.append(operation.operands[0])
        elif operation.name == "scf.while":
            return False
        elif operation.name == "scf.for" and any(op.name in STORES | UPDATES for op in operation.walk()):
            decided_by += operation.operands[:3]
            if any(op.name == "tt.get_program_id" for op in flow.backward(*operation.operands[:3])):
                return False
        if any(op.name in LOADS | ATOMICS for op in flow.backward(*decided_by)):
            return False
    return True


def _idle(launch: Launch, axis: int, count: int, active: NDArray[np.bool_], dealing: Dealing) -> Finding:
    file, line = launch_line(launch)
    extent = launch.grid[axis]
    idle = np.flatnonzero(~active)
    which = f"the last {count} of {extent} programs" if count > 1 else f"the last of {extent} programs"
    return Finding(
        kind="grid",
        file=file,
        line=line,
        programs=tuple(idle[:SHOWN_PROGRAMS].tolist()),
        program_count=len(idle),
        lanes=(0, 0),
        lane_count=0,
        tensor="",
        message=f"grid {launch.grid} is too large: {which} along {AXES[axis]} store{'s' * (count == 1)} nothing",
        hint=fewer_programs(extent - count, AXES[axis], dealing),
        level="warning",
    )
