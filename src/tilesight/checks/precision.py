"""Accumulation in f16 or bf16, and tf32 unasked, where float32 would have given measurably better numbers."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.finding import Finding
from tilesight.checks.narrow import Candidate, find_candidates, spread_widening
from tilesight.checks.place import line_of, name_of
from tilesight.checks.repeated_loads import spread_programs
from tilesight.checks.replay import Replay
from tilesight.checks.widen import F32, Widened, can_widen, every_float, widen
from tilesight.engine.communication import programs_wait
from tilesight.engine.floats import cast_float
from tilesight.engine.launch import Memory
from tilesight.engine.listener import Access, Executed, Listener
from tilesight.engine.values import spread
from tilesight.ir.module import Module, Operation
from tilesight.ir.types import FloatType, element_type

FLOAT64 = np.dtype(np.float64)
MANTISSA_BITS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "f8E4M3FN": 4, "f8E4M3FNUZ": 4, "f8E4M3B11FNUZ": 4}
ROUNDING_UNITS = {**{name: 2.0**-bits for name, bits in MANTISSA_BITS.items()}, "f8E5M2": 0.125, "f8E5M2FNUZ": 0.125}
"""Half a unit in the last place, relative: what one rounding to the type may change."""

LEAST_ROUNDINGS = 2
LEAST_GAIN = 4


def find_imprecision(replay: Replay) -> list[Finding]:
    """Accumulations and products whose narrow type costs precision in what is stored, one finding a line.

    A few programs run as they are, with every float in f64, and with the candidates in f32. The error of
    a stored value is |stored − f64| / (|f64| + rms(f64)) before it is rounded to the tensor's type. A
    candidate is found when its narrow type makes the error at least four times larger, and larger than two
    roundings to the tensor's type. Kernels that take floats for bits, or compute in assembly, are not measured.

    Raises: TilesightError: as `engine.execute`
    """
    candidates = find_candidates(replay.module, replay.launch)
    if not candidates or not can_widen(replay.module):
        return []
    exact = _run(replay, widen(replay.module, every_float(replay.module)))
    repaired = _repaired(replay, candidates, ())
    best = _errors(_run(replay, repaired), exact)
    found: dict[tuple[str, int], Finding] = {}
    for candidate in candidates:
        left = _errors(_run(replay, _repaired(replay, candidates, (candidate,))), exact)
        worst = _worst(left, best)
        if worst is not None:
            finding = _finding(candidate, worst, replay)
            found.setdefault((finding.file, finding.line), finding)
    return list(found.values())


def _repaired(replay: Replay, candidates: Sequence[Candidate], left: Sequence[Candidate]) -> Widened:
    """The module with all candidates in f32 but those that are left as they are."""
    chosen = [each for each in candidates if each not in left]
    values = spread_widening(replay.module, chosen, left)
    ieee = [each.operation for each in chosen if each.form == "tf32"]
    return widen(replay.module, dict.fromkeys(values, F32), ieee)


@dataclass(frozen=True)
class _Error:
    """The error of what a line stores to a tensor.

    Args:
        unit: of rounding to the tensor's type
        better: the error that is left with a float32 accumulator
    """

    size: float
    unit: float
    type_name: str
    tensor: str
    better: float = 0.0


Errors = Mapping[Operation, _Error]


def _worst(left: Errors, best: Errors) -> _Error | None:
    """The largest error, in roundings, that a candidate makes; None when none is its own and beyond rounding."""
    worst: _Error | None = None
    for store, error in left.items():
        better = best[store].size if store in best else 0.0
        is_large = error.size > LEAST_ROUNDINGS * error.unit and error.size >= LEAST_GAIN * better
        if is_large and (worst is None or error.size / error.unit > worst.size / worst.unit):
            worst = _Error(error.size, error.unit, error.type_name, error.tensor, better)
    return worst


@dataclass(eq=False)
class _Stored(Listener):
    """Collects what each store is given, before it is rounded to the tensor's type."""

    widened: Widened
    values: dict[Operation, list[NDArray[np.float64]]] = field(
        default_factory=dict[Operation, list[NDArray[np.float64]]]
    )
    memories: dict[Operation, Memory | None] = field(default_factory=dict[Operation, "Memory | None"])
    _shown: dict[Operation, NDArray[np.float64]] = field(default_factory=dict[Operation, NDArray[np.float64]])

    def watched(self, module: Module) -> Collection[Operation]:
        return [shown for _, shown in self.widened.stores.values()]

    def after_step(self, executed: Executed) -> None:
        self._shown[executed.operation] = cast_float(spread(executed.operands[0]), FLOAT64)

    def after_access(self, access: Access) -> None:
        known = self.widened.stores.get(access.operation)
        if known is None:
            return
        original, shown = known
        values = np.broadcast_to(self._shown[shown], access.shape)
        mask = None if access.mask is None else np.broadcast_to(access.mask, access.shape)
        self.values.setdefault(original, []).append(values[mask] if mask is not None else values.reshape(-1))
        self.memories.setdefault(original, access.memory)


def _run(replay: Replay, widened: Widened) -> _Stored:
    """What a module stores, run for a few programs one after another."""
    stored = _Stored(widened)
    programs = None if programs_wait(replay.module) else spread_programs(replay.launch)
    replay.run([stored], widened.module, programs=programs, threads=1, output=io.StringIO())
    return stored


def _errors(stored: _Stored, exact: _Stored) -> Errors:
    """The largest error of each store whose lanes are the same in both runs."""
    found: dict[Operation, _Error] = {}
    for store, parts in exact.values.items():
        wanted = np.concatenate(parts)
        got = np.concatenate(stored.values.get(store, [np.empty(0)]))
        if wanted.size == 0 or got.shape != wanted.shape:
            continue
        element = element_type(store.operand_segments["value"][0].type)
        assert isinstance(element, FloatType)
        size = relative_error(got, wanted)
        found[store] = _Error(size, ROUNDING_UNITS[element.name], element.name, name_of(exact.memories[store]))
    return found


def relative_error(got: NDArray[np.float64], wanted: NDArray[np.float64]) -> float:
    """The largest |got − wanted| / (|wanted| + rms(wanted)) of the lanes that are finite in both."""
    finite = np.isfinite(got) & np.isfinite(wanted)
    if not finite.any():
        return 0.0
    got, wanted = got[finite], wanted[finite]
    size = float(np.sqrt(np.mean(np.square(wanted))))
    return float(np.max(np.abs(got - wanted) / (np.abs(wanted) + size))) if size > 0 else 0.0


def _finding(candidate: Candidate, error: _Error, replay: Replay) -> Finding:
    file, line = line_of(candidate.operation, replay.launch)
    programs = spread_programs(replay.launch)
    return Finding(
        kind="precision",
        file=file,
        line=line,
        programs=programs,
        program_count=replay.launch.programs,
        lanes=(0, 0),
        lane_count=0,
        tensor=error.tensor,
        message=_message(candidate, error),
        hint=HINTS[candidate.form],
        level="warning",
    )


def _message(candidate: Candidate, error: _Error) -> str:
    name, type_name = candidate.name, candidate.type_name
    what = {
        "carried": f"{name or 'a value'} is accumulated in {type_name} over a loop",
        "sum": f"{name or 'a block'} is summed in {type_name}",
        "product": f"the product {name} is accumulated in {type_name}".replace("  ", " "),
        "tf32": "float32 operands are multiplied in tf32, which keeps 10 bits of their mantissa",
    }[candidate.form]
    instead = "in full float32" if candidate.form == "tf32" else "in float32"
    written = f"what is stored to {error.tensor or 'memory'}"
    return (
        f"{what}: {written} is off by {error.size:.1e} of its size against float64, by {error.better:.1e} {instead}; "
        f"one rounding to {error.type_name} costs {error.unit:.1e}"
    )


HINTS = {
    "carried": "start from tl.zeros(…, tl.float32) and cast once, at the store",
    "sum": "widen before the reduction: tl.sum(x.to(tl.float32), …)",
    "product": "let tl.dot accumulate in float32 (out_dtype=tl.float32) and cast at the store",
    "tf32": 'tl.dot(…, input_precision="ieee"), or "tf32" where the loss is meant',
}
