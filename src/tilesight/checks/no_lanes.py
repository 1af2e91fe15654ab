"""Whether a division's divisor is the sum of a row in which no lane was valid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilesight.checks.lane_labels import (
    MOVES,
    active_lanes,
    axis_of,
    full_labels,
    gather_lanes,
    join_everything,
    join_lanes,
    labels_along,
    move_lanes,
    select_lanes,
)
from tilesight.checks.program_trace import Labels, ProgramTrace, Step, trace_programs
from tilesight.checks.replay import Replay
from tilesight.checks.suspects import reads_of
from tilesight.engine.plan import plan_module
from tilesight.ir.module import Module, Operation, Value
from tilesight.ir.types import IntegerType, element_type

DATA = 1
FILL = 2


class FillTrace(ProgramTrace):
    """Follows lanes that hold what a mask or a selection put there, next to lanes that hold data.

    A constant has no label, data has 1, a lane that was filled in 2. `divided` says whether a lane of
    `division` had 0 for a divisor that stems from filled-in lanes alone, or that a loop would have added to and
    that is still the constant it began with.
    """

    def __init__(self, module: Module, division: Operation, is_added_in_a_loop: bool) -> None:
        super().__init__(module)
        self._division = division
        self._is_added_in_a_loop = is_added_in_a_loop
        self.divided = False

    def is_source(self, operation: Operation) -> bool:
        """Loads, selections between anything, and the division, whose divisor may be a constant still."""
        sources = ("tt.load", "tt.descriptor_load", "arith.select")
        return operation is self._division or operation.name in sources

    def label(self, step: Step) -> Sequence[Labels | None]:
        """The rules of each operation."""
        name = step.operation.name
        if name in ("tt.load", "tt.descriptor_load"):
            off = ~active_lanes(step) if step.accesses else np.ones((1,), np.bool_)
            return [np.where(off, np.int16(FILL), np.int16(DATA))]
        if not step.results:
            return []
        if name == "arith.select":
            chosen = select_lanes(step)
            return [np.where(chosen == 0, np.int16(FILL), chosen)]
        if name in MOVES:
            return move_lanes(step)
        if name == "tt.reduce":
            least = labels_along(step).min(axis=axis_of(step.operation))
            return [np.where(least == FILL, np.int16(FILL), np.int16(DATA))] * len(step.results)
        if name == "tt.dot":
            rows = full_labels(step.labels[0], step.operation.operands[0]).min(axis=-1)[..., None]
            return [np.where(rows == FILL, np.int16(FILL), np.int16(DATA))]
        if name == "tt.gather":
            return [gather_lanes(step)]
        if name in ("tt.scan", "tt.dot_scaled", "tt.map_elementwise", "tt.histogram"):
            return join_everything(step)
        self._watch(step)
        return [join_lanes(step)] * len(step.results)

    def _watch(self, step: Step) -> None:
        if step.operation is self._division:
            nothing = (step.operands[0] == 0) & (step.operands[1] == 0)
            has_no_lane = self._is_added_in_a_loop if step.labels[1] is None else step.labels[1] == FILL
            self.divided |= bool((nothing & has_no_lane).any())


def divides_by_nothing(replay: Replay, division: Operation, program: int) -> bool:
    """Whether 0/0 comes of a row without a valid lane: its divisor adds up filled-in lanes, a mask or weights."""
    definitions = plan_module(replay.module).definitions
    slice_ = reads_of(division.operands[1], definitions)
    trace = FillTrace(replay.module, division, any(operation.name == "scf.for" for operation in slice_))
    if not any(operation.name == "tt.reduce" for operation in slice_):
        return False
    if any(_counts_a_mask(operation, definitions) for operation in slice_):
        return True
    if _adds_weights(slice_, reads_of(division.operands[0], definitions)):
        return True
    trace_programs(replay, (program,), trace)
    return trace.divided


def _counts_a_mask(operation: Operation, definitions: dict[Value, Operation]) -> bool:
    """Whether an operation turns a mask into a number, as it is added up or multiplied with."""
    converts = operation.name in ("arith.uitofp", "arith.extui")
    source = element_type(operation.operands[0].type) if operation.operands else None
    return converts and source == IntegerType(1) and operation.operands[0] in definitions


def _adds_weights(divisor: Sequence[Operation], dividend: Sequence[Operation]) -> bool:
    """Whether a division is a weighted mean: a sum of products with loaded weights by the sum of the weights."""
    weights = {operation for operation in divisor if operation.name == "tt.load"}
    multiplies = any(operation.name in ("arith.mulf", "arith.muli") for operation in dividend)
    computes = any(operation.name in ("arith.mulf", "math.exp", "math.exp2") for operation in divisor)
    reduces = any(operation.name in ("tt.reduce", "tt.dot") for operation in dividend)
    return bool(weights) and reduces and multiplies and not computes and weights < set(dividend)
