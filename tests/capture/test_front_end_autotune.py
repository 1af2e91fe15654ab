"""What @triton.autotune is told beside its configs: pruning, hooks, and tensors to reset or restore."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import triton

import tilesight
from tests.kernels import front_end
from tilesight.capture.launches import EngineSession
from tilesight.roads.traces import TraceObserver

CONFIGS = [triton.Config({"STEP": step}, num_warps=warps) for step, warps in ((1, 2), (10, 4), (100, 8))]


@pytest.fixture
def observer() -> Iterator[TraceObserver]:
    session: EngineSession = tilesight.enable()
    observer = TraceObserver()
    session.observers.append(observer)
    yield observer
    tilesight.disable()


def tuned(configs: list[Any] = CONFIGS, **options: Any) -> Any:
    return triton.autotune(configs=configs, key=["n"], **options)(front_end.step_kernel)


def prune_early(configs: list[Any], named_args: dict[str, Any], **kwargs: Any) -> list[Any]:
    assert named_args["n"] == 16
    return configs[1:]


def slowest_first(STEP: int, **_: Any) -> float:
    return -STEP


@pytest.mark.parametrize(
    ("prune", "step", "warps"),
    [
        ({}, 1, 2),
        ({"early_config_prune": prune_early}, 10, 4),
        ({"perf_model": slowest_first, "top_k": 1}, 100, 8),
        ({"perf_model": slowest_first, "top_k": 1, "early_config_prune": lambda configs, *_, **__: configs[:2]}, 10, 4),
    ],
)
def test_the_first_config_that_pruning_leaves_is_taken(
    observer: TraceObserver, prune: dict[str, Any], step: int, warps: int
) -> None:
    x = torch.zeros(16)
    tuned(prune_configs_by=prune or None)[(1,)](x, 16)
    assert x.tolist() == [float(step)] * 16
    assert [(t.constexprs["STEP"], t.options["num_warps"]) for t in observer.traces] == [(step, warps)]


def test_a_tensor_is_reset_before_the_run_that_was_tuned_alone(observer: TraceObserver) -> None:
    x = torch.full((16,), 7.0)
    kernel = tuned(reset_to_zero=["x_ptr"])
    kernel[(1,)](x, 16)
    assert x.tolist() == [1.0] * 16
    kernel[(1,)](x, 16)
    assert x.tolist() == [2.0] * 16


def test_a_tensor_to_restore_is_written_once(observer: TraceObserver) -> None:
    x = torch.full((16,), 7.0)
    tuned(restore_value=["x_ptr"])[(1,)](x, 16)
    assert x.tolist() == [8.0] * 16
    assert len(observer.traces) == 1


def test_each_key_is_tuned_apart(observer: TraceObserver) -> None:
    kernel = tuned()
    x = torch.zeros(16)
    for n in (16, 8, 16):
        kernel[(1,)](x, n)
    assert x.tolist() == [3.0] * 8 + [2.0] * 8
    assert len(kernel.cache) == 2


def test_a_config_s_hook_runs_before_its_launch(observer: TraceObserver) -> None:
    heard: list[int] = []
    config = triton.Config({"STEP": 1}, pre_hook=lambda arguments: heard.append(arguments["n"]))
    x = torch.zeros(16)
    tuned([config, CONFIGS[1]])[(1,)](x, 16)
    assert heard == [16]
    assert x.tolist() == [1.0] * 16


def test_a_hook_of_the_decorator_sees_the_tensors(observer: TraceObserver) -> None:
    x = torch.full((16,), 7.0)
    tuned(pre_hook=lambda arguments, reset_only=False: arguments["x_ptr"].zero_())[(1,)](x, 16)
    assert x.tolist() == [1.0] * 16
