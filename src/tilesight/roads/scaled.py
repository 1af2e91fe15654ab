"""A case as it would be on tensors that do not fit in memory: the arithmetic of its addresses alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from tilesight.capture.case import Case
from tilesight.capture.inputs import TensorSpec
from tilesight.capture.launches import EngineSession, installed_session
from tilesight.capture.lent.lend import lend_missing_gpu
from tilesight.capture.scaled import LARGEST_REAL_BYTES, LookingSession, VirtualTensors
from tilesight.capture.subject import describe
from tilesight.checks.extremes import inspect_extremes
from tilesight.checks.finding import Finding
from tilesight.checks.place import launch_line
from tilesight.checks.wording import with_coordinates
from tilesight.engine import Launch
from tilesight.engine.binding import check_grid
from tilesight.errors import InputError, TilesightError
from tilesight.ir import Module
from tilesight.roads.failures import place_of
from tilesight.roads.scaled_notes import Remark, fold
from tilesight.roads.scalings import Scaling, largest_scalings, scalings
from tilesight.targets import Target
from tilesight.targets import target as find_target

INDEX_DTYPES = (torch.int32, torch.int64)


def check_scaled(case: Any, scale_to: int, target: str) -> list[Finding]:
    """Overflows and accesses out of bounds at sizes that do not fit in memory, and notes of what was run.

    Sizes that are equal in the case's inputs are one dimension. Each in turn is made so large that the
    largest tensor has `scale_to` elements; a dimension that the launcher does not take so large, for its grid or
    for what it allocates, is held where it still does, and others are made large beside it. The case's own
    launcher runs on tensors without memory, and of each launch the corners of the grid, a few programs at random
    and those where arithmetic begins to wrap. Loops run their first and last rounds.

    Loaded values are 0; integers of a size that fits in memory are looked at a second time, for overflow alone,
    as the case makes them, or all of them at their limit where that grows with a dimension.

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
    looker = _Looker(case, find_target(target), case.specs())
    for scaling in scalings(looker.specs, scale_to):
        if looker.look(scaling):
            continue
        for smaller in largest_scalings(looker.specs, scaling, scale_to, looker.takes):
            looker.look(smaller)
    if not looker.has_looked:
        nothing = Remark(_place_of(case), "--scale-to looked at nothing beyond the case's own sizes")
        looker.remarks.insert(0, nothing)
    return [*_without_repeats(looker.found), *fold(looker.remarks)]


@dataclass
class _Seen:
    """What the launches of one scaling have shown.

    Args:
        shapes: told in each message
        wanted: kinds of findings that hold at these inputs
    """

    shapes: str
    wanted: tuple[str, ...]
    findings: list[Finding] = field(default_factory=list[Finding])
    remarks: list[Remark] = field(default_factory=list[Remark])
    launches: int = 0
    looked_at: int = 0

    def inspect(self, module: Module, launch: Launch) -> None:
        """Look at one launch; one that cannot be looked at is told and does not stop the launcher."""
        self.launches += 1
        try:
            extremes = inspect_extremes(module, launch)
        except TilesightError as error:
            head = f"{launch.kernel} was not looked at"
            self.remarks.append(Remark(launch_line(launch), head, self.shapes, reason=str(error)))
            return
        self.looked_at += 1
        found = [each for each in extremes.findings if each.kind in self.wanted]
        placed = [with_coordinates(each, launch.grid) for each in found]
        self.findings += [replace(each, message=f"{each.message}, {self.shapes}") for each in placed]
        ran = f"{len(extremes.programs)} of {launch.programs:,} programs looked at"
        reason = "; ".join((ran, *extremes.uncovered))
        self.remarks.append(Remark(launch_line(launch), launch.kernel, self.shapes, reason=reason))


@dataclass
class _Looker:
    """Runs a case's launcher at other sizes.

    Args:
        specs: the inputs as the case has them
    """

    case: Case
    target: Target
    specs: Sequence[Any]
    found: list[Finding] = field(default_factory=list[Finding])
    remarks: list[Remark] = field(default_factory=list[Remark])
    has_looked: bool = False
    _own: list[Any] | None = None

    def look(self, scaling: Scaling) -> bool:
        """Look at every launch at these sizes; False where something kept a launch from being looked at."""
        complete = self._look(scaling, self._seen(scaling, ("overflow", "out-of-bounds")), lambda _: None)
        if any(map(_is_index, scaling.tensors)):
            seen = self._seen(scaling, ("overflow",), _limits_text(self.specs, scaling))
            complete = self._look(scaling, seen, lambda index: self._index_values(scaling, index)) or complete
        return complete

    def takes(self, scaling: Scaling) -> bool:
        """Whether the launcher runs at these sizes and launches something that a GPU would take."""
        launched: list[str] = []

        def note_launch(_: Module, launch: Launch) -> None:
            check_grid(launch)
            launched.append(launch.kernel)

        return self._run(scaling, note_launch, lambda _: None)[0] is None and bool(launched)

    def _seen(self, scaling: Scaling, wanted: tuple[str, ...], limits: str = "") -> _Seen:
        return _Seen(f"with {', '.join(map(str, scaling.tensors))}{limits}", wanted)

    def _look(self, scaling: Scaling, seen: _Seen, values: Callable[[int], torch.Tensor | None]) -> bool:
        error, skipped = self._run(scaling, seen.inspect, values)
        self.has_looked |= seen.looked_at > 0
        self.found += seen.findings
        self.remarks += seen.remarks
        place = _place_of(self.case)
        if error is not None:
            self.remarks.append(_stopped(place, seen, error))
        elif not seen.launches:
            self.remarks.append(Remark(place, "no kernel was launched", seen.shapes))
        if skipped and error is None:
            head = f"torch's own {', '.join(sorted(skipped))} were not computed"
            self.remarks.append(Remark(place, head, seen.shapes, ": shapes alone"))
        return error is None and seen.looked_at == seen.launches > 0

    def _run(
        self,
        scaling: Scaling,
        inspect: Callable[[Module, Launch], None],
        values: Callable[[int], torch.Tensor | None],
    ) -> tuple[Exception | None, set[str]]:
        """Run the launcher: what stopped it, and which of torch's operators gave shapes alone."""
        assert self.case.hand is not None
        outer = installed_session()
        lent = outer.lent if outer is not None else None
        borrowed = lend_missing_gpu(self.target) if outer is None else None
        tensors = VirtualTensors()
        session: EngineSession = LookingSession(int(self.target.arch), inspect, lent or borrowed)
        try:
            with session, tensors, borrowed or contextlib.nullcontext():
                given = [_input(tensors, spec, values(index)) for index, spec in enumerate(scaling.specs)]
                self.case.hand(*given)
        except Exception as error:
            return error, tensors.skipped
        return None, tensors.skipped

    def _index_values(self, scaling: Scaling, index: int) -> torch.Tensor | None:
        """An integer input as the case makes it, or all at its limit where sizes have changed it."""
        before, spec = self.specs[index], scaling.specs[index]
        if not isinstance(spec, TensorSpec) or not _is_index(spec):
            return None
        if (spec.shape, spec.limit) != (before.shape, before.limit):
            most = min(spec.limit or 1, torch.iinfo(spec.dtype).max) - 1
            return torch.full(spec.shape, most, dtype=spec.dtype)
        if self._own is None:
            self._own = self.case.make_inputs()
        return self._own[index].clone()


def _is_index(spec: TensorSpec) -> bool:
    return spec.dtype in INDEX_DTYPES and spec.bytes <= LARGEST_REAL_BYTES


def _limits_text(before: Sequence[Any], scaling: Scaling) -> str:
    """What indices are that grew with a dimension, for a message."""
    pairs = [(one, each) for one, each in zip(before, scaling.specs, strict=True) if isinstance(each, TensorSpec)]
    grown = [f"{each} of {each.limit - 1:,}" for one, each in pairs if each.limit and one.limit != each.limit]
    return f", {' and '.join(grown)}" if grown else ", integers as the case makes them"


def _input(tensors: VirtualTensors, spec: Any, values: torch.Tensor | None) -> Any:
    if values is not None:
        return values
    return tensors.make(spec.shape, spec.dtype) if isinstance(spec, TensorSpec) else spec


def _stopped(place: tuple[str, int], seen: _Seen, error: Exception) -> Remark:
    """The launcher raised: what it would have launched after that was not looked at."""
    reason = str(error) if isinstance(error, TilesightError) else describe(error)
    return Remark(place, "the launcher stopped", seen.shapes, "; later launches were not looked at", reason)


def _place_of(case: Case) -> tuple[str, int]:
    """File and line of the launcher; no file where that is not known."""
    assert case.hand is not None
    file, line = place_of(case.hand)
    return (str(file) if line else "", line)


def _without_repeats(findings: Sequence[Finding]) -> list[Finding]:
    """Faults of one kind, line and tensor once, at the first shapes that show them."""
    kept: dict[tuple[object, ...], Finding] = {}
    for finding in findings:
        kept.setdefault((finding.kind, finding.file, finding.line, finding.tensor), finding)
    return list(kept.values())
