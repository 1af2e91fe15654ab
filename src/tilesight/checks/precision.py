"""Accumulation in f16 or bf16, and tf32, where float32 would have given measurably better numbers."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilesight.checks.finding import Finding
from tilesight.checks.narrow import Candidate, find_candidates, promoted_values
from tilesight.checks.place import line_of, name_of
from tilesight.checks.replay import MOST_PROGRAMS, Replay, spread_programs
from tilesight.checks.widen import F32, Widened, Wider, can_widen, every_float, widen
from tilesight.engine.communication import UPDATES
from tilesight.engine.floats import cast_float
from tilesight.engine.launch import Memory
from tilesight.engine.listener import Access, AccessKind, Executed, Listener
from tilesight.engine.values import FLOAT_DTYPES, spread
from tilesight.ir.module import Module, Operation, Value
from tilesight.ir.types import FloatType, TensorType, element_type

FLOAT64 = np.dtype(np.float64)
MANTISSA_BITS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "f8E4M3FN": 4, "f8E4M3FNUZ": 4, "f8E4M3B11FNUZ": 4}
ROUNDING_UNITS = {**{name: 2.0**-bits for name, bits in MANTISSA_BITS.items()}, "f8E5M2": 0.125, "f8E5M2FNUZ": 0.125}
"""Half a unit in the last place, relative: what one rounding to the type may change."""

LEAST_ROUNDINGS = 2
LEAST_SHARE = 2
LEAST_UNIT = 0.25
"""Of a unit: a few stored values may be exact by chance, and rounding them cost nothing."""

WRITING: frozenset[AccessKind] = frozenset(("store", "atomic"))

MOST_VALUES = 4096
"""Stored values that an error is measured on, where one program does not store more."""


class PrecisionCheck:
    """Accumulations and products whose narrow type costs precision in what is stored, one finding a line.

    A few programs run with every float in f64, then with one candidate after another as it is and all else in f64
    (a single one with all else as it is), and with all candidates in f32 and all else as it is. The error of a
    stored value, before it is rounded to the tensor's type, is |stored − f64| / (|f64| + rms(f64)). A candidate is
    found when its own error is at least twice that of rounding to the tensor's type and twice that of all else; the
    first one, when only all together are. Kernels that take floats for bits, or compute in assembly, are not measured.

    Args:
        replay: of the launch, which has not run yet
    """

    def __init__(self, replay: Replay) -> None:
        self._replay = replay
        self._candidates = find_candidates(replay.module, replay.launch) if can_widen(replay.module) else []
        self._heard = _hear_stores(replay) if self._candidates else None

    @property
    def listeners(self) -> Sequence[Listener]:
        """What listens while the launch runs: it spares a run of its programs as they are."""
        return () if self._heard is None else (self._heard,)

    def findings(self) -> list[Finding]:
        """What was found, once the launch is over.

        Raises: TilesightError: as `engine.execute`
        """
        candidates = self._candidates
        if not candidates:
            return []
        measure = _Measure(self._replay, candidates, self._heard)
        alone = {candidate: measure.own_error([candidate]) for candidate in candidates}
        if not any(alone.values()) and len(candidates) > 1:
            alone = {candidates[0]: measure.own_error(candidates)}
        found: dict[tuple[str, int], Finding] = {}
        for candidate, error in alone.items():
            if error is not None:
                finding = _finding(candidate, measure.as_it_is(error), self._replay)
                found.setdefault((finding.file, finding.line), finding)
        return list(found.values())


@dataclass(frozen=True)
class StoredError:
    """The error of what a line stores to a tensor.

    Args:
        rounding: what rounding the exact values to the tensor's type costs
        better: the error that is left in float32
    """

    store: Operation
    size: float
    rounding: float
    type_name: str
    tensor: str
    better: float = 0.0

    @property
    def roundings(self) -> float:
        return self.size / self.rounding


Errors = Mapping[Operation, StoredError]


class _Measure:
    """The errors of a launch's stored values, with different parts of its kernel in wider types."""

    def __init__(self, replay: Replay, candidates: Sequence[Candidate], heard: Stored | None) -> None:
        module = replay.module
        self._replay = replay
        self._heard = heard
        self._is_single = len(candidates) == 1
        self._wide = every_float(module)
        self._programs = _programs(replay)
        self._exact = stored_by(replay, widened(module, self._wide), self._programs)
        promoted = dict.fromkeys(promoted_values(module, candidates), F32)
        ieee = [each.operation for each in candidates if each.form == "tf32"]
        self._repaired = self._errors(widened(module, promoted, ieee))

    def _errors(self, widened: Widened) -> Errors:
        return errors_of(stored_by(self._replay, widened, self._programs), self._exact)

    def own_error(self, left: Sequence[Candidate]) -> StoredError | None:
        """The largest error, in roundings, that candidates make; None when none stands out.

        A kernel's only candidate is measured in the kernel as it is: what the rest of it costs is known.
        """
        worst: StoredError | None = None
        errors = self._as_it_is if self._is_single else self._errors(self._with_narrow(left))
        for store, error in errors.items():
            rest = self._repaired[store].size if store in self._repaired else 0.0
            stands_out = error.size >= max(LEAST_ROUNDINGS * error.rounding, LEAST_SHARE * rest)
            if stands_out and (worst is None or error.roundings > worst.roundings):
                worst = replace(error, better=rest)
        return worst

    def _with_narrow(self, left: Sequence[Candidate]) -> Widened:
        kept = frozenset[Value]().union(*(each.values for each in left))
        wide = {value: type_ for value, type_ in self._wide.items() if value not in kept}
        return widened(self._replay.module, wide)

    def as_it_is(self, error: StoredError) -> StoredError:
        """The error with the size that it has in the kernel as it is."""
        size = self._as_it_is[error.store].size if error.store in self._as_it_is else error.size
        return replace(error, size=size)

    @cached_property
    def _as_it_is(self) -> Errors:
        if self._heard is not None:
            return errors_of(self._heard, self._exact)
        return self._errors(widened(self._replay.module, {}))


def widened(module: Module, wider: Wider, ieee: Collection[Operation] = ()) -> Widened:
    """A module with some values in wider types, as `widen` makes it, and made once."""
    return _widened_once(module, frozenset(wider.items()), frozenset(ieee))


@lru_cache(maxsize=128)
def _widened_once(module: Module, wider: frozenset[tuple[Value, FloatType]], ieee: frozenset[Operation]) -> Widened:
    """Launches of a kernel differ in nothing that its wider twins depend on, and the engine plans each twin once."""
    return widen(module, dict(wider), ieee)


@dataclass(eq=False)
class Stored(Listener):
    """Collects the floats that each store of a kernel writes, by program, whatever the order that they run in.

    Args:
        programs: those that are listened to; None for all
        values: store → program → its values, in the order in which it stores them
    """

    hears_in_any_order = True
    hears_kinds = WRITING
    programs: tuple[int, ...] | None = None
    values: dict[Operation, dict[int, list[NDArray[np.float64]]]] = field(
        default_factory=dict[Operation, dict[int, list[NDArray[np.float64]]]]
    )
    memories: dict[Operation, Memory | None] = field(default_factory=dict[Operation, "Memory | None"])

    def after_access(self, access: Access) -> None:
        if access.kind != "store" or access.values is None:
            return
        if isinstance(element_type(access.operation.operands[1].type), FloatType):
            self.keep(access.operation, access, access.values)

    def keep(self, store: Operation, access: Access, values: NDArray[np.generic]) -> None:
        """Note what an access by `store` writes; values: [P, *B] or broadcast to it, of any float type."""
        heard = range(access.shape[0])
        if self.programs is not None:
            heard = np.flatnonzero(np.isin(access.programs, self.programs)).tolist()
        if not heard:
            return
        values = np.broadcast_to(values, access.shape)
        mask = None if access.mask is None else np.broadcast_to(access.mask, access.shape)
        by_program = self.values.setdefault(store, {})
        for place in heard:
            mine = values[place].reshape(-1) if mask is None else values[place][mask[place]]
            by_program.setdefault(int(access.programs[place]), []).append(cast_float(mine, FLOAT64))
        self.memories.setdefault(store, access.memory)

    def of(self, store: Operation) -> NDArray[np.float64]:
        """[values] All that a store wrote, one program after another."""
        by_program = self.values.get(store, {})
        parts = [part for program in sorted(by_program) for part in by_program[program]]
        return np.concatenate(parts) if parts else np.empty(0)


@dataclass(eq=False)
class StoredWidened(Stored):
    """Collects what each store of a rewritten module is given, before it is rounded to the tensor's type."""

    hears_in_any_order = False
    widened: Widened = field(kw_only=True)
    _shown: dict[Operation, NDArray[np.generic]] = field(default_factory=dict[Operation, NDArray[np.generic]])

    def watched(self, module: Module) -> Collection[Operation]:
        return [shown for _, shown in self.widened.stores.values()]

    def after_step(self, executed: Executed) -> None:
        self._shown[executed.operation] = spread(executed.operands[0])

    def after_access(self, access: Access) -> None:
        known = self.widened.stores.get(access.operation)
        if known is not None:
            original, shown = known
            self.keep(original, access, self._shown[shown])

    @property
    def elements(self) -> dict[Operation, FloatType]:
        """The type that each store rounds to."""
        types = ((store, element_type(shown.results[0].type)) for store, shown in self.widened.stores.values())
        return {store: type_ for store, type_ in types if isinstance(type_, FloatType)}


def _hear_stores(replay: Replay) -> Stored | None:
    """A listener to what the launch stores as it is; None where it also adds floats to memory by atomics."""
    has_atomics = any(each.name in UPDATES for each in replay.module.walk())
    return None if has_atomics else Stored(_chosen(replay, _programs(replay)))


def stored_by(replay: Replay, widened: Widened, programs: tuple[int, ...]) -> StoredWidened:
    """What a module stores, run for some programs, or for all where they wait for each other."""
    stored = StoredWidened(widened=widened)
    replay.run([stored], widened.module, programs=_chosen(replay, programs), threads=1, output=io.StringIO())
    return stored


def _chosen(replay: Replay, programs: tuple[int, ...]) -> tuple[int, ...] | None:
    """The programs that are run again; None for all, where they wait for each other."""
    return None if replay.few_programs() is None else programs


def _programs(replay: Replay) -> tuple[int, ...]:
    """Programs that together store `MOST_VALUES` values at most, but one at least: large tiles need few of them."""
    stored = (operation.operands[1].type for operation in replay.module.walk() if operation.name == "tt.store")
    values = max((prod(type_.shape) for type_ in stored if isinstance(type_, TensorType)), default=1)
    return spread_programs(replay.launch, max(1, min(MOST_PROGRAMS, MOST_VALUES // values)))


def errors_of(stored: Stored, exact: StoredWidened) -> Errors:
    """The largest error of each store whose lanes are the same in both runs."""
    found: dict[Operation, StoredError] = {}
    elements = exact.elements
    for store in exact.values:
        wanted, got = exact.of(store), stored.of(store)
        if wanted.size == 0 or got.shape != wanted.shape:
            continue
        element = elements[store]
        rounded = cast_float(cast_float(wanted, FLOAT_DTYPES[element.name]), FLOAT64)
        rounding = max(relative_error(rounded, wanted), LEAST_UNIT * ROUNDING_UNITS[element.name])
        size = relative_error(got, wanted)
        found[store] = StoredError(store, size, rounding, element.name, name_of(exact.memories[store]))
    return found


def relative_error(got: NDArray[np.float64], wanted: NDArray[np.float64]) -> float:
    """The largest |got − wanted| / (|wanted| + rms(wanted)) of the lanes that are finite in both."""
    finite = np.isfinite(got) & np.isfinite(wanted)
    if not finite.any():
        return 0.0
    got, wanted = got[finite], wanted[finite]
    size = float(np.sqrt(np.mean(np.square(wanted))))
    return float(np.max(np.abs(got - wanted) / (np.abs(wanted) + size))) if size > 0 else 0.0


def _finding(candidate: Candidate, error: StoredError, replay: Replay) -> Finding:
    file, line = line_of(candidate.operation, replay.launch)
    programs = _programs(replay)
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
        hint="nothing, where the loss is meant" if candidate.is_chosen else HINTS[candidate.form],
        level="note" if candidate.is_chosen else "warning",
    )


def _message(candidate: Candidate, error: StoredError) -> str:
    name, type_name = candidate.name, candidate.type_name
    what = {
        "carried": f"{name or 'a value'} is accumulated in {type_name} over a loop",
        "sum": f"{name or 'a block'} is summed in {type_name}",
        "product": f"the product {name} is accumulated in {type_name}".replace("  ", " "),
        "tf32": f"float32 operands are multiplied in tf32{' as asked' * candidate.is_chosen}, "
        "which keeps 10 bits of their mantissa",
    }[candidate.form]
    instead = "in full float32" if candidate.form == "tf32" else "in float32"
    written = f"what is stored to {error.tensor or 'memory'}"
    return f"{what}: {error_text(error, written, instead)}"


def error_text(error: StoredError, written: str, instead: str) -> str:
    """The figures of an error: as it is, without its cause, and of one rounding."""
    return (
        f"{written} is off by {error.size:.1e} of its size against float64, by {error.better:.1e} {instead}; "
        f"rounding to {error.type_name} alone costs {error.rounding:.1e}"
    )


HINTS = {
    "carried": "start from tl.zeros(…, tl.float32) and cast once, at the store",
    "sum": "widen before the reduction: tl.sum(x.to(tl.float32), …)",
    "product": "let tl.dot accumulate in float32 (out_dtype=tl.float32) and cast at the store",
    "tf32": 'tl.dot(…, input_precision="ieee"), or "tf32" where the loss is meant',
}
