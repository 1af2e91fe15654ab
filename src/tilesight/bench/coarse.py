"""A coarse time of one call, good for a trend: on the GPU with its own clock, else wall time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any


def seconds_per_call(function: Callable[..., Any], inputs: Sequence[Any], *, on_gpu: bool, repeats: int = 3) -> float:
    """Median seconds of `function(*inputs)`, after one call that is not counted (it compiles).

    Args:
        function: what is timed
        inputs: its arguments
        on_gpu: time with Triton's `do_bench` (L2 cleared between calls), else with the wall clock
        repeats: calls counted without a GPU
    """
    function(*inputs)
    if on_gpu:
        testing: Any = import_module("triton.testing")
        return float(testing.do_bench(lambda: function(*inputs), return_mode="median")) / 1e3
    return sorted(_wall_seconds(function, inputs) for _ in range(repeats))[repeats // 2]


def _wall_seconds(function: Callable[..., Any], inputs: Sequence[Any]) -> float:
    started = time.perf_counter()
    function(*inputs)
    return time.perf_counter() - started
