"""The operation that made a NaN or infinity from finite numbers, which is then stored, cast or branched on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.finding import SHOWN_PROGRAMS, Finding, Level
from tilesight.checks.hidden_overflow import makes_halves, what_overflow_costs
from tilesight.checks.lane_labels import (
    ALONG_AXIS,
    MOVES,
    Mask,
    active_lanes,
    axis_of,
    full_labels,
    full_value,
    gather_lanes,
    join_everything,
    join_lanes,
    labels_along,
    move_lanes,
    numbers_in,
    operand_of,
    running_maximum,
    select_lanes,
    spread_labels,
)
from tilesight.checks.no_lanes import divides_by_nothing
from tilesight.checks.place import line_of, name_of
from tilesight.checks.poles import is_of_its_lane_alone, is_pole
from tilesight.checks.program_trace import Labels, ProgramTrace, Step, trace_programs
from tilesight.checks.replay import Replay
from tilesight.checks.slices import flow_of
from tilesight.checks.suspects import Suspects
from tilesight.engine.communication import LOADS
from tilesight.engine.rules.tt_reduce import single_combiner
from tilesight.ir.module import Module, Operation, Value
from tilesight.ir.types import FloatType, IntegerType, block_shape, element_type

FILL = 1
"""An infinity that the author wrote, or -inf from memory: both stand for what is left out."""

GIVEN = 32767
"""A NaN or +inf from memory: nothing that the kernel made."""

FIRST_ORIGIN = 32000
"""Origins are numbered downwards, so that of two that meet the earlier one stays."""

STORES = frozenset({"tt.store", "tt.atomic_rmw", "tt.atomic_cas", "tt.descriptor_store", "tt.descriptor_reduce"})
BITCASTS = frozenset({"arith.bitcast", "tt.bitcast"})
UNLABELLED = frozenset({"tt.dot_scaled", "tt.map_elementwise", "tt.histogram"})
WORDS = {
    "arith.addf": "{0} + {1}",
    "arith.subf": "{0} - {1}",
    "arith.mulf": "{0} * {1}",
    "arith.divf": "{0} / {1}",
    "tt.precise_divf": "{0} / {1}",
    "tt.precise_sqrt": "sqrt({0})",
}


@dataclass
class _Origin:
    """One operation's first result that is not finite, and the programs that store what came of it."""

    operation: Operation
    program: int
    lane: int
    operands: tuple[float, ...]
    result: float
    has_no_valid_lane: bool = False
    gives_nan: bool = False
    stored: dict[int, int] = field(default_factory=dict[int, int])
    tensor: str = ""
    lanes: tuple[int, int] = (0, 0)
    sink: str = ""
    made_in: set[int] = field(default_factory=set[int])


class NonFiniteTrace(ProgramTrace):
    """Follows lanes that are not finite: a label says who made them (see the constants above)."""

    def __init__(self, module: Module) -> None:
        super().__init__(module)
        self._numbers: dict[Operation, int] = {}
        self.origins: dict[int, _Origin] = {}

    def is_source(self, operation: Operation) -> bool:
        """Whatever makes floats, and stores; integers have labels of the floats that they were made of."""
        return operation.name in STORES or any(isinstance(element_type(v.type), FloatType) for v in operation.results)

    def label(self, step: Step) -> Sequence[Labels | None]:
        """The rules of each operation."""
        name = step.operation.name
        if name in STORES:
            self._store(step)
            return [None] * len(step.results)
        return [self._label_result(step, position) for position in range(len(step.results))]

    def _label_result(self, step: Step, position: int) -> Labels | None:
        name, value = step.operation.name, step.operation.results[position]
        if not isinstance(element_type(value.type), FloatType):
            return self._label_integer(step, position)
        result = step.results[position]
        bad = ~np.isfinite(result)
        if not bad.any():
            return None
        if name == "arith.constant":
            return np.where(bad & ~np.isnan(result), np.int16(FILL), np.where(bad, np.int16(GIVEN), np.int16(0)))
        if name in LOADS:
            return _load(step, result, bad)
        if name in MOVES:
            return move_lanes(step)[position]
        if name == "arith.select":
            return select_lanes(step)
        if name == "tt.gather":
            return np.where(bad, gather_lanes(step), np.int16(0))
        return self._make(step, result, bad)

    def _label_integer(self, step: Step, position: int) -> Labels | None:
        """Integers hide what they were made of; a comparison has the label of a NaN, for branches alone."""
        operation = step.operation
        if all(each is None for each in step.labels) or operation.name in BITCASTS | LOADS:
            return None
        if operation.name == "arith.cmpf":
            is_test_for_nan = operation.operands[0] is operation.operands[1]
            rank = 1 + len(block_shape(operation.results[0].type))
            return None if is_test_for_nan else np.where(_had_nan(step, rank), join_lanes(step), np.int16(0))
        if operation.name == "arith.cmpi":
            return join_lanes(step)
        if _is_truth(operation.results[position]) != _is_truth(operation.operands[-1]):
            return None
        if operation.name in MOVES:
            return move_lanes(step)[position]
        if operation.name == "arith.select":
            return select_lanes(step)
        if operation.name == "tt.gather":
            return gather_lanes(step)
        if operation.name in UNLABELLED:
            return join_everything(step)[position]
        return _labels_before(step, 1 + len(block_shape(operation.results[position].type)))

    def decide(self, operation: Operation, program: int, labels: Labels) -> None:
        """A NaN decides which way a branch goes."""
        del operation
        for number in numbers_in(np.where((labels > FILL) & (labels < GIVEN), labels, np.int16(0))):
            self._sink(self.origins[number], program, np.flatnonzero(labels == number), "a branch depends on it")

    def _sink(self, origin: _Origin, program: int, lanes: NDArray[np.int64], sink: str) -> None:
        """What came of an origin: its first sink is told, and all programs are counted."""
        if not origin.stored:
            origin.lanes = int(lanes[0]), int(lanes[-1])
            origin.program = program
            origin.sink = sink
        origin.stored[program] = origin.stored.get(program, 0) + len(lanes)

    def _make(self, step: Step, result: NDArray[Any], bad: Mask) -> Labels:
        """The labels of what an operation computes; lanes that only it can have made get a new origin."""
        name = step.operation.name
        if name in BITCASTS and not any(isinstance(element_type(v.type), FloatType) for v in step.operation.operands):
            return np.where(bad, np.int16(GIVEN), np.int16(0))
        labels = np.where(bad, _labels_before(step, bad.ndim), np.int16(0))
        had_nan = _had_nan(step, bad.ndim)
        made = bad & ((labels == 0) | ((labels == FILL) & np.isnan(result) & ~had_nan))
        if made.any():
            labels = np.where(made, np.int16(self._number(step, result, made)), labels)
        return labels

    def _number(self, step: Step, result: NDArray[Any], made: Mask) -> int:
        """The origin's number; what it says comes from the first lane that was ever made."""
        operation = step.operation
        if operation in self._numbers:
            self.origins[self._numbers[operation]].made_in.add(step.program)
            return self._numbers[operation]
        number = self._numbers[operation] = FIRST_ORIGIN - len(self._numbers)
        place = tuple(int(axis[0]) for axis in np.nonzero(made))
        shape = (1, *block_shape(operation.results[0].type))
        lane = int(np.ravel_multi_index(place, shape)) if len(place) == len(shape) else 0
        operands: list[float] = []
        if operation.name not in ALONG_AXIS and operation.name not in UNLABELLED and operation.name != "tt.dot":
            operands = [float(full_value(o, v)[place]) for o, v in zip(step.operands, operation.operands, strict=True)]
        origin = _Origin(operation, step.program, lane, tuple(operands), float(result[place]))
        origin.made_in.add(step.program)
        self.origins[number] = origin
        return number

    def _store(self, step: Step) -> None:
        value, labels = _stored(step)
        if labels is None or not step.accesses:
            return
        found = np.broadcast_to(np.where(active_lanes(step), labels, np.int16(0)), step.accesses[0].shape)
        for number in numbers_in(np.where((found > FILL) & (found < GIVEN), found, np.int16(0))):
            origin = self.origins[number]
            is_float = value.dtype.kind in "fV"
            reached = np.broadcast_to(value, found.shape)[found == number]
            origin.gives_nan |= not is_float or bool(np.isnan(reached).any())
            tensor = name_of(step.accesses[0].memory)
            origin.tensor = origin.tensor or tensor
            sink = f"it is stored to {tensor}" if is_float else f"what is stored to {tensor} as an integer comes of it"
            self._sink(origin, step.program, np.flatnonzero(found == number), sink)


def _stored(step: Step) -> tuple[NDArray[Any], Labels | None]:
    """What a store or an atomic writes, with its labels."""
    values = step.operation.operand_segments.get("value", ())
    place = 2 if step.operation.name == "tt.atomic_cas" else 1
    if values:
        place = step.operation.operands.index(values[0])
    return full_value(step.operands[place], step.operation.operands[place]), step.labels[place]


def _load(step: Step, result: NDArray[Any], bad: Mask) -> Labels:
    """What memory held; masked-off lanes hold `other`, or something undefined."""
    from_memory = np.where(result == -np.inf, np.int16(FILL), np.int16(GIVEN))
    other, labels = operand_of(step, "other")
    if other is None or not step.accesses:
        return np.where(bad, from_memory, np.int16(0))
    padded = spread_labels(labels, bad.ndim)
    return np.where(bad, np.where(active_lanes(step), from_memory, padded), np.int16(0))


def _labels_before(step: Step, rank: int) -> Labels:
    """The label that each lane's operands bring along."""
    name = step.operation.name
    if all(each is None for each in step.labels):
        return spread_labels(None, rank)
    if name == "tt.reduce":
        return labels_along(step).max(axis=axis_of(step.operation))
    if name == "tt.scan":
        return running_maximum(labels_along(step), step.operation)
    if name == "tt.dot":
        left, right = (full_labels(step.labels[i], step.operation.operands[i]) for i in (0, 1))
        product = np.maximum(left.max(axis=-1)[..., :, None], right.max(axis=-2)[..., None, :])
        return np.maximum(product, spread_labels(step.labels[2], product.ndim))
    if name in UNLABELLED:
        return join_everything(step)[0]
    return join_lanes(step)


def _had_nan(step: Step, rank: int) -> Mask:
    """Lanes in which an operand is a NaN already."""
    name = step.operation.name
    found = np.zeros((1,) * rank, np.bool_)
    for operand, value, labels in zip(step.operands, step.operation.operands, step.labels, strict=True):
        if labels is None or not isinstance(element_type(value.type), FloatType):
            continue
        nan = np.isnan(full_value(operand, value))
        if name == "tt.reduce":
            nan = nan.any(axis=axis_of(step.operation))
        elif name in ALONG_AXIS or name == "tt.dot" or nan.ndim != rank:
            nan = np.full((1,) * rank, bool(nan.any()))
        found = found | nan
    return found


def find_nan_origins(replay: Replay, suspects: Suspects) -> list[Finding]:
    """Operations that made what is stored and not finite; kind all-masked-row where a row had no valid lane.

    Args:
        suspects: heard during the launch
    """
    programs = suspects.non_finite
    if not programs:
        return []
    trace = NonFiniteTrace(replay.module)
    trace_programs(replay, programs, trace)
    _find_hidden(replay, programs, trace)
    stored = [origin for origin in trace.origins.values() if origin.stored]
    for origin in stored:
        if _is_nothing_over_nothing(origin):
            origin.has_no_valid_lane = divides_by_nothing(replay, origin.operation, min(origin.stored))
    return [_finding(origin, replay) for origin in stored]


def _find_hidden(replay: Replay, programs: Sequence[int], trace: NonFiniteTrace) -> None:
    """Where float16 overflowed, nothing infinite is stored and what is stored is wrong, that is the overflow's sink."""
    if any(origin.stored for origin in trace.origins.values()):
        return
    halves = [origin for origin in trace.origins.values() if makes_halves(origin.operation)]
    error = what_overflow_costs(replay, programs) if halves else None
    if error is not None:
        first = halves[0]
        first.tensor, first.sink = (
            error.tensor,
            f"what is stored to {error.tensor} is off by {error.size:.1e} of its size",
        )
        first.stored, first.lanes = dict.fromkeys(first.made_in, 1), (first.lane, first.lane)


def _is_truth(value: Value) -> bool:
    element = element_type(value.type)
    return isinstance(element, IntegerType) and element.bits == 1


def _is_nothing_over_nothing(origin: _Origin) -> bool:
    is_division = origin.operation.name in ("arith.divf", "tt.precise_divf")
    return is_division and origin.operands == (0.0, 0.0)


def _finding(origin: _Origin, replay: Replay) -> Finding:
    file, line = line_of(origin.operation, replay.launch)
    kind, hint = _cause(origin, replay.module)
    first = min(origin.stored)
    level: Level = "error"
    if _is_exact(origin, replay.module):
        level, hint = "note", "nothing, where this is the function's value at that point; else keep the argument off it"
    return Finding(
        kind=kind,
        file=file,
        line=line,
        programs=tuple(sorted(origin.stored)[:SHOWN_PROGRAMS]),
        program_count=len(origin.stored),
        lanes=origin.lanes,
        lane_count=sum(origin.stored.values()),
        tensor=origin.tensor,
        message=f"{_words(origin)} in program {first}, lane {origin.lane}; {origin.sink}",
        hint=hint,
        level=level,
    )


def _is_exact(origin: _Origin, module: Module) -> bool:
    """Whether what is stored is the infinity that an elementwise function has at this number, such as 1 / 0."""
    return (
        not origin.gives_nan
        and is_pole(origin.operation, origin.operands, origin.result)
        and is_of_its_lane_alone(origin.operation, module)
    )


def _is_added_up(operation: Operation, module: Module) -> bool:
    """Whether lanes of what an operation gives are combined afterwards, as in a softmax."""
    combining = [value for each in module.walk() if each.name in ALONG_AXIS for value in each.operands]
    return operation in flow_of(module).backward(*combining)


def _cause(origin: _Origin, module: Module) -> tuple[Literal["nan-origin", "all-masked-row"], str]:
    """The kind of the finding and its repair."""
    name, operands = origin.operation.name, origin.operands
    if name == "arith.subf" and operands == (-np.inf, -np.inf):
        guard = "the row has no valid lane: subtract tl.where(m == -inf, 0, m), or fill with a finite number"
        return "all-masked-row", guard
    if origin.has_no_valid_lane:
        return "all-masked-row", "the row has no valid lane: divide by tl.maximum(total, tiny), or select with tl.where"
    if name in ("math.exp", "math.exp2"):
        if _is_added_up(origin.operation, module):
            return "nan-origin", "subtract the row's maximum before the exponential"
        return "nan-origin", "use a form whose exponent is never large and positive, or clamp the argument"
    if name in ("arith.divf", "tt.precise_divf"):
        return "nan-origin", "add an epsilon to the divisor, or select with tl.where"
    if name in ("math.log", "math.log2", "math.sqrt", "math.rsqrt", "tt.precise_sqrt", "tt.extern_elementwise"):
        return "nan-origin", "keep the argument in the function's domain: add an epsilon, or clamp it"
    if name in ("arith.truncf", "tt.fp_to_fp"):
        return "nan-origin", "scale the value down, or keep it in a wider type"
    return "nan-origin", "compute in float32, or scale the values down"


def _words(origin: _Origin) -> str:
    """The operation in the author's words, with the numbers of the lane."""
    operation = origin.operation
    name = operation.name
    result = _number(origin.result)
    if name in ALONG_AXIS:
        word = {"arith.addf": "sum", "arith.mulf": "product"}.get(single_combiner(operation), "reduction")
        return f"the {word} of finite numbers is {result}"
    if name == "tt.dot":
        return f"the product of matrices of finite numbers is {result}"
    numbers = [_number(operand) for operand in origin.operands]
    if name in ("arith.truncf", "tt.fp_to_fp"):
        types = (element_type(operation.operands[0].type), element_type(operation.results[0].type))
        return f"{numbers[0]} in {types[0]} is {result} in {types[1]}"
    if name in WORDS:
        return f"{WORDS[name].format(*numbers)} is {result}"
    symbol = str(operation.attributes.get("symbol", "")).removeprefix("__nv_")
    return f"{symbol or name.rpartition('.')[2]}({', '.join(numbers)}) is {result}"


def _number(number: float) -> str:
    return f"{number:.6g}"
