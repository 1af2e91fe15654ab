"""Autotune takes its first config on the engine and runs nothing else, however it was told to time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.autotuner import Autotuner

import tilesight
from tilesight.capture.launches import EngineSession

CONFIGS = [triton.Config({"STEP": 1}), triton.Config({"STEP": 10})]


@triton.jit
def counting_kernel(x_ptr, n, STEP: tl.constexpr):
    """Adds to what is there: a second run would show."""
    offsets = tl.arange(0, 16)
    mask = offsets < n
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + STEP, mask=mask)


def refuse_to_time(kernel_call: Callable[[], None], quantiles: Any = None) -> list[float]:
    raise AssertionError("the engine is timed")


def tuned(**options: Any) -> Any:
    decorate = triton.autotune(configs=CONFIGS, key=["n"], **options)
    return decorate(counting_kernel)


def test_no_benchmark_of_the_decorator_runs(engine: EngineSession) -> None:
    x = torch.zeros(16)
    tuned(do_bench=refuse_to_time)[(1,)](x, 10)
    assert x.tolist() == [1.0] * 10 + [0.0] * 6


@pytest.mark.parametrize("options", [{"warmup": 5, "rep": 10}, {"use_cuda_graph": True}])
def test_the_older_ways_to_time_run_nothing_either(engine: EngineSession, options: dict[str, Any]) -> None:
    with pytest.warns(DeprecationWarning, match="deprecated"):
        kernel = tuned(**options)
    x = torch.zeros(16)
    kernel[(1,)](x, 16)
    assert x.tolist() == [1.0] * 16


def test_the_decorator_s_benchmark_is_there_again_without_the_engine() -> None:
    before = vars(Autotuner)["do_bench"]
    tilesight.enable()
    kernel = tuned(do_bench=refuse_to_time)
    assert kernel.do_bench is not refuse_to_time
    tilesight.disable()
    assert vars(Autotuner)["do_bench"] is before
    assert kernel.do_bench is refuse_to_time
