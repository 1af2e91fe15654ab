"""One bench run: the roof of the run, then case after case, numbers first and times after."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from tilesight.bench.clocks import Clock, CudaClock, WallClock, interleave
from tilesight.bench.environment import environment_of, with_state_after
from tilesight.bench.model import NOT_INSTALLED, BenchCase, BenchRun, Measured, Timing, described
from tilesight.bench.numbers import check_as_timed, check_beside, count_kernels, first_line, peak_bytes, reference_of
from tilesight.bench.operator_model import Draw, Function, Operator, Shape
from tilesight.bench.operators import COPY
from tilesight.bench.providers import COMPILED, call_of, choose_providers, function_of
from tilesight.capture.numerics import flatten
from tilesight.capture.tensors import dtype_name
from tilesight.errors import InputError

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32, "float64": torch.float64}
MOST_INPUT_SETS = 256
L2_TIMES = 3
"""Input sets of a short call together are at least this many times L2."""


@dataclass(frozen=True)
class BenchOptions:
    """How a run measures.

    Args:
        device: `cuda` or `cpu`
        samples: of each provider in each case
        providers: names; all that there are when empty
        dtype: of the inputs, a name in `DTYPES`; empty: each operator's own on a GPU, float32 on a CPU
        seed: of the random inputs
    """

    device: str = "cuda"
    samples: int = 30
    providers: tuple[str, ...] = ()
    dtype: str = ""
    seed: int = 0

    def check(self) -> None:
        """Raises: InputError: for what can't be measured here"""
        if self.dtype and self.dtype not in DTYPES:
            raise InputError(f"dtype {self.dtype}", where="--dtype", expected=f"one of {', '.join(DTYPES)}")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise InputError(
                "no GPU is here", where="tilesight bench", expected="an NVIDIA GPU",
                next_step="pass --device cpu to try the bench without one; its times are then a CPU's",
            )  # fmt: skip
        if self.samples < 1:
            raise InputError(f"{self.samples} samples", where="--samples", expected="at least 1")

    def dtype_of(self, operator: Operator) -> str:
        """What an operator's inputs are drawn in."""
        return self.dtype or (operator.gpu_dtype if self.device == "cuda" else "float32")


Work = tuple[Operator, Shape]
Heard = Callable[[str], None]
"""Told what is measured next."""


def shapes_of(operator: Operator, options: BenchOptions, shapes: Sequence[Shape]) -> Sequence[Shape]:
    """The shapes that were asked for, or the operator's own for the device; a user's case has one.

    Raises: InputError: for a shape of as many sizes as none of the operator's own
    """
    own = operator.gpu_shapes if options.device == "cuda" else operator.cpu_shapes
    if operator.is_of_one_shape:
        return own
    ranks = {len(shape) for shape in (*operator.gpu_shapes, *operator.cpu_shapes)}
    for shape in shapes:
        if len(shape) not in ranks:
            raise InputError(
                f"{'x'.join(map(str, shape))} for {operator.name}", where="--shapes",
                expected=f"{' or '.join(map(str, sorted(ranks)))} sizes, such as {'x'.join(map(str, own[0]))}",
            )  # fmt: skip
    return shapes or own


def bench(work: Sequence[Work], options: BenchOptions, command: str = "", heard: Heard = print) -> BenchRun:
    """Measure every operator at every shape on this machine.

    Raises: InputError: as `BenchOptions.check`
    """
    options.check()
    environment = environment_of(options.device, command)
    heard("the roof: a large copy")
    environment = replace(environment, copy_gb_per_s=roof_of(options))
    cases = list(_measured_one_by_one(work, options, heard))
    notes = () if options.device == "cuda" else (CPU_NOTE,)
    return BenchRun(with_state_after(environment), cases, notes=notes)


CPU_NOTE = "Measured on a CPU: hand-written kernels ran on the engine, and no time says anything about a GPU."


def roof_of(options: BenchOptions) -> float | None:
    """GB/s of a large copy on this device, bytes read and written."""
    copy = measure_case(COPY, shapes_of(COPY, options, ())[0], replace(options, providers=("eager",)))
    timing = copy.measured[0].timing
    return None if timing is None else copy.gb_per_s(timing)


def _measured_one_by_one(work: Sequence[Work], options: BenchOptions, heard: Heard) -> Iterator[BenchCase]:
    seen: set[str] = set()
    for number, (operator, shape) in enumerate(work, 1):
        heard(f"{number} of {len(work)}: {described(operator.name, shape, options.dtype_of(operator))}")
        yield measure_case(operator, shape, options, compiled_beside=operator.name not in seen)
        seen.add(operator.name)


def measure_case(operator: Operator, shape: Shape, options: BenchOptions, *, compiled_beside: bool = True) -> BenchCase:
    """One operator at one shape: each provider's numbers against float64, then the times of those that are right.

    Args: compiled_beside: whether torch.compile's numbers are checked at odd sizes and strided rows too, which
        compiles them all
    """
    torch.compiler.reset()
    draw = Draw(DTYPES[options.dtype_of(operator)], options.device, options.seed)
    inputs = operator.inputs(shape, draw)
    names = choose_providers(operator, options.providers)
    reference = reference_of(operator, inputs)
    found = {name: _checked(operator, name, inputs, reference) for name in names}
    del reference
    right = {name: function for name, (function, measured) in found.items() if function and measured.ok}
    timings = _timed(operator, shape, right, draw, options.samples) if right else {}
    measured = [_with_timing(found[name][1], timings.get(name)) for name in names]
    for place, each in enumerate(measured):
        if each.timing is not None and (compiled_beside or each.provider not in COMPILED):
            beside = check_beside(operator, partial(function_of, operator, each.provider), shape, draw)
            measured[place] = replace(each, checks=(*each.checks, *beside))
    flops = operator.flops(shape) if operator.flops else None
    return BenchCase(
        operator.name, tuple(shape), dtype_of(inputs), operator.ideal_bytes(inputs), flops, tuple(measured)
    )


def dtype_of(inputs: Sequence[Any]) -> str:
    """The dtype of the first floating-point input, else of the first one."""
    tensors = flatten(inputs)
    return dtype_name(next((each for each in tensors if each.dtype.is_floating_point), tensors[0]).dtype)


def _checked(
    operator: Operator, name: str, inputs: Sequence[Any], reference: Sequence[torch.Tensor]
) -> tuple[Function | None, Measured]:
    try:
        function = function_of(operator, name)
    except ImportError as error:
        return None, Measured(name, reason=f"{NOT_INSTALLED}: {first_line(error)}")
    try:
        check = check_as_timed(operator, function, operator.own_inputs(name, inputs), reference)
    except torch.cuda.OutOfMemoryError:
        torch.cuda.empty_cache()
        return None, Measured(name, reason="out of memory")
    except Exception as error:
        return None, Measured(name, reason=first_line(error))
    wrong = "" if check.ok else f"wrong numbers: off by {check.max_error:.1e}, allowed {check.tolerance:.1e}"
    return function, Measured(name, (check,), reason=wrong)


def _timed(
    operator: Operator, shape: Shape, functions: dict[str, Function], draw: Draw, samples: int
) -> dict[str, Timing]:
    """Every provider on the same sets of inputs, in turn; on a GPU with the kernels that a call launches."""
    is_gpu = draw.device == "cuda"
    clock: Clock = CudaClock(_l2_bytes()) if is_gpu else WallClock()
    first = operator.inputs(shape, draw)
    count = _input_sets(operator.ideal_bytes(first)) if is_gpu else 2
    sets = [first, *(operator.inputs(shape, replace(draw, seed=draw.seed + each)) for each in range(1, count))]
    calls = {
        name: [call_of(operator, function, operator.own_inputs(name, inputs)) for inputs in sets]
        for name, function in functions.items()
    }
    timings = interleave({name: clock.prepare(mine) for name, mine in calls.items()}, samples, count)
    if not is_gpu:
        return timings
    return {
        name: replace(timing, kernels=count_kernels(calls[name][0]), peak_bytes=peak_bytes(calls[name][0]))
        for name, timing in timings.items()
    }


def _l2_bytes() -> int:
    return int(torch.cuda.get_device_properties(0).L2_cache_size)


def _input_sets(bytes_a_call: int) -> int:
    """Enough sets that L2 holds none when its turn comes again, and two at least, so that data changes."""
    return min(MOST_INPUT_SETS, max(2, math.ceil(L2_TIMES * _l2_bytes() / max(1, bytes_a_call))))


def _with_timing(measured: Measured, timing: Timing | None) -> Measured:
    """A call that launched nothing is none."""
    if timing is not None and timing.kernels == 0:
        return replace(measured, reason="a call launched no kernel")
    return replace(measured, timing=timing)
