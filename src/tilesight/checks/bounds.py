"""Accesses outside the tensor that a pointer derives from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.finding import SHOWN_PROGRAMS, Finding
from tilesight.checks.gaps import Gaps
from tilesight.checks.place import line_of, name_of
from tilesight.checks.wording import counted
from tilesight.engine.launch import Launch, Memory
from tilesight.engine.listener import Access, Listener

WRAPPED_INDEX = 1 << 30
"""An index this far below 0 is more likely an int32 that wrapped around than a wrong offset."""

Side = Literal["end", "start", "boundary", "gap", "nowhere"]
VERBS = {"load": "reads", "store": "writes", "atomic": "updates"}


@dataclass
class _Fault:
    """What is known of one line's accesses outside one tensor."""

    access: Access
    tensor: str
    side: Side
    lowest_index: int
    first_program: int
    first_lanes: tuple[int, int]
    first_count: int
    lane_count: int = 0
    programs: set[int] = field(default_factory=set[int])


class BoundsCheck(Listener):
    """Collects the lanes that access memory outside their tensor, one finding a line, tensor and kind."""

    hears_in_any_order = True

    def __init__(self) -> None:
        self._faults: dict[tuple[str, int, str, str], _Fault] = {}
        self._launch: Launch | None = None
        self._gaps: dict[int, Gaps] = {}

    def after_access(self, access: Access) -> None:
        gaps = self._gaps.get(id(access.memory)) if access.memory is not None else None
        between = gaps.lanes_between(access) if gaps is not None else None
        found = access.out_of_bounds if access.out_of_bounds is not None else between
        if found is None:
            return
        outside = np.broadcast_to(found, access.shape).reshape(access.shape[0], -1)
        rows = np.flatnonzero(outside.any(axis=1))
        location, tensor = access.operation.location.user_frame, name_of(access.memory)
        key = (location.file, location.line, tensor, access.kind)
        known = self._faults.get(key)
        if known is None or int(access.programs[rows[0]]) < known.first_program:
            earlier = _first_fault(access, outside, int(rows[0]), tensor)
            if known is not None:
                earlier.lane_count, earlier.programs = known.lane_count, known.programs
            self._faults[key] = earlier
        fault = self._faults[key]
        fault.lane_count += int(np.count_nonzero(outside))
        fault.programs.update(access.programs[rows].tolist())

    def launch_begins(self, launch: Launch) -> None:
        """Remember the launch, and which of its tensors are views with elements of others between theirs."""
        self._launch = launch
        self._gaps = {id(memory): gaps for memory in launch.memories if (gaps := Gaps.of(memory)) is not None}

    def findings(self) -> list[Finding]:
        """One finding for each line, tensor and kind of access, in the order of lines."""
        found = [_finding(fault, self._launch) for fault in self._faults.values()]
        return sorted(found, key=lambda finding: finding.line)


def _first_fault(access: Access, outside: NDArray[np.bool_], row: int, tensor: str) -> _Fault:
    lanes = np.flatnonzero(outside[row])
    address = np.broadcast_to(access.address, access.shape).reshape(access.shape[0], -1)[row, lanes]
    side, lowest = _side_of(access.memory, address, access.item_bytes)
    return _Fault(
        access=access,
        tensor=tensor,
        side=side,
        lowest_index=lowest,
        first_program=int(access.programs[row]),
        first_lanes=(int(lanes[0]), int(lanes[-1])),
        first_count=len(lanes),
    )


def _side_of(memory: Memory | None, address: NDArray[np.int64], item_bytes: int) -> tuple[Side, int]:
    """On which side of the tensor the addresses lie, and the lowest element index among them."""
    if memory is None:
        return "nowhere", 0
    lowest = (int(address.min()) - memory.pointer) // item_bytes
    if int(address.max()) + item_bytes > memory.address + len(memory.data):
        return "end", lowest
    if int(address.min()) < memory.address:
        return "start", lowest
    is_between = ((address - memory.address) % item_bytes == 0).all() and len(memory.data) >= item_bytes
    return ("gap" if is_between else "boundary"), lowest


def _finding(fault: _Fault, launch: Launch | None) -> Finding:
    frame = fault.access.operation.location.user_frame
    file, line = line_of(fault.access.operation, launch) if launch is not None else (frame.file, frame.line)
    return Finding(
        kind="out-of-bounds",
        file=file,
        line=line,
        programs=tuple(sorted(fault.programs)[:SHOWN_PROGRAMS]),
        program_count=len(fault.programs),
        lanes=fault.first_lanes,
        lane_count=fault.lane_count,
        tensor=fault.tensor,
        message=_message(fault),
        hint=_hint(fault, launch),
    )


def _message(fault: _Fault) -> str:
    verb = VERBS[fault.access.kind]
    first, last = fault.first_lanes
    lanes = f"lane {first}" if first == last else f"lanes {first} to {last}"
    where = f"{lanes} of program {fault.first_program} ({fault.first_count} lane{'s' * (fault.first_count > 1)})"
    memory = fault.access.memory
    if memory is None:
        return f"{fault.access.kind} {verb} an address that lies in no tensor: {where}"
    place = {
        "end": "past its end",
        "start": "before its start",
        "boundary": "between two of its elements",
        "gap": "what lies between the view's elements",
    }[fault.side]
    tensor = fault.tensor
    size = f"{tensor} has {counted(memory.elements, 'element')}"
    if fault.side == "gap":
        size = f"{tensor} is a view of shape {list(memory.shape)} with strides {list(memory.strides)}"
    return f"{fault.access.kind} of {tensor} {verb} {place}: {where}; {size}"


def _hint(fault: _Fault, launch: Launch | None) -> str:
    memory = fault.access.memory
    if memory is None:
        return "derive the pointer from one of the kernel's tensor arguments"
    if fault.side == "boundary":
        return f"keep the address a multiple of {fault.access.item_bytes} bytes from the tensor's first"
    if fault.lowest_index <= -WRAPPED_INDEX:
        return "the offset wrapped around in int32; cast the program id or the stride to int64 first"
    reason = "the mask lets too many lanes through" if _has_mask(fault.access) else "the mask is missing"
    if fault.side == "start":
        return f"mask with offsets >= 0 ({reason})"
    if fault.side == "gap" and fault.access.operation.name.startswith("tt.descriptor"):
        return f"make the descriptor with {fault.tensor}'s strides, {list(memory.strides)}, and its shape"
    if fault.side == "gap":
        return f"use the tensor's strides for its offsets, and mask each axis with its own extent ({reason})"
    if fault.access.operation.name.startswith("tt.descriptor"):
        return f"a descriptor masks by its own shape: make it with shape={list(memory.shape)}, that of {fault.tensor}"
    if not memory.elements:
        return f"mask with the number of elements of {fault.tensor}, which is empty here ({reason})"
    name = _argument_with(launch, memory.elements)
    bound = f"{name} = {memory.elements}" if name else f"{memory.elements}"
    return f"mask with offsets < {bound} ({reason})"


def _argument_with(launch: Launch | None, value: int) -> str:
    """The scalar argument that holds a number; empty where none or several do."""
    names = (
        [each.name for each in launch.arguments if type(each.value) is int and each.value == value] if launch else []
    )
    return names[0] if len(names) == 1 else ""


def _has_mask(access: Access) -> bool:
    """Whether the author wrote a mask; atomics without one are given a mask of ones by Triton."""
    has_operand = bool(access.operation.operand_segments.get("mask"))
    return has_operand and (access.kind != "atomic" or access.mask is not None)
