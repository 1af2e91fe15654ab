"""Padded lanes that change a reduction: masked off in a load with `other`, computed with, and combined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.combining import (
    Combined,
    accumulates,
    combine_lanes,
    count_lanes,
    multiply_lanes,
    pick_lanes,
    running_sum,
)
from tilesight.checks.finding import SHOWN_PROGRAMS, Finding
from tilesight.checks.lane_labels import (
    MOVES,
    SILENT,
    active_lanes,
    ends_of,
    full_value,
    gather_lanes,
    lanes_of,
    move_lanes,
    numbers_in,
    operand_of,
    select_lanes,
    spread_labels,
)
from tilesight.checks.place import lanes_text, line_of, name_of
from tilesight.checks.program_trace import Labels, ProgramTrace, Step, trace_programs
from tilesight.checks.replay import Replay
from tilesight.checks.suspects import Suspects
from tilesight.engine.launch import Memory
from tilesight.engine.plan import plan_module
from tilesight.engine.values import Pointer, spread
from tilesight.ir.module import Module, Operation

DATA = 1
"""A lane that memory was read for; larger labels are padded lanes, and from `FIRST_CHANGED` on changed results."""

FIRST_PADDED = 2
FIRST_CHANGED = 16384

LOADS = frozenset({"tt.load", "tt.descriptor_load"})
STORES = {"tt.store": 1, "tt.atomic_rmw": 1, "tt.atomic_cas": 2, "tt.descriptor_store": 1, "tt.descriptor_reduce": 1}
TOLERANCES = {"float16": 2e-3, "bfloat16": 1.6e-2, "float64": 1e-9}
"""How much a stored value must change to count, relative to the larger one; float32 and the rest: 1e-5."""

Stored = dict[tuple[int, int], NDArray[Any]]


@dataclass
class _Change:
    """A reduction that padded lanes change, in the first program that shows it."""

    operation: Operation
    load: Operation
    program: int
    lanes: tuple[int, int]
    value: float
    counts: dict[int, int] = field(default_factory=dict[int, int])
    reached: set[int] = field(default_factory=set[int])


class PaddingTrace(ProgramTrace):
    """Follows padded lanes to reductions that they change, and the results from there to stores.

    Args:
        repaired: an operation whose result is replaced by the one without padded lanes, so that what is
            stored shows whether they matter
    """

    def __init__(self, module: Module, repaired: Operation | None = None) -> None:
        super().__init__(module)
        self._repaired = repaired
        self._loads: list[Operation] = []
        self._changes: list[_Change] = []
        self._by_operation: dict[Operation, int] = {}
        self._stores: dict[int, int] = {}
        self.stored: Stored = {}

    @property
    def changes(self) -> list[_Change]:
        """Reductions that padded lanes change and whose results are stored."""
        return [change for change in self._changes if change.reached]

    def is_source(self, operation: Operation) -> bool:
        """Loads, and stores, whose values are compared."""
        return operation.name in LOADS or operation.name in STORES

    def label(self, step: Step) -> Sequence[Labels | None]:
        """The rules of each operation."""
        name = step.operation.name
        if name in SILENT or not step.results:
            self._store(step) if name in STORES else None
            return []
        if name in STORES:
            self._store(step)
            return [None]
        if name in LOADS:
            return [self._load(step)]
        if name in MOVES:
            return move_lanes(step)
        if name == "arith.select":
            return [self._select(step)]
        if name == "tt.gather":
            return [gather_lanes(step)]
        combined = self._combined(step)
        if combined is not None:
            return self._change(step, combined)
        return [_join(step)] * len(step.results)

    def _load(self, step: Step) -> Labels | None:
        if not step.accesses:
            return None
        active = active_lanes(step)
        has_other = step.operation.name != "tt.load" or bool(step.operation.operand_segments.get("other"))
        if active.all() or not has_other:
            return np.full((1,) * active.ndim, DATA, np.int16)
        if step.operation not in self._loads:
            self._loads.append(step.operation)
        number = FIRST_PADDED + self._loads.index(step.operation)
        labels = np.where(active, np.int16(DATA), np.int16(number))
        return labels if step.operation.name == "tt.load" else labels.reshape(1, *step.results[0].shape[1:])

    def _select(self, step: Step) -> Labels:
        """What is chosen, once by a mask or by another: a selection says that the author thought of its lanes."""
        chosen = select_lanes(step)
        is_changed = step.labels[0] is not None and bool((step.labels[0] >= FIRST_CHANGED).any())
        if not is_changed or step.labels[0] is None:
            return chosen
        condition = spread_labels(step.labels[0], chosen.ndim)
        return np.where(condition >= FIRST_CHANGED, np.maximum(condition, chosen), chosen)

    def _combined(self, step: Step) -> Combined | None:
        """What a combining operation makes with and without its padded lanes; None for other operations."""
        name = step.operation.name
        if name == "tt.reduce":
            return combine_lanes(step, is_padded) if len(step.operands) == 1 else pick_lanes(step, is_padded)
        if name == "tt.scan":
            return running_sum(step, is_padded)
        if name == "tt.dot":
            return multiply_lanes(step, is_padded)
        if name == "tt.histogram":
            return count_lanes(step, is_padded)
        return accumulates(step, is_padded, self.plan)

    def _change(self, step: Step, combined: Combined) -> Sequence[Labels | None]:
        """Labels of a combined result: changed by padding, padded, or data."""
        result = step.operation.results
        if combined.changed is None or not combined.changed.any():
            return [combined.labels] * len(result)
        number = self._number(step, combined)
        if self._repaired is step.operation:
            for value, repaired in zip(step.results, combined.repaired, strict=True):
                value[...] = np.where(combined.changed, repaired, value).astype(value.dtype)
            return [combined.labels] * len(result)
        labels = np.where(combined.changed, np.maximum(combined.labels, np.int16(number)), combined.labels)
        return [labels] * len(result)

    def _number(self, step: Step, combined: Combined) -> int:
        operation = step.operation
        if operation not in self._by_operation:
            self._by_operation[operation] = len(self._changes)
            padded = lanes_of(np.asarray(combined.padded > 0))
            load = self._loads[int(combined.padded.max()) - FIRST_PADDED]
            first = float(np.asarray(combined.values).reshape(-1)[padded[0]]) if len(padded) else 0.0
            self._changes.append(_Change(operation, load, step.program, ends_of(padded), first))
        number = self._by_operation[operation]
        change = self._changes[number]
        change.counts.setdefault(step.program, int(np.count_nonzero(combined.padded)))
        return FIRST_CHANGED + number

    def _store(self, step: Step) -> None:
        if not step.accesses:
            return
        segment = operand_of(step, "value")
        position = STORES[step.operation.name]
        operand, labels = segment if segment[0] is not None else (step.operands[position], step.labels[position])
        plain = spread(operand.address if isinstance(operand, Pointer) else operand)
        active, shape = active_lanes(step), step.accesses[0].shape
        turn = self._stores[step.program] = self._stores.get(step.program, -1) + 1
        if plain.ndim == len(shape):
            self.stored[step.program, turn] = np.where(active, plain, np.zeros((), plain.dtype))
        if labels is None or labels.ndim != len(shape):
            return
        for number in numbers_in(np.where(active, labels, np.int16(0))):
            if number >= FIRST_CHANGED:
                self._changes[number - FIRST_CHANGED].reached.add(step.program)


def is_padded(labels: Labels) -> NDArray[np.bool_]:
    """The lanes that a load padded."""
    return (labels >= FIRST_PADDED) & (labels < FIRST_CHANGED)


def _join(step: Step) -> Labels:
    """Lane by lane: changed beats all; padded beats data that the lane shares with others, own data beats padded."""
    rank = max(spread(o.address if isinstance(o, Pointer) else o).ndim for o in step.operands)
    joined, own = spread_labels(None, rank), np.zeros((1,) * rank, np.bool_)
    shapes = [full_value(o, v).shape for o, v in zip(step.operands, step.operation.operands, strict=True)]
    for labels in step.labels:
        if labels is not None:
            joined = np.maximum(joined, spread_labels(labels, rank))
    padded = is_padded(joined)
    if not padded.any() or len(set(shapes)) > 1:
        return joined
    varying = _varying_axes([o for o, each in zip(step.operands, step.labels, strict=True) if _has_padding(each)])
    for operand, labels in zip(step.operands, step.labels, strict=True):
        if labels is not None and varying <= _varying_axes([operand]):
            own = own | (spread_labels(labels, rank) == DATA)
    return np.where(padded & own, np.int16(DATA), joined)


def _has_padding(labels: Labels | None) -> bool:
    return labels is not None and bool(is_padded(labels).any())


def _varying_axes(operands: Sequence[Any]) -> set[int]:
    shapes = [spread(o.address if isinstance(o, Pointer) else o).shape for o in operands]
    return {axis for shape in shapes for axis, extent in enumerate(shape) if extent > 1}


def find_padding(replay: Replay, suspects: Suspects) -> list[Finding]:
    """Reductions, scans and products that padded lanes change, where what is stored changes with them.

    The programs run again with each such result repaired; where nothing stored changes beyond rounding,
    as when a softmax subtracts another maximum, nothing is found.

    Args:
        suspects: heard during the launch
    """
    programs = suspects.padded
    if not programs:
        return []
    trace = PaddingTrace(replay.module)
    trace_programs(replay, programs, trace)
    found: list[Finding] = []
    for change in trace.changes:
        reached = sorted(change.reached)
        repaired = PaddingTrace(replay.module, change.operation)
        trace_programs(replay, reached, repaired)
        showing = [program for program in reached if _differ(trace.stored, repaired.stored, program)]
        if showing:
            found.append(_finding(change, showing, replay))
    return found


def _differ(before: Stored, after: Stored, program: int) -> bool:
    """Whether a program stores something else, beyond rounding."""
    for place, values in before.items():
        if place[0] != program or place not in after:
            continue
        tolerance = TOLERANCES.get(values.dtype.name, 1e-5)
        old, new = (array.astype(np.float64) for array in (values, after[place]))
        with np.errstate(invalid="ignore"):
            apart = np.abs(old - new) > tolerance * np.maximum(np.abs(old), np.abs(new))
        if (apart | (np.isnan(old) != np.isnan(new))).any():
            return True
    return False


def _finding(change: _Change, programs: Sequence[int], replay: Replay) -> Finding:
    file, line = line_of(change.operation, replay.launch)
    tensor, load_line = _padded_tensor(change.load, replay)
    lanes = lanes_text(*change.lanes)
    return Finding(
        kind="all-masked-row",
        file=file,
        line=line,
        programs=tuple(programs[:SHOWN_PROGRAMS]),
        program_count=len(programs),
        lanes=change.lanes,
        lane_count=sum(change.counts.get(program, 0) for program in programs),
        tensor=tensor,
        message=(
            f"padded lanes enter {_word(change.operation)}: {lanes} of program {change.program}, masked off in the "
            f"load of line {load_line}, hold {change.value:.6g} by then and change what is stored"
        ),
        hint=f"select before line {line}: tl.where(mask, …, {_neutral(change.operation)}), or pad with another value",
    )


def _padded_tensor(load: Operation, replay: Replay) -> tuple[str, int]:
    """The tensor that a load reads, where its pointer comes from one argument, and the load's line."""
    definitions = plan_module(replay.module).definitions
    value = load.operands[0]
    while value in definitions and definitions[value].operands:
        value = definitions[value].operands[0]
    arguments = dict(zip(replay.module.kernel.arguments, replay.launch.arguments, strict=True))
    argument = arguments.get(value)
    memory = argument.value if argument is not None and isinstance(argument.value, Memory) else None
    return name_of(memory), line_of(load, replay.launch)[1]


def _word(operation: Operation) -> str:
    words = {"tt.scan": "a scan", "tt.dot": "a product of matrices", "tt.histogram": "a histogram"}
    return words.get(operation.name, "a reduction")


def _neutral(operation: Operation) -> str:
    body = [inner.name for region in operation.regions for inner in region.entry.operations] or [operation.name]
    if any("max" in name for name in body):
        return 'float("-inf")'
    if any("min" in name for name in body):
        return 'float("inf")'
    return "1.0" if any(name in ("arith.mulf", "arith.muli") for name in body) else "0"
