"""Masked-off lanes of a load without `other` whose undefined value matters."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tilesight.checks.finding import SHOWN_PROGRAMS, Finding
from tilesight.checks.lane_labels import (
    ALONG_AXIS,
    MOVES,
    SILENT,
    WHOLE,
    Mask,
    active_lanes,
    all_labelled,
    axis_of,
    ends_of,
    full_labels,
    full_value,
    gather_lanes,
    join_everything,
    join_lanes,
    labels_along,
    lanes_of,
    move_lanes,
    numbers_in,
    operand_of,
    running_maximum,
    select_lanes,
    spread_labels,
)
from tilesight.checks.place import lanes_text, line_of, name_of
from tilesight.checks.program_trace import Labels, ProgramTrace, Step, trace_programs
from tilesight.checks.replay import Replay
from tilesight.checks.slices import flow_of
from tilesight.checks.suspects import Suspects
from tilesight.engine.communication import LOADS, STORES, UPDATES
from tilesight.engine.launch import Memory
from tilesight.engine.rules.tt_reduce import single_combiner
from tilesight.ir.module import Module, Operation

ACCESSES = LOADS | STORES | UPDATES
VALUE = 0x4000
"""Set in a label whose lane holds something undefined; without it the lane is one of several defined values,
and only which one is undefined."""
NEUTRAL = {
    "arith.maxnumf": 'float("-inf")',
    "arith.maximumf": 'float("-inf")',
    "arith.minnumf": 'float("inf")',
    "arith.minimumf": 'float("inf")',
    "arith.mulf": "1.0",
    "arith.addf": "0.0",
    "arith.addi": "0",
}
HANDING_ON = MOVES | {"arith.extf", "arith.truncf", "tt.fp_to_fp"}
NAMES = {
    "arith.addf": "a sum",
    "arith.addi": "a sum",
    "arith.mulf": "a product",
    "arith.maxnumf": "a maximum",
    "arith.maximumf": "a maximum",
    "arith.maxsi": "a maximum",
    "arith.minnumf": "a minimum",
    "arith.minimumf": "a minimum",
    "arith.minsi": "a minimum",
}


@dataclass(frozen=True)
class Origin:
    """A load, and the first operation that mixed its undefined lanes with defined ones."""

    load: Operation
    mixed_by: Operation | None = None


@dataclass
class _Leak:
    """Where the undefined lanes of one load ended, in the first program that shows it."""

    origin: Origin
    end: Operation
    program: int
    lanes: tuple[int, int]
    memory: Memory | None
    lane_count: dict[int, int] = field(default_factory=dict[int, int])


class UndefinedTrace(ProgramTrace):
    """Follows masked-off lanes of loads without `other`; a label is the number of an `Origin`, plus 1, and `VALUE`."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self._numbers: dict[Origin, int] = {}
        self._origins: list[Origin] = []
        self._masked: dict[tuple[Operation, int], tuple[tuple[int, int], int, Memory | None]] = {}
        self.leaks: dict[Operation, _Leak] = {}

    def is_source(self, operation: Operation) -> bool:
        """Loads that leave masked-off lanes undefined."""
        segments = operation.operand_segments
        return operation.name == "tt.load" and bool(segments.get("mask")) and not segments.get("other")

    def decide(self, operation: Operation, program: int, labels: Labels) -> None:
        """A branch or a loop depends on an undefined value."""
        self._leak(operation, program, labels, np.ones((1,) * labels.ndim, np.bool_))

    def label(self, step: Step) -> Sequence[Labels | None]:
        """The rules of each operation."""
        name = step.operation.name
        if name in SILENT:
            return [None] * len(step.results)
        if name in ACCESSES:
            return self._touch(step)
        if name in MOVES:
            return move_lanes(step)
        if name in WHOLE:
            return join_everything(step)
        if name in ALONG_AXIS:
            return self._combine(step)
        if name == "tt.dot":
            return [self._multiply(step)]
        if name == "tt.gather":
            return [gather_lanes(step)]
        if name == "arith.select":
            return [_select(step)]
        joined = join_lanes(step)
        if name in ("arith.andi", "arith.ori", "arith.muli"):
            joined = np.where(_is_settled(step), np.int16(0), joined)
        return [joined if joined.any() else None] * len(step.results)

    def _touch(self, step: Step) -> Sequence[Labels | None]:
        operation = step.operation
        if step.accesses:
            self._watch_access(step)
        if operation.name != "tt.load" or not step.accesses:
            return [None] * len(step.results)
        found = np.maximum(self._masked_off(step), _choices(step))
        return [found if found.any() else None]

    def _masked_off(self, step: Step) -> Labels:
        """The labels that a load gives its masked-off lanes: those of `other`, or new ones."""
        operation, active = step.operation, active_lanes(step)
        if not self.is_source(operation):
            return np.where(active, np.int16(0), spread_labels(operand_of(step, "other")[1], active.ndim))
        off = np.broadcast_to(~active, step.accesses[0].shape)
        if not off.any():
            return spread_labels(None, off.ndim)
        lanes = lanes_of(off)
        known = operation, step.program
        if known not in self._masked:
            self._masked[known] = ends_of(lanes), len(lanes), step.accesses[0].memory
        return off.astype(np.int16) * self._number(Origin(operation))

    def _watch_access(self, step: Step) -> None:
        """Undefined addresses, masks and stored values of lanes that access memory.

        A load at one of several defined addresses is as good as the defined ones: what it gives is followed.
        """
        least = VALUE if step.operation.name == "tt.load" else 0
        given = [None if each is None else np.where(each >= least, each, np.int16(0)) for each in step.labels]
        masks = step.operation.operand_segments.get("mask", ())
        active = active_lanes(step)
        for value, labels in zip(step.operation.operands, given, strict=True):
            if labels is not None and value in masks:
                self._leak(step.operation, step.program, labels, np.ones((1,) * labels.ndim, np.bool_))
            if labels is None or value in masks:
                continue
            if step.operation.name == "tt.load" and value in step.operation.operand_segments.get("other", ()):
                continue
            is_lane_by_lane = labels.ndim == active.ndim
            self._leak(step.operation, step.program, labels, active if is_lane_by_lane else np.ones_like(labels, bool))

    def _leak(self, end: Operation, program: int, labels: Labels, active: Mask) -> None:
        found = np.where(active, labels, np.int16(0))
        for number in numbers_in(found):
            origin = self._origin(number)
            lanes, count, memory = self._masked[origin.load, program]
            known = self.leaks.get(origin.load)
            if known is None:
                known = self.leaks[origin.load] = _Leak(origin, end, program, lanes, memory)
            known.lane_count[program] = count

    def _number(self, origin: Origin) -> np.int16:
        if origin not in self._numbers:
            self._origins.append(origin)
            self._numbers[origin] = len(self._origins)
        return np.int16(self._numbers[origin] | VALUE)

    def _origin(self, label: int) -> Origin:
        return self._origins[(label & ~VALUE) - 1]

    def _mix(self, labels: Labels, operation: Operation) -> Labels:
        """Labels that now stand for a mixture made by an operation."""
        mixed = labels.copy()
        for number in numbers_in(labels):
            origin = self._origin(number)
            if origin.mixed_by is None:
                mixed[labels == number] = self._number(Origin(origin.load, operation)) & (number | ~VALUE)
        return mixed

    def _combine(self, step: Step) -> Sequence[Labels | None]:
        """Reductions and scans; where every lane is undefined the label is passed on as it is."""
        labels = labels_along(step)
        if step.operation.name == "tt.scan":
            running = running_maximum(labels, step.operation)
            found = np.where(labels > 0, running, self._mix(running, step.operation))
        else:
            axis = axis_of(step.operation)
            most = labels.max(axis=axis)
            found = np.where(all_labelled(labels, axis), most, self._mix(most, step.operation))
        return [found if found.any() else None] * len(step.results)

    def _multiply(self, step: Step) -> Labels:
        """Matrix products: a row or a column without a defined lane passes its label on."""
        left, right = (full_labels(step.labels[i], step.operation.operands[i]) for i in (0, 1))
        rows, columns = left.max(axis=-1)[..., :, None], right.max(axis=-2)[..., None, :]
        rows = np.where(all_labelled(left, -1)[..., :, None], rows, self._mix(rows, step.operation))
        columns = np.where(all_labelled(right, -2)[..., None, :], columns, self._mix(columns, step.operation))
        return np.maximum(np.maximum(rows, columns), spread_labels(step.labels[2], rows.ndim))


def _select(step: Step) -> Labels:
    chosen = select_lanes(step)
    if step.labels[0] is None:
        return chosen
    return np.maximum(chosen, spread_labels(step.labels[0], chosen.ndim) & np.int16(~VALUE))


def _choices(step: Step) -> Labels:
    """The labels of a load's lanes whose address or mask is one of several defined ones."""
    active = active_lanes(step)
    found = spread_labels(None, active.ndim)
    segments = step.operation.operand_segments
    for value, labels in zip(step.operation.operands, step.labels, strict=True):
        if labels is None or value in segments.get("other", ()):
            continue
        here = np.where(labels < VALUE, labels, np.int16(0))
        here = here if value in segments.get("mask", ()) else np.where(active, here, np.int16(0))
        found = np.maximum(found, spread_labels(here, active.ndim))
    return found


def _is_settled(step: Step) -> Mask:
    """Lanes that a defined operand decides alone: false & x, true | x, 0 * x."""
    values = step.operation.operands
    settled = np.zeros((1,), np.bool_)
    for operand, labels, value in zip(step.operands, step.labels, values, strict=True):
        array = full_value(operand, value)
        decides = array == 0
        if step.operation.name == "arith.ori":
            decides = array if array.dtype == np.bool_ else array == -1
        settled = settled | (decides & (spread_labels(labels, array.ndim) == 0))
    return settled


def find_undefined(replay: Replay, suspects: Suspects) -> list[Finding]:
    """Undefined lanes that reach a store, an atomic, an address, a mask, a branch or a loop's bound.

    Args:
        suspects: heard during the launch
    """
    programs = suspects.undefined
    if not programs:
        return []
    trace = UndefinedTrace(replay.module)
    trace_programs(replay, programs, trace)
    return [_finding(leak, replay) for leak in trace.leaks.values()]


def _finding(leak: _Leak, replay: Replay) -> Finding:
    file, line = line_of(leak.origin.load, replay.launch)
    tensor = name_of(leak.memory)
    first, last = leak.lanes
    is_checked = "boundary_check" in linecache.getline(file, line)
    verbs = "is masked off and holds" if first == last else "are masked off and hold"
    return Finding(
        kind="unmasked-undefined",
        file=file,
        line=line,
        programs=tuple(sorted(leak.lane_count)[:SHOWN_PROGRAMS]),
        program_count=len(leak.lane_count),
        lanes=leak.lanes,
        lane_count=sum(leak.lane_count.values()),
        tensor=tensor,
        message=(
            f"{lanes_text(first, last)} of program {leak.program} {verbs} no defined value: "
            f"the load of {tensor or 'unknown memory'} has no {'padding_option' if is_checked else 'other'}=; "
            f"they reach {_end(leak, replay)}"
        ),
        hint=_hint(leak.origin, replay.module, is_checked),
    )


def _hint(origin: Origin, module: Module, is_checked: bool) -> str:
    """The value that changes nothing, where the lanes meet defined ones: in the load if nothing lies between.

    Args: is_checked: the load goes through a block pointer, and takes no `other`
    """
    mixed_by = origin.mixed_by
    if mixed_by is None:
        padded = 'padding_option="zero"' if is_checked else "other=0"
        return f"give the load {padded}, or replace the lanes with tl.where before they are used"
    fill = NEUTRAL.get(single_combiner(mixed_by), "0.0") if mixed_by.regions else "0.0"
    if _is_handed_on(origin.load, mixed_by, module) and (not is_checked or fill in ("0", "0.0")):
        padded = 'padding_option="zero"' if is_checked else f"other={fill}"
        return f"give the load {padded}, or replace the lanes with tl.where before they are used"
    name = NAMES.get(single_combiner(mixed_by), "a reduction") if mixed_by.regions else "a product"
    combined = f"the {name.removeprefix('a ')}"
    return f"replace the lanes with tl.where(mask, ..., {fill}) before {combined}"


def _is_handed_on(load: Operation, mixed_by: Operation, module: Module) -> bool:
    """Whether what is combined is what was loaded, moved or converted at most."""
    flow = flow_of(module)
    waiting = list(mixed_by.operands)
    while waiting:
        made = flow.definitions.get(waiting.pop())
        if made is load:
            return True
        if made is not None and made.name in HANDING_ON:
            waiting += made.operands
    return False


def _end(leak: _Leak, replay: Replay) -> str:
    """What the lanes reach, and what they went through."""
    name = leak.end.name
    _, line = line_of(leak.end, replay.launch)
    what = {"scf.for": "a loop's bound", "scf.condition": "a loop's condition", "tt.load": "an address or a mask"}
    end = what.get(name) or ("a branch" if name in ("scf.if", "cf.cond_br") else _access_word(name))
    through = leak.origin.mixed_by
    if through is None:
        return f"{end} in line {line}"
    combined = NAMES.get(single_combiner(through), "a reduction") if through.regions else "a product of matrices"
    return f"{end} in line {line} through {combined} in line {line_of(through, replay.launch)[1]}"


def _access_word(name: str) -> str:
    return "an atomic" if "atomic" in name or name == "tt.descriptor_reduce" else "a store"
