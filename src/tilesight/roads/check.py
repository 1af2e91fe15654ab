"""The sanitizer on a launch, and on a case over a matrix of shapes, dtypes and layouts."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilesight.capture.case import Case
from tilesight.capture.launches import EngineSession, installed_session
from tilesight.capture.lent.lend import lend_missing_gpu
from tilesight.capture.provenance import Provenance
from tilesight.capture.subject import load, look_up, parse_spec
from tilesight.engine import ExecutionOptions
from tilesight.errors import InputError
from tilesight.roads.check_launches import CheckObserver
from tilesight.roads.failures import plain_function, tell
from tilesight.roads.gather import case_text, gather, gather_launches
from tilesight.roads.input_names import required_parameters
from tilesight.roads.matrix import Matrix, Outcome
from tilesight.roads.matrix_inputs import Cell, own_cell, with_sizes
from tilesight.roads.matrix_plan import run_matrix
from tilesight.roads.model import Check, CheckedCase, is_fault, place
from tilesight.roads.scaled import check_scaled
from tilesight.roads.shrink import shrink_sizes
from tilesight.targets import target as find_target

Texts = str | Sequence[str] | None
LOOP_LIMIT = 100_000
"""Rounds of a loop under all listeners, some 20 seconds of them; the engine alone is given more."""


def check_spec(
    spec: str,
    *,
    shapes: str | None = None,
    dtypes: str | None = None,
    target: str = "h200",
    seed: int = 0,
    loop_limit: int | None = None,
    memory_cap_bytes: int | None = None,
    scale_to: int | None = None,
) -> Check:
    """The Check of `FILE.py:NAME`, a tilesight.Case or a function without arguments that launches.

    Args:
        shapes, dtypes: what `--shapes` and `--dtypes` say (`roads.matrix_inputs`)
        target: name of a GPU
        seed: of the random inputs
        loop_limit: rounds after which a loop is given up as one that does not end; `LOOP_LIMIT` when None
        memory_cap_bytes: what a run may take, with its reference
        scale_to: elements to scale the shapes to, for the arithmetic of addresses alone
    Raises:  InputError: when the file, the name, the texts or the target can't be used
    """
    parsed = parse_spec(spec)
    usual = ExecutionOptions(loop_limit=LOOP_LIMIT)
    options = replace(
        usual,
        loop_limit=loop_limit or usual.loop_limit,
        memory_cap_bytes=memory_cap_bytes or usual.memory_cap_bytes,
    )
    lent = lend_missing_gpu(find_target(target))
    session = _session(target, options, lent)
    with session, lent or contextlib.nullcontext():
        subject = look_up(load(parsed), parsed)
        if isinstance(subject, Case):
            subject = replace(subject, name=subject.name or f"{parsed.path.stem}:{parsed.name}")
        elif not callable(subject):
            kind = type(subject).__name__
            raise InputError(
                f"{parsed.name} is of type {kind}",
                where=str(parsed.path),
                expected="a tilesight.Case or a function without arguments that launches a kernel",
            )
        return check(
            subject, shapes=shapes, dtypes=dtypes, target=target, seed=seed, options=options, scale_to=scale_to
        )


def check(
    subject: Case | Callable[[], Any],
    *,
    shapes: Texts = None,
    dtypes: Texts = None,
    target: str = "h200",
    seed: int = 0,
    options: ExecutionOptions | None = None,
    scale_to: int | None = None,
) -> Check:
    """Everything that is wrong with a case or a launch.

    Args:
        subject: a Case, whose launcher is run over the matrix, or a function without arguments
        shapes, dtypes: texts as `--shapes` and `--dtypes` take them, or lists of their parts; of a Case only
        scale_to: elements to scale the shapes to, for the arithmetic of addresses alone
    Raises:  InputError: when these can't be used, or nothing is launched
    """
    if isinstance(subject, Case):
        texts = _joined(shapes, ";"), _joined(dtypes, ",")
        found = check_case(subject, *texts, target=target, seed=seed, options=options)
        return found if scale_to is None else _scaled(found, subject, scale_to, target)
    if shapes or dtypes:
        raise InputError("shapes or dtypes for a launch function", expected="a tilesight.Case, whose inputs vary")
    found = check_launch(subject, target=target, options=options)
    return found if scale_to is None else _scaled(found, subject, scale_to, target)


def check_launch(
    function: Callable[[], Any], *, target: str = "h200", options: ExecutionOptions | None = None
) -> Check:
    """What the sanitizer finds in the launches of a function without arguments.

    Raises:  InputError: when the function takes arguments or launches nothing
    """
    needed = required_parameters(function)
    if needed:
        raise InputError(
            f"{_name_of(function)} takes arguments: {', '.join(needed)}",
            expected="a function without arguments that launches a kernel, or a tilesight.Case",
        )
    session = _session(target, options, _outer_lent())
    observer = CheckObserver(session, find_target(target))
    session.observers.append(observer)
    failed: tuple[CheckedCase, ...] = ()
    with session:
        try:
            with Provenance():
                observer.finish(function())
        except (Exception, SystemExit) as error:
            observer.note_failure(error)
            failed = (CheckedCase("", (), "", "", False, note=f"failed: {tell(error, function)}"),)
    name = _name_of(function)
    if not observer.launches and not failed:
        raise InputError(f"{name} launched no Triton kernel", expected="a function that launches one")
    return Check(
        subject=name,
        target=target,
        cases=failed,
        findings=gather_launches(observer.findings),
        launches=len(observer.launches),
    )


def check_case(
    case: Case,
    shapes: str | None = None,
    dtypes: str | None = None,
    *,
    target: str = "h200",
    seed: int = 0,
    options: ExecutionOptions | None = None,
) -> Check:
    """A case's launcher over shapes, dtypes and layouts, each run against float64 and under the sanitizer.

    A run that fails says so in its note and stops no other. Numbers are judged by
    `capture.numerics.TOLERANCES`. The smallest failing run is made smaller still by hypothesis.

    Raises:  InputError: when the case has no launcher or no inputs, or a text can't be read
    """
    if case.hand is None:
        raise InputError("the case has no hand-written launcher", where=case.name, expected="hand=… in tilesight.Case")
    session = _session(target, options, _outer_lent())
    with session:
        matrix = Matrix(case, session, seed, find_target(target))
        outcomes, notes = run_matrix(matrix, shapes, dtypes)
        first = _smallest_and_its_twin(matrix, outcomes)
    outcomes = [*first, *(outcome for outcome in outcomes if not any(outcome is each for each in first))]
    return Check(
        subject=case.name or _name_of(case.hand),
        target=target,
        cases=tuple(outcome.case for outcome in outcomes),
        findings=gather(outcomes),
        launches=sum(outcome.launches for outcome in outcomes),
        smallest_failing=case_text(first[0].case) if first else "",
        notes=tuple(notes),
    )


def _smallest_and_its_twin(matrix: Matrix, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The smallest failing run, and beside one with a layout the contiguous run that tells what the layout does."""
    smallest = _shrunk(matrix, outcomes)
    if smallest is None or smallest.cell.layout is None:
        return [] if smallest is None else [smallest]
    return [smallest, matrix.run(replace(smallest.cell, layout=None, laid_out=-1))]


def _shrunk(matrix: Matrix, outcomes: Sequence[Outcome]) -> Outcome | None:
    """The smallest run that fails as the first failing one does; None when none fails."""
    failing = sorted((outcome for outcome in outcomes if _faults(outcome)), key=lambda each: each.is_too_large)
    first = failing[0] if failing else None
    if first is None or first.cell.sizes is None or first.is_too_large:
        return first
    own, faults = own_cell(matrix.case).with_dtype(first.cell.dtype), _faults(first)

    def cell_of(sizes: dict[int, int]) -> Cell:
        changed = with_sizes(own, sizes)
        return replace(changed, layout=first.cell.layout, laid_out=first.cell.laid_out, is_own=False)

    def fails(sizes: dict[int, int]) -> bool:
        cell = cell_of(sizes)
        layout = cell.layout
        is_possible = layout is None or layout.applies(cell.values[cell.laid_out].shape)
        return is_possible and bool(faults & _faults(matrix.run(cell)))

    smallest = shrink_sizes(first.cell.sizes, fails)
    return first if smallest == first.cell.sizes else matrix.run(cell_of(smallest))


def _faults(outcome: Outcome) -> set[str]:
    """What is wrong with a run: kinds of findings, and its numbers or its failure, whatever the sizes in it."""
    case = outcome.case
    found = {finding.kind for finding in outcome.findings if is_fault(finding)}
    if case.ok is False:
        found.add("numbers" if case.error is not None else re.sub(r"\d+", "", case.note))
    return found


def _session(target: str, options: ExecutionOptions | None, lent: Any) -> EngineSession:
    usual = ExecutionOptions(loop_limit=LOOP_LIMIT)
    return EngineSession(int(find_target(target).arch), options or usual, is_pinned=True, lent=lent)


def _outer_lent() -> Any:
    outer = installed_session()
    return outer.lent if outer is not None else None


def _joined(texts: Texts, separator: str) -> str | None:
    return texts if texts is None or isinstance(texts, str) else separator.join(texts)


def _name_of(function: Callable[..., Any]) -> str:
    plain = plain_function(function)
    name = getattr(plain, "__name__", type(plain).__name__)
    file = getattr(getattr(plain, "__code__", None), "co_filename", "")
    return f"{Path(file).stem}:{name}" if file else name


def _scaled(found: Check, subject: Any, scale_to: int, target: str) -> Check:
    """The check with what the arithmetic of addresses does at a larger size, and how much of that was looked at."""
    known = {place(each) for each in found.findings}
    seen = check_scaled(subject, scale_to, target)
    more = [each for each in seen if is_fault(each) and place(each) not in known]
    covered = [f"{Path(each.file).name}:{each.line}: {each.message}" for each in seen if not is_fault(each)]
    return replace(
        found, findings=(*found.findings, *gather_launches(more)), notes=(*found.notes, *dict.fromkeys(covered))
    )
