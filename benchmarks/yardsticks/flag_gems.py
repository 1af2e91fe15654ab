"""FlagGems' ATen operators on the engine, against torch's own in float64.

Run `python -m benchmarks.yardsticks.flag_gems`, with `flag-gems`, PyYAML and SQLAlchemy installed. Every
operator that the package registers runs on CPU tensors that torch's operator database leads to, in
float32, bfloat16 and int64, the backward operators too. Writes benchmarks/results/flag_gems.json.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import itertools
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias
from unittest import mock

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

from benchmarks.yardsticks.flag_gems_faults import REFUSED, WRONG
from benchmarks.yardsticks.flag_gems_fused import fused_cases
from benchmarks.yardsticks.gpu_answers import gpu_is_answered_for
from benchmarks.yardsticks.operator_case import run_case
from benchmarks.yardsticks.operator_samples import AtenCall, copy_tensors, operator_of, record_calls
from benchmarks.yardsticks.outcomes import (
    LaunchCounter,
    NotRunError,
    Outcome,
    attempt,
    attempt_with_zeros,
    show,
    start_engine,
    tally,
    write_outcomes,
)
from tilesight.capture.launches import EngineSession
from tilesight.capture.numerics import Verdict, flatten, judge, tolerance_of
from tilesight.capture.tensors import dtype_name

Engine: TypeAlias = tuple[EngineSession, LaunchCounter]
DTYPES = (torch.float32, torch.bfloat16, torch.int64)
WIDE = {torch.complex64: torch.complex128}
NEWEST_KNOWN_MINOR = 6
"""FlagGems 5.0.2 leaves constexprs out of its repeated launches from Triton 3.7 on, also ones between other
arguments, which Triton 3.7.1's launcher counts; up to 3.6 it passes them all, which every version takes."""

SORTED = {"sort": ("dim", "descending"), "topk": ("k", "dim", "largest", "sorted")}
"""Operators that give indices of equal values in no promised order, with their arguments' names."""

RANDOM = frozenset(
    {
        "bernoulli_.float",
        "exponential_",
        "multinomial",
        "native_dropout",
        "normal.Tensor_Tensor",
        "normal.Tensor_float",
        "normal.float_Tensor",
        "normal_",
        "rand",
        "rand_like",
        "randn",
        "randn_like",
        "randperm",
        "uniform_",
    }
)
NOTES = (
    "GEMS_VENDOR=nvidia; torch.cuda's queries are answered with an H200's figures, CPU tensors pass for CUDA tensors",
    "operators are the package's functions as it registers them, called with the ATen calls that op_db's samples make",
    "its launch cache is told that Triton is 3.6, as from 3.7 on it leaves out arguments that the launcher counts",
    "reference: torch's own operator in float64, or in the call's dtype where that is closer; the tolerance is the"
    " published one, or twice the error of torch's own operator in the call's dtype where that is larger",
)


def widen(values: Any) -> Any:
    """Floating-point and complex tensors, and dtypes that are asked for, in double precision."""

    def wide(value: Any) -> Any:
        if isinstance(value, torch.dtype):
            return torch.float64 if value.is_floating_point else WIDE.get(value, value)
        if isinstance(value, torch.Tensor):
            return value.to(wide(value.dtype))
        return value

    return tree_map(wide, values)


def judge_call(call: AtenCall, function: Any) -> Verdict:
    """FlagGems' function against torch's on copies of the same arguments."""
    if call.key in RANDOM:
        raise NotRunError("draws random numbers from the GPU's generator; torch's eager ones are others")
    with torch.no_grad():
        eager_args, eager_kwargs = copy_tensors(call.args), copy_tensors(call.kwargs)
        eager = flatten(call.function(*eager_args, **eager_kwargs))
        wide_args, wide_kwargs = widen(copy_tensors(call.args)), widen(copy_tensors(call.kwargs))
        exact = flatten(call.function(*wide_args, **wide_kwargs))
        with gpu_is_answered_for():
            answer = as_tensors(function(*copy_tensors(call.args), **copy_tensors(call.kwargs)))
        if call.key in SORTED and not isinstance(answer, torch.Tensor):
            eager, exact, answer = (_without_ties(call, list(each)) for each in (eager, exact, answer))
    got, eager, exact = _line_up(answer, eager, exact)
    if [each.dtype for each in got] != [each.dtype for each in eager]:
        given, wanted = (", ".join(dtype_name(each.dtype) for each in tensors) for tensors in (got, eager))
        raise TypeError(f"outputs of {given}; torch gives {wanted}")
    verdict, own, against_eager = judge(got, exact), judge(eager, exact), judge(got, eager)
    published = max(
        verdict.tolerance, tolerance_of(torch.float32) if torch.float64 in {each.dtype for each in got} else 0
    )
    tolerance = max(published, 2 * own.max_error)
    error = min(verdict.max_error, against_eager.max_error)
    return Verdict(error <= tolerance, error, tolerance)


def _line_up(
    answer: Any, eager: list[torch.Tensor], exact: list[torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]:
    """The outputs that the library gives, in the shapes that torch gives them; None was not asked for."""
    given = list(answer) if isinstance(answer, list | tuple) else [answer]
    pairs = list(zip(given, eager, exact, strict=False))
    kept = [(each, e, x) for each, e, x in pairs if isinstance(each, torch.Tensor)]
    got = [each.reshape(e.shape) if each.numel() == e.numel() else each for each, e, _ in kept]
    return got, [e for _, e, _ in kept], [x for _, _, x in kept]


def _without_ties(call: AtenCall, outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Values, and what lies at the indices: equal values may come in any order."""
    values, indices, *rest = outputs
    options = dict(zip(("self", *SORTED[call.key]), call.args, strict=False)) | dict(call.kwargs)
    source = call.args[0].to(values.dtype)
    return [values, torch.gather(source, options.get("dim", -1), indices), *rest] if source.ndim else outputs


def as_tensors(values: Any) -> Any:
    """Python numbers that a function returns instead of a tensor, as tensors."""
    return tree_map(lambda value: torch.tensor(value) if isinstance(value, bool | int | float) else value, values)


def run_registered(package: Any, select: str, most: int, limit_s: float, engine: Engine) -> Iterator[Outcome]:
    """Every operator that the package registers for ATen, with as many calls as were found, up to `most` a dtype."""
    session, counter = engine
    functions = {entry[0]: entry[1] for entry in package._FULL_CONFIG if select in entry[0]}
    calls = record_calls(op_db, functions, DTYPES, most)
    for key, function in functions.items():
        mine = [call for call in calls if call.key == key]
        for number, call in enumerate(mine, 1):
            run = functools.partial(judge_call, call, function)
            case = f"call {number} of {len(mine)}"
            once = functools.partial(attempt, key, "forward", dtype_name(call.dtype), run, counter, limit_s, case=case)
            yield from map(explain, attempt_with_zeros(session, lambda once=once: [once()]))
        if not mine:
            yield attempt(key, "forward", "", functools.partial(refuse, key), counter, limit_s)


def explain(outcome: Outcome) -> Outcome:
    """A failed outcome with the reason that reading the kernel gave, where it was read."""
    reason = (REFUSED if outcome.max_error is None else WRONG).get(outcome.name)
    if outcome.ok is not False or reason is None:
        return outcome
    return replace(outcome, reason=f"{reason} ({outcome.reason})")


def refuse(key: str) -> Verdict:
    """Say why an operator is not run."""
    if operator_of(key) is None:
        raise NotRunError("the package's own name; torch has no operator to compare with")
    raise NotRunError("no sample of torch's operator database leads to a call of it that runs on a CPU")


def run_all(select: str, most: int, limit_s: float) -> Iterator[Outcome]:
    session, counter = engine = start_engine()
    os.environ["GEMS_VENDOR"] = "nvidia"
    with gpu_is_answered_for():
        package = importlib.import_module("flag_gems")
    entry = importlib.import_module("flag_gems.utils.libentry")
    with warnings.catch_warnings(), mock.patch.object(entry, "minor_version", NEWEST_KNOWN_MINOR):
        warnings.simplefilter("ignore")
        yield from run_registered(package, select, most, limit_s, engine)
        for case, dtype in itertools.product(fused_cases(package), DTYPES[:2]):
            if select in case.name:
                with gpu_is_answered_for():
                    outcomes = attempt_with_zeros(
                        session, lambda case=case, dtype=dtype: list(run_case(case, dtype, counter, limit_s))
                    )
                yield from outcomes


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--select", default="", help="only operators whose name contains this; writes nothing")
    parser.add_argument("--calls", type=int, default=2, help="calls of an operator in one dtype, at most")
    parser.add_argument("--limit", type=float, default=60, help="seconds a call may take")
    options = parser.parse_args(arguments)
    outcomes: list[Outcome] = []
    for outcome in run_all(options.select, options.calls, options.limit):
        print(show(outcome), flush=True)
        outcomes.append(outcome)
    print({key: value for key, value in tally(outcomes).items() if key != "reasons"})
    if not options.select:
        print(f"written to {write_outcomes('flag_gems', arguments, ['flag-gems'], NOTES, outcomes)}")


if __name__ == "__main__":
    main(sys.argv[1:])
