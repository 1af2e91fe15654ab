"""The correctness matrix of a case: which runs, each run judged, nothing stops the others."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from tilesight.capture.case import Case
from tilesight.capture.inputs import DTYPES
from tilesight.capture.launches import EngineSession
from tilesight.capture.memory_guard import allocations_bounded
from tilesight.capture.numerics import Verdict, flatten, judge, reference_outputs
from tilesight.capture.provenance import Provenance
from tilesight.checks.finding import Finding
from tilesight.checks.wording import counted
from tilesight.errors import EndlessLoopError, InputError, MemoryCapError, TilesightError
from tilesight.roads.check_launches import CheckObserver
from tilesight.roads.failures import is_refusal, tell
from tilesight.roads.input_names import input_names
from tilesight.roads.input_use import InputUse, ViewWatch, use_of_inputs
from tilesight.roads.layouts import REPEATED
from tilesight.roads.matrix_inputs import (
    Cell,
    make_tensors,
)
from tilesight.roads.model import CheckedCase, is_fault, place
from tilesight.roads.shapes import Shapes
from tilesight.targets import Target

ROUNDS_AFTER_ENDLESS = 10_000
"""Of a loop, or two for each element of the inputs: what sequential loops over these take."""
SHORT_NAMES = {dtype: name for name, dtype in reversed(DTYPES.items())}


@dataclass(frozen=True)
class Outcome:
    """A run that is over.

    Args:
        cell: what ran
        case: what came of it
        findings: of all its launches
        constexprs: of each launch
        use: what its launches did with the inputs; None where the launcher did not return
        repeated: of an expanded input that goes wrong the run of the same values in a contiguous one
        launches: how many
        steps: accesses that the engine executed one after another
        outputs: the shapes that the reference gave; empty where it was not reached
        is_too_large: it did not run to its end, as the memory cap forbids it
    """

    cell: Cell
    case: CheckedCase
    findings: tuple[Finding, ...] = ()
    constexprs: tuple[dict[str, object], ...] = ()
    use: InputUse | None = None
    repeated: Outcome | None = None
    launches: int = 0
    steps: int = 0
    outputs: Shapes = ()
    is_too_large: bool = False


@dataclass
class Matrix:
    """Runs a case's launcher on one set of inputs after another, each against the reference.

    Args:
        case: has a hand-written launcher
        session: installed
        seed: of the random inputs
        target: the GPU that is asked whether it takes the launches
    """

    case: Case
    session: EngineSession
    seed: int
    target: Target
    done: dict[tuple[str, str], Outcome] = field(default_factory=dict[tuple[str, str], Outcome])
    is_asked: bool = False
    """Whether the shapes are those that somebody asked for."""
    endless: str = ""
    """The inputs of a run whose loop was given up."""

    def run(self, cell: Cell) -> Outcome:
        """The outcome of a run; the same run is not run twice."""
        key = (cell.inputs, self.layout_text(cell))
        if key not in self.done:
            self.done[key] = self._told_apart(self._run(cell))
        return self.done[key]

    def _told_apart(self, outcome: Outcome) -> Outcome:
        """The run of an expanded input with what a contiguous one of the same values shows.

        Integers that repeat, such as places to store to, may be what no caller would give: what comes of these values
        alone is left out.
        """
        cell, layout = outcome.cell, outcome.cell.layout
        if layout is None or not layout.repeats or not (outcome.findings or outcome.case.ok is False):
            return outcome
        repeated = self._run(replace(cell, layout=REPEATED))
        if cell.values[cell.laid_out].dtype.is_floating_point:
            return replace(outcome, repeated=repeated)
        return without_values_faults(outcome, repeated)

    def layout_text(self, cell: Cell) -> str:
        """`contiguous`, or such as `x transposed`."""
        if cell.layout is None:
            return "contiguous"
        names = input_names(self.case.hand or self.case.eager, len(cell.values))
        return f"{names[cell.laid_out]} {cell.layout.name}"

    def _run(self, cell: Cell) -> Outcome:
        needed, cap = _bytes_needed(cell), self.session.options.memory_cap_bytes
        if needed > cap:
            note = f"needs {needed:,} bytes with its reference; the memory cap is {cap:,} (--memory-cap)"
            return self._too_large(cell, note)
        try:
            inputs = make_tensors(self.case, cell, self.seed)
            with allocations_bounded(cap, inputs):
                reference = reference_outputs(self.case.reference or self.case.eager, [_copy(each) for each in inputs])
        except MemoryCapError as error:
            return self._too_large(cell, f"the reference: {error}")
        except Exception as error:
            what = f"the reference does not take it: {tell(error, self.case.reference or self.case.eager)}"
            return self._outcome(cell, False if cell.is_own else None, note=what)
        return self._run_hand(cell, inputs, reference)

    def _too_large(self, cell: Cell, note: str, observer: CheckObserver | None = None) -> Outcome:
        """A size of the plan's own choice is left out; the case's own shape, or one that was asked for, has failed."""
        ok = False if cell.is_own or self.is_asked else None
        return replace(self._outcome(cell, ok, note=note, observer=observer), is_too_large=True)

    def _run_hand(self, cell: Cell, inputs: list[Any], reference: Sequence[torch.Tensor]) -> Outcome:
        hand = self.case.hand
        assert hand is not None
        observer = CheckObserver(self.session, self.target)
        self.session.observers.append(observer)
        watch = ViewWatch(inputs[cell.laid_out]) if cell.layout is not None else None
        observer.also_hears = () if watch is None else (watch,)
        provenance = Provenance()
        try:
            cap = self.session.options.memory_cap_bytes
            with allocations_bounded(cap, inputs), provenance, self._rounds_bounded(cell):
                outputs = hand(*inputs)
                observer.finish(outputs)
        except MemoryCapError as error:
            return self._too_large(cell, f"the launcher: {error}", observer)
        except (Exception, SystemExit) as error:
            observer.note_failure(error)
            refused = is_refusal(error) and not cell.is_own
            note = f"{'refused' if refused else 'failed'}: {tell(error, hand)}"
            if isinstance(error, EndlessLoopError):
                note += f" (bounded lower since {self.endless} has not ended)" if self._lower_limit(cell) else ""
                self.endless = self.endless or cell.inputs
            return self._outcome(cell, None if refused else False, note=note, observer=observer)
        finally:
            self.session.observers.remove(observer)
        shapes = tuple(tuple(each.shape) for each in reference)
        use = use_of_inputs(observer, inputs, outputs, provenance.copies, watch)
        return replace(self._judged(cell, outputs, reference, observer), outputs=shapes, use=use)

    def _lower_limit(self, cell: Cell) -> int | None:
        """Once a loop has not ended, others are given up sooner: each costs seconds where the limit is large."""
        rounds = max(ROUNDS_AFTER_ENDLESS, 2 * cell.elements)
        return rounds if self.endless and rounds < self.session.options.loop_limit else None

    @contextlib.contextmanager
    def _rounds_bounded(self, cell: Cell) -> Generator[None]:
        options = self.session.options
        self.session.options = replace(options, loop_limit=self._lower_limit(cell) or options.loop_limit)
        try:
            yield
        finally:
            self.session.options = options

    def _judged(self, cell: Cell, outputs: Any, reference: Sequence[torch.Tensor], observer: CheckObserver) -> Outcome:
        try:
            _compare_kinds(outputs, reference)
            verdict = judge(outputs, reference)
        except TilesightError as error:
            return self._outcome(cell, False, note=str(error), observer=observer)
        if verdict.ok:
            is_finite = all(bool(each.isfinite().all()) for each in reference)
            observer.findings = [_as_meant(finding, is_finite) for finding in observer.findings]
        return self._outcome(cell, verdict.ok, verdict, observer=observer)

    def _outcome(
        self,
        cell: Cell,
        ok: bool | None,
        verdict: Verdict | None = None,
        note: str = "",
        observer: CheckObserver | None = None,
    ) -> Outcome:
        launches = observer.launches if observer else []
        findings = tuple(observer.findings) if observer else ()
        checked = CheckedCase(
            inputs=cell.inputs,
            shape=tuple(spec.shape for spec in cell.specs),
            dtype=_dtype_text(cell),
            strides=self.layout_text(cell),
            ok=ok,
            error=verdict.max_error if verdict else None,
            tolerance=verdict.tolerance if verdict else None,
            note=note,
            grids=tuple(launch.grid for launch in launches),
            kinds=tuple(dict.fromkeys(finding.kind for finding in findings if is_fault(finding))),
        )
        constexprs = tuple(launch.constexprs for launch in launches)
        steps = sum(launch.accesses for launch in launches)
        return Outcome(cell, checked, findings, constexprs, launches=len(launches), steps=steps)


def without_values_faults(outcome: Outcome, repeated: Outcome) -> Outcome:
    """A run without what is wrong in another with the same values too."""
    theirs = {place(finding) for finding in repeated.findings}
    findings = tuple(finding for finding in outcome.findings if place(finding) not in theirs)
    kinds = tuple(dict.fromkeys(finding.kind for finding in findings if is_fault(finding)))
    case = replace(outcome.case, kinds=kinds)
    if outcome.case.ok is False and repeated.case.ok is not True:
        case = replace(case, ok=None, error=None, note="integers that repeat: not what the case's own inputs hold")
    return replace(outcome, case=case, findings=findings)


def _bytes_needed(cell: Cell) -> int:
    """Bytes of the inputs, of their copies in float64 and of outputs of about their size."""
    return sum(2 * torch.Size(spec.shape).numel() * (spec.dtype.itemsize + 8) for spec in cell.specs)


def _copy(value: Any) -> Any:
    """A tensor's values apart from its layout, so that what the reference writes stays its own."""
    return value.clone(memory_format=torch.contiguous_format) if isinstance(value, torch.Tensor) else value


def _as_meant(finding: Finding, is_finite: bool) -> Finding:
    """What is harmless where the outputs are the reference's.

    A NaN or an infinity that the reference has at the same place is the operator's value there. Padded lanes that a
    reduction takes on purpose, such as the last lane of a scan, leave the result right.
    """
    meant = ("all-masked-row",) if is_finite else ("all-masked-row", "nan-origin")
    if finding.kind not in meant or not is_fault(finding):
        return finding
    return replace(finding, level="note", hint="nothing: the reference gives the same for these inputs")


def _compare_kinds(outputs: Any, reference: Sequence[torch.Tensor]) -> None:
    """Refuse what cannot be compared: no tensors, or whole numbers where the other side has fractions.

    Raises:  InputError: saying which side returned what
    """
    if not flatten(outputs) and reference:
        raise InputError(
            "the launcher returned no tensor", expected=f"{counted(len(reference), 'tensor')}, as the reference returns"
        )
    if not reference:
        raise InputError("the reference returned no tensor", expected="one for each that the launcher returns")
    for number, (output, expected) in enumerate(zip(flatten(outputs), reference, strict=False)):
        if output.dtype.is_floating_point != expected.dtype.is_floating_point:
            raise InputError(
                f"output {number} is {output.dtype}", expected=f"a dtype like the reference's {expected.dtype}"
            )


def _dtype_text(cell: Cell) -> str:
    dtype = cell.dtype or next((spec.dtype for spec in cell.specs), None)
    return SHORT_NAMES.get(dtype, str(dtype)) if dtype is not None else ""
