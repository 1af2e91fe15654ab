"""Numbers before times: a provider's outputs or gradients against float64, at what is timed and beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from tilesight.bench.model import NumberCheck
from tilesight.bench.operator_model import Draw, Function, Operator, Shape, outputs_of
from tilesight.bench.providers import call_of
from tilesight.capture.numerics import Verdict, flatten, judge, reference_outputs, widened
from tilesight.errors import InputError

Reference = Sequence[torch.Tensor]


def reference_of(operator: Operator, inputs: Sequence[Any]) -> Reference:
    """Outputs, or gradients, computed in float64; nothing for an operator that judges its outputs by itself."""
    function = operator.reference or operator.eager
    if operator.judge is not None:
        return ()
    if operator.mode == "forward":
        return reference_outputs(function, inputs)
    wide = [widened(value) for value in inputs]
    dtypes = [each.dtype for each in outputs_of(operator.eager, inputs)]
    return flatten(call_of(operator, function, wide, dtypes)())


def check_as_timed(operator: Operator, function: Function, inputs: Sequence[Any], reference: Reference) -> NumberCheck:
    """At the shape that is timed; exceptions of the provider pass."""
    verdict = _judged(operator, call_of(operator, function, inputs)(), inputs, reference)
    return NumberCheck("as timed", verdict.ok, verdict.max_error, verdict.tolerance)


def _judged(operator: Operator, outputs: Any, inputs: Sequence[Any], reference: Reference) -> Verdict:
    return judge(outputs, reference) if operator.judge is None else operator.judge(flatten(outputs), inputs)


def check_beside(operator: Operator, make: Callable[[], Function], shape: Shape, draw: Draw) -> list[NumberCheck]:
    """At odd sizes, and where rows are followed by gaps; a provider that refuses them is no wrong one.

    Args:
        make: the provider's function; it may compile
        shape: its first rows are taken, for the path that the timed shape takes
    """
    if not operator.odd_shapes:
        return []
    strided = replace(draw, is_strided=True)
    few = (min(shape[0], 7), *shape[1:]) if len(shape) > 1 else operator.odd_shapes[-1]
    return [
        _checked("odd sizes", operator, make, [operator.inputs(odd, draw) for odd in operator.odd_shapes]),
        _checked("strided rows", operator, make, [operator.inputs(few, strided)]),
    ]


def _checked(
    what: str, operator: Operator, make: Callable[[], Function], all_inputs: Sequence[Sequence[Any]]
) -> NumberCheck:
    worst = NumberCheck(what, True, 0.0)
    for inputs in all_inputs:
        torch.compiler.reset()
        try:
            reference = reference_of(operator, inputs)
            verdict = _judged(operator, call_of(operator, make(), inputs)(), inputs, reference)
        except InputError as error:
            return NumberCheck(what, False, reason=str(error))
        except Exception as error:
            return NumberCheck(what, None, reason=first_line(error))
        if verdict.max_error >= (worst.max_error or 0.0):
            worst = NumberCheck(what, verdict.ok and worst.ok, verdict.max_error, verdict.tolerance)
    return worst


def first_line(error: BaseException) -> str:
    """An exception as one short line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:160]}" if lines else type(error).__name__


def count_kernels(call: Callable[[], Any]) -> int:
    """Kernels that one call launches on the GPU, counted by CUPTI through torch's profiler; copies and fills count."""
    profiler: Any = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA], acc_events=True)
    with profiler:
        call()
        torch.cuda.synchronize()
    return sum(event.device_type.name == "CUDA" for event in profiler.events())


def peak_bytes(call: Callable[[], Any]) -> int:
    """The most memory that one call takes on the GPU at a time, on top of what was there before it."""
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before
