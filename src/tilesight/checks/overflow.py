"""Integer arithmetic of offsets that wraps around, where it changes what is done to memory."""

from __future__ import annotations

import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.address_slice import Sink, address_slice
from tilesight.checks.expression import castable, describe
from tilesight.checks.finding import SHOWN_PROGRAMS, Finding, Level
from tilesight.checks.place import line_of, name_of
from tilesight.checks.replay import Replay
from tilesight.checks.slices import flow_of
from tilesight.checks.widened import Widened, is_narrow, widen
from tilesight.engine.launch import Launch
from tilesight.engine.listener import Executed, Listener
from tilesight.engine.values import INTEGER_RANGES, LaneSum, Pointer, spread
from tilesight.errors import TilesightError
from tilesight.ir.module import Module, Operation
from tilesight.ir.types import DescriptorType, block_shape

Array = NDArray[Any]
WRAPPING = frozenset({"arith.addi", "arith.subi", "arith.muli", "arith.shli", "arith.trunci"})
WITNESSES = 32
"""Programs that are run again for one operation: the lowest ids and the highest, so many of each."""


class OverflowCheck(Listener):
    """Hears offsets' arithmetic that wraps around; `findings` then decides whether it does harm.

    A wrap alone is no fault: its lanes may be masked off, or a subtraction takes it back. The programs
    that wrapped run again, with 64-bit twins of what they computed beside it: where another address,
    mask, index or bound comes out, the operation that wrapped first is the fault. Combining regions
    (reductions, scans) and 64-bit arithmetic are not followed.
    """

    hears_in_any_order = True

    def __init__(self) -> None:
        self._programs: dict[Operation, NDArray[np.int64]] = {}
        self._harmed_from: dict[tuple[int, str], int] = {}

    def watched(self, module: Module) -> Collection[Operation]:
        """Narrow arithmetic that an address, mask, index or bound depends on."""
        values = address_slice(module).values
        return [
            operation
            for operation in module.walk()
            if operation.name in WRAPPING and operation.results[0] in values and is_narrow(operation.results[0].type)
        ]

    def after_step(self, executed: Executed) -> None:
        wrap = wrap_of(executed)
        if wrap is None:
            return
        rows = np.flatnonzero(wrap.lanes.any(axis=1))
        known = self._programs.get(executed.operation, np.empty(0, np.int64))
        both = np.union1d(known, executed.programs[rows])
        if len(both) > 2 * WITNESSES:
            both = np.concatenate([both[:WITNESSES], both[-WITNESSES:]])
        self._programs[executed.operation] = both

    @property
    def wrapped(self) -> dict[Operation, tuple[int, ...]]:
        """The operations that wrapped, harmless ones included, with programs in which they did."""
        return {operation: tuple(programs.tolist()) for operation, programs in self._programs.items()}

    def findings(self, replay: Replay) -> list[Finding]:
        """One finding for each operation whose wrap changes what is done to memory.

        Args:
            replay: of the launch that was heard
        """
        if not self._programs:
            return []
        programs = np.unique(np.concatenate(list(self._programs.values())))
        comparison = Comparison(replay.module, replay.launch, tuple(self._programs))
        error = comparison.run(replay, programs.tolist())
        harms = comparison.harms()
        for harm in harms:
            for place, program in harm.places.items():
                self._harmed_from[place] = min(program, self._harmed_from.get(place, program))
        found = [_finding(harm, replay) for harm in harms]
        if error is not None and not found:
            found = [_undecided(operation, error, replay) for operation in list(self._programs)[:1]]
        return found

    def explains(self, finding: Finding) -> bool:
        """Whether an out-of-bounds access is what a wrap that was found has led to."""
        first = self._harmed_from.get((finding.line, finding.tensor))
        return finding.kind == "out-of-bounds" and first is not None and first <= min(finding.programs, default=0)


@dataclass(frozen=True, eq=False)
class Wrap:
    """Lanes of one execution whose result is not the true one.

    Args:
        lanes: [P, lanes of the block] bool
        true, got: the result without and with the wrap, which broadcast to [P, *block]
        shape: [P, *block]
    """

    lanes: NDArray[np.bool_]
    true: NDArray[np.int64]
    got: Array
    shape: tuple[int, ...]


def wrap_of(executed: Executed) -> Wrap | None:
    """Where an addition, subtraction, product, left shift or truncation wrapped; None for nowhere.

    Operands' bounds settle nearly every case; only when those leave the range are lanes compared.
    """
    got = executed.results[0]
    if isinstance(got, LaneSum) or got.dtype.itemsize == 8 or got.dtype == np.bool_:
        return None
    name = executed.operation.name
    operands = [spread(operand) for operand in executed.operands]
    low, high = INTEGER_RANGES[got.dtype]
    bounds = _bounds(name, [(int(each.min()), int(each.max())) for each in operands])
    if low <= bounds[0] and bounds[1] <= high:
        return None
    true = _exact(name, [each.astype(np.int64) for each in operands])
    differs = np.asarray(true != got)
    if executed.active is not None:
        differs = differs & executed.active.reshape(-1, *(1,) * (differs.ndim - 1))
    if not differs.any():
        return None
    shape = (len(executed.programs), *block_shape(executed.operation.results[0].type))
    return Wrap(np.broadcast_to(differs, shape).reshape(shape[0], -1), true, got, shape)


def _bounds(name: str, operands: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The least and the most that the exact result may be."""
    (low, high), (low2, high2) = operands[0], operands[-1]
    if name == "arith.trunci":
        return low, high
    if name == "arith.addi":
        return low + low2, high + high2
    if name == "arith.subi":
        return low - high2, high - low2
    if name == "arith.shli":
        low2, high2 = (1 << min(max(amount, 0), 31) for amount in (low2, high2))
    corners = [left * right for left in (low, high) for right in (low2, high2)]
    return min(corners), max(corners)


def _exact(name: str, operands: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """The result in 64 bits; a shift by the width or more, which has no result, is taken as 0."""
    left, right = operands[0], operands[-1]
    if name == "arith.trunci":
        return left
    if name == "arith.addi":
        return left + right
    if name == "arith.subi":
        return left - right
    if name == "arith.muli":
        return left * right
    return np.where((right >= 0) & (right < 32), left << np.clip(right, 0, 31), 0)


@dataclass(frozen=True)
class Sample:
    """One lane that wrapped: its flat index in the block, the true value and the wrapped one."""

    lane: int
    true: int
    got: int


@dataclass(eq=False)
class Harm:
    """What one operation's wrap has done.

    Args:
        operation: the one that wrapped
        program: the lowest program it harms, and `sample` a lane that wrapped there
        sink: the first place that went another way there, and in which lanes of its block
        tensor: whose address that was
        programs: every program seen to be harmed, in how many lanes
        places: line, under either frame, and tensor of each access that went astray, and the lowest program in which
    """

    operation: Operation
    program: int
    sample: Sample
    sink: Sink
    lanes: tuple[int, int]
    tensor: str
    programs: dict[int, int] = field(default_factory=dict[int, int])
    places: dict[tuple[int, str], int] = field(default_factory=dict[tuple[int, str], int])


class Comparison(Listener):
    """Runs a launch with 64-bit twins and keeps each wrap that reaches a sink.

    Args:
        module: the kernel's
        launch: to name tensors
        wrapping: the operations that may wrap
    """

    def __init__(self, module: Module, launch: Launch, wrapping: Sequence[Operation]) -> None:
        self._launch = launch
        self._flow = flow_of(module)
        self._order = {op: place for place, op in enumerate(op for f in module.functions for op in f.walk())}
        self._wrapping = frozenset(wrapping)
        self._widened: Widened = widen(module, wrapping)
        self._rows: dict[Sink, list[Any]] = {}
        self._samples: dict[Operation, dict[int, Sample]] = {}
        self._harms: dict[Operation, Harm] = {}

    def run(self, replay: Replay, programs: Sequence[int]) -> TilesightError | None:
        """Run the programs; what stopped them, if anything did."""
        try:
            replay.run([self], self._widened.module, programs=tuple(programs), threads=1, output=io.StringIO())
        except TilesightError as error:
            return error
        return None

    def harms(self) -> list[Harm]:
        """The operations that do harm, in the order of the text."""
        return sorted(self._harms.values(), key=lambda harm: self._order[harm.operation])

    def watched(self, module: Module) -> Collection[Operation]:
        return [*self._wrapping, *self._widened.markers]

    def after_step(self, executed: Executed) -> None:
        marked = self._widened.markers.get(executed.operation)
        if marked is None:
            self._keep_samples(executed)
            return
        sink, place = marked
        row = self._rows.setdefault(sink, [])
        del row[place:]
        row.append(executed.operands[0])
        if len(row) == 2 * len(sink.values):
            self._compare(sink, row, executed)

    def _keep_samples(self, executed: Executed) -> None:
        wrap = wrap_of(executed)
        if wrap is None:
            return
        samples = self._samples.setdefault(executed.operation, {})
        true, got = (np.broadcast_to(each, wrap.shape).reshape(wrap.shape[0], -1) for each in (wrap.true, wrap.got))
        for index in np.flatnonzero(wrap.lanes.any(axis=1)):
            lane = int(np.argmax(wrap.lanes[index]))
            program = int(executed.programs[index])
            samples.setdefault(program, Sample(lane, int(true[index, lane]), int(got[index, lane])))

    def _compare(self, sink: Sink, row: Sequence[Any], executed: Executed) -> None:
        differs = _differences(sink, row)
        if executed.active is not None:
            differs = differs & executed.active.reshape(-1, *(1,) * (differs.ndim - 1))
        if not differs.any():
            return
        shape = (len(executed.programs), *block_shape(sink.values[0].type))
        lanes = np.broadcast_to(differs, shape).reshape(shape[0], -1)
        for index in np.flatnonzero(lanes.any(axis=1)):
            self._blame(sink, int(executed.programs[index]), np.flatnonzero(lanes[index]), row[0])

    def _blame(self, sink: Sink, program: int, lanes: NDArray[np.int64], narrow: Any) -> None:
        """Charge a difference to the first operation before the sink that wrapped in this program."""
        before = self._flow.backward(*sink.values) & self._wrapping
        guilty = [op for op in before if program in self._samples.get(op, {})]
        if not guilty:
            return
        operation = min(guilty, key=self._order.__getitem__)
        tensor = self._tensor_of(sink, narrow)
        known = self._harms.get(operation)
        if known is None or program < known.program:
            sample = self._samples[operation][program]
            made = Harm(operation, program, sample, sink, (int(lanes[0]), int(lanes[-1])), tensor)
            if known is not None:
                made.programs, made.places = known.programs, known.places
            self._harms[operation] = known = made
        known.programs[program] = known.programs.get(program, 0) + len(lanes)
        location = sink.operation.location
        for frame in (location.user_frame, location.kernel_frame):
            place = frame.line, tensor
            known.places[place] = min(program, known.places.get(place, program))

    def _tensor_of(self, sink: Sink, narrow: Any) -> str:
        if isinstance(narrow, Pointer) and isinstance(narrow.root, int) and narrow.root >= 0:
            return name_of(self._launch.memories[narrow.root])
        descriptor = sink.operation.operands[0]
        if isinstance(descriptor.type, DescriptorType):
            return descriptor.name
        return ""


def _differences(sink: Sink, row: Sequence[Any]) -> NDArray[np.bool_]:
    """The lanes in which a sink's values and their twins do something else."""
    narrow, wide = (_integers(value) for value in row[:2])
    if sink.kind != "access":
        differs = np.asarray(narrow != wide)
        return differs & (narrow > -_widest(sink)) if sink.kind == "index" else differs
    moved = np.asarray(narrow != wide)
    if len(row) == 2:
        return moved
    active, active_wide = (spread(value) for value in row[2:])
    return (active != active_wide) | (active & active_wide & moved)


def _widest(sink: Sink) -> int:
    """An index this far below 0 leaves nothing of a tile inside its tensor, as the true one past its end does."""
    descriptor = sink.operation.operands[0].type
    assert isinstance(descriptor, DescriptorType)
    return max(descriptor.block.shape, default=1)


def _integers(value: Any) -> Array:
    return spread(value.address) if isinstance(value, Pointer) else spread(value)


def _finding(harm: Harm, replay: Replay) -> Finding:
    sample = harm.sample
    what = describe(harm.operation, replay.module)
    block = block_shape(harm.operation.results[0].type)
    lane = f"lane {sample.lane} of " if block else ""
    file, line = line_of(harm.operation, replay.launch)
    programs = tuple(sorted(harm.programs))
    return Finding(
        kind="overflow",
        file=file,
        line=line,
        programs=programs[:SHOWN_PROGRAMS],
        program_count=len(programs),
        lanes=harm.lanes,
        lane_count=sum(harm.programs.values()),
        tensor=harm.tensor,
        message=f"{what}: {sample.true:,} wrapped to {sample.got:,} in {lane}program {harm.program}; {_effect(harm)}",
        hint=_hint(harm.operation, replay),
    )


def _effect(harm: Harm) -> str:
    operation = harm.sink.operation
    line = operation.location.user_frame.line
    if harm.sink.kind == "control":
        return f"the condition or bound in line {line} is another one"
    verb = "loads from" if "load" in operation.name or "gather" in operation.name else "stores to"
    verb = "updates" if "atomic" in operation.name or "reduce" in operation.name else verb
    what = "the descriptor in" if harm.sink.kind == "bounds" or "make" in operation.name else ""
    if what:
        return f"{what} line {line} covers other memory"
    return f"line {line} {verb} the wrong place{f' of {harm.tensor}' if harm.tensor else ''}"


def _hint(operation: Operation, replay: Replay) -> str:
    name = castable(operation, replay.module)
    if operation.name == "arith.trunci":
        return "keep the offset in int64"
    if name in {argument.name for argument in replay.launch.arguments}:
        return f"cast to int64 first: `tl.cast({name}, tl.int64)`"  # an argument that is 1 is a constant without .to
    return f"cast to int64 first: `{name}.to(tl.int64)`" if name else "cast the program id or the stride to int64 first"


def _undecided(operation: Operation, error: TilesightError, replay: Replay, level: Level = "warning") -> Finding:
    what = describe(operation, replay.module)
    return Finding.of_line(
        "overflow",
        line_of(operation, replay.launch),
        f"{what} wrapped around; whether an address depends on it is not known: {error.got}",
        _hint(operation, replay),
        level=level,
    )
