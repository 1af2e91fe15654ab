"""A case as it would be on tensors that do not fit in memory: the arithmetic of its addresses alone."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from tilesight.capture.case import Case
from tilesight.capture.inputs import TensorSpec
from tilesight.capture.launches import EngineSession, installed_session
from tilesight.capture.lent.lend import lend_missing_gpu
from tilesight.capture.scaled import LookingSession, VirtualTensors
from tilesight.capture.subject import describe
from tilesight.checks.extremes import inspect_extremes
from tilesight.checks.finding import Finding
from tilesight.checks.place import launch_line
from tilesight.engine import Launch
from tilesight.errors import InputError, TilesightError
from tilesight.ir import Module
from tilesight.roads.failures import place_of
from tilesight.targets import Target
from tilesight.targets import target as find_target

LARGEST_DIMENSION = 2**31 - 1


@dataclass(frozen=True)
class Scaling:
    """The shapes at which a case is looked at.

    Args:
        dimension: the size that is scaled, in every tensor that has it
        size: what it becomes
        specs: the inputs
    """

    dimension: int
    size: int
    specs: tuple[Any, ...]


def check_scaled(case: Any, scale_to: int, target: str) -> list[Finding]:
    """Overflows and accesses out of bounds at sizes that do not fit in memory, and notes of what was run.

    Sizes that are equal in the case's inputs are one dimension. Each in turn is made so large that the
    largest tensor has `scale_to` elements; the case's own launcher runs on tensors without memory, and
    of each launch the corners of the grid, a few programs at random and those where arithmetic begins to
    wrap. Loops run their first and last rounds. Loaded values are 0, so addresses that are loaded are
    not covered; neither is a grid's size.

    Args:
        case: a tilesight.Case with a launcher and inputs as text or tensors
        scale_to: elements of the largest tensor, at least
        target: the GPU whose front-end specialisation is used
    Raises:  InputError: it is no case, has no launcher, or its inputs cannot be scaled
    """
    if not isinstance(case, Case):
        raise InputError(
            "--scale-to needs a Case: what else makes its tensors cannot be scaled",
            expected='tilesight.Case(…, hand=launcher, inputs="f32[128,256]")',
        )
    if case.hand is None:
        raise InputError("--scale-to needs a launcher", expected="tilesight.Case(…, hand=launcher)")
    found: list[Finding] = []
    for scaling in scalings(case.specs(), scale_to):
        found += _look(case, scaling, find_target(target))
    return _without_repeats(found)


def scalings(specs: Sequence[Any], scale_to: int) -> list[Scaling]:
    """The inputs with each dimension in turn scaled until the largest tensor has enough elements.

    A size of 1, which broadcasts, is no dimension.

    Raises: InputError: no tensor is smaller than that, or one is not contiguous, or an input is an integer
    """
    tensors = [spec for spec in specs if isinstance(spec, TensorSpec)]
    _check_inputs(specs, tensors)
    sizes = list(dict.fromkeys(size for spec in tensors for size in spec.shape if size > 1))
    if not sizes or max(prod(spec.shape) for spec in tensors) >= scale_to:
        raise InputError(
            f"inputs {', '.join(map(str, tensors))} cannot be scaled",
            where="--scale-to",
            expected=f"a tensor of more than one and fewer than {scale_to:,} elements",
        )
    return [_scale(specs, tensors, size, scale_to) for size in sizes]


def _check_inputs(specs: Sequence[Any], tensors: Sequence[TensorSpec]) -> None:
    for spec in tensors:
        if spec.strides is not None and spec.strides != _contiguous(spec.shape):
            raise InputError(
                f"input {spec} has strides {list(spec.strides)}", where="--scale-to", expected="contiguous inputs"
            )
    for value in specs:
        if isinstance(value, int) and not isinstance(value, bool):
            raise InputError(
                f"an input is the integer {value}",
                where="--scale-to",
                expected="tensors, whose shapes can be scaled",
                next_step="let the launcher take sizes from its tensors",
            )


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(prod(size or 1 for size in shape[axis + 1 :]) for axis in range(len(shape)))


def _scale(specs: Sequence[Any], tensors: Sequence[TensorSpec], size: int, scale_to: int) -> Scaling:
    """One size multiplied by the least factor that is enough."""
    factor = min(_factor(spec, size, scale_to) for spec in tensors if size in spec.shape)
    large = size * factor

    def scaled(spec: TensorSpec) -> TensorSpec:
        shape = tuple(large if each == size else each for each in spec.shape)
        return replace(spec, shape=shape, strides=None)

    return Scaling(size, large, tuple(scaled(spec) if isinstance(spec, TensorSpec) else spec for spec in specs))


def _factor(spec: TensorSpec, size: int, scale_to: int) -> int:
    """The least whole factor for one size at which a tensor has enough elements."""
    elements, times = prod(spec.shape), spec.shape.count(size)
    factor = max(1, int((scale_to / max(1, elements)) ** (1 / times)) - 1)
    while elements and elements * factor**times < scale_to:
        factor += 1
    return factor if elements else scale_to


@dataclass
class _Seen:
    """What the launches of one scaling have shown."""

    shapes: str
    findings: list[Finding] = field(default_factory=list[Finding])
    launches: int = 0

    def inspect(self, module: Module, launch: Launch) -> None:
        """Look at one launch; one that cannot be looked at is told and does not stop the launcher."""
        self.launches += 1
        try:
            extremes = inspect_extremes(module, launch)
        except TilesightError as error:
            self.findings.append(_note(launch, f"{launch.kernel} was not looked at {self.shapes}: {error}"))
            return
        self.findings += [replace(each, message=f"{each.message}, {self.shapes}") for each in extremes.findings]
        ran = f"{launch.kernel} {self.shapes}: {len(extremes.programs)} of {launch.programs:,} programs looked at"
        self.findings.append(_note(launch, "; ".join((ran, *extremes.uncovered))))


def _look(case: Case, scaling: Scaling, target: Target) -> list[Finding]:
    """Run the launcher on virtual tensors of the scaled shapes."""
    assert case.hand is not None
    seen = _Seen(f"with {', '.join(str(spec) for spec in scaling.specs if isinstance(spec, TensorSpec))}")
    outer = installed_session()
    lent = outer.lent if outer is not None else None
    borrowed = lend_missing_gpu(target) if outer is None else None
    tensors = VirtualTensors()
    session: EngineSession = LookingSession(int(target.arch), seen.inspect, lent or borrowed)
    try:
        with session, tensors, borrowed or contextlib.nullcontext():
            inputs = [tensors.make(s.shape, s.dtype) if isinstance(s, TensorSpec) else s for s in scaling.specs]
            case.hand(*inputs)
    except Exception as error:
        seen.findings.append(_stopped(case, seen, error))
        return seen.findings
    if not seen.launches:
        seen.findings.append(_plain_note(case, f"no kernel was launched {seen.shapes}"))
    if tensors.skipped:
        names = ", ".join(sorted(tensors.skipped))
        seen.findings.append(_plain_note(case, f"torch's own {names} were not computed {seen.shapes}: shapes alone"))
    return seen.findings


def _stopped(case: Case, seen: _Seen, error: Exception) -> Finding:
    """The launcher raised: what it would have launched after that was not looked at."""
    text = str(error) if isinstance(error, TilesightError) else describe(error)
    return _plain_note(case, f"the launcher stopped {seen.shapes}: {text}; later launches were not looked at")


def _plain_note(case: Case, message: str) -> Finding:
    assert case.hand is not None
    file, line = place_of(case.hand)
    return _note_at((str(file) if line else "", line), message)


def _note(launch: Launch, message: str) -> Finding:
    return _note_at(launch_line(launch), message)


def _note_at(place: tuple[str, int], message: str) -> Finding:
    return Finding.of_line("overflow", place, message, "", level="note")


def _without_repeats(findings: Sequence[Finding]) -> list[Finding]:
    """Faults of one kind, line and tensor once, at the first shapes that show them; every note."""
    kept: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        rest = (finding.message,) if finding.level == "note" else ()
        kept.setdefault((finding.kind, finding.file, finding.line, finding.tensor, *rest), finding)
    return list(kept.values())
