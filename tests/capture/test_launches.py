"""Triton's own launch machinery on the engine: grids, autotune, heuristics, names, on and off."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import tilesight
from tests.kernels import basic
from tilesight.capture.backend import active_driver
from tilesight.capture.enable import OutOfBoundsWarning
from tilesight.capture.launches import EngineSession
from tilesight.roads.traces import TraceObserver, trace, traced

add_kernel: Any = basic.add_kernel  # a constexpr takes a plain int


def test_a_kernel_runs_on_cpu_tensors(engine: EngineSession) -> None:
    x, y = torch.randn(1000), torch.randn(1000)
    assert torch.equal(basic.add(x, y), x + y)


def test_grid_may_be_a_function(engine: EngineSession) -> None:
    x, y = torch.randn(1000), torch.randn(1000)
    out = torch.empty_like(x)
    add_kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, out, 1000, BLOCK=128)
    assert torch.equal(out, x + y)


@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 256})], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def doubling_kernel(x_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) * 2)
    else:
        mask = offsets < n
        tl.store(x_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * 2, mask=mask)


@pytest.mark.parametrize("n", [256, 100])
def test_autotune_takes_the_first_config_and_runs_the_kernel_once(engine: EngineSession, n: int) -> None:
    x = torch.ones(n)
    observer = TraceObserver()
    engine.observers.append(observer)
    doubling_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, n)
    assert torch.equal(x, torch.full((n,), 2.0))
    assert [t.constexprs["BLOCK"] for t in observer.traces] == [64]
    assert observer.traces[0].constexprs["EVEN"] == (n % 64 == 0)


def test_tensors_are_called_what_the_caller_calls_them() -> None:
    left, right = torch.randn(100), torch.randn(100)

    def launch() -> None:
        add_kernel[(1,)](left, right, torch.empty(100), 100, BLOCK=128)

    names = [tensor.name for tensor in trace(launch)[0].tensors]
    assert names == ["left", "right", "out"]


def test_out_of_bounds_warns_where_nobody_listens(engine: EngineSession) -> None:
    x, y = torch.randn(100), torch.randn(100)
    out = torch.empty(100)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        add_kernel[(1,)](x, y, out, 128, BLOCK=128)
    assert {w.category for w in caught} == {OutOfBoundsWarning}
    line = add_kernel.fn.__code__.co_firstlineno + 4
    texts = sorted(str(w.message).split("basic.py:")[1].split(":")[0:2] for w in caught)
    assert [t[0] for t in texts] == [str(line)] * 3
    assert [t[1].split(" past")[0] for t in texts] == [" load of x reads", " load of y reads", " store of out writes"]
    assert torch.equal(out, x + y)


def test_disable_puts_back_what_was_there() -> None:
    before = active_driver()
    session = tilesight.enable()
    assert tilesight.enable() is session
    tilesight.disable()
    assert active_driver() is before
    tilesight.disable()
    assert active_driver() is before


def test_a_pinned_session_outlives_the_script_that_disables_it() -> None:
    def script() -> torch.Tensor:
        tilesight.enable()
        tilesight.disable()
        return basic.add(torch.ones(4), torch.ones(4))

    observer = TraceObserver()
    assert torch.equal(traced(script, observer), torch.full((4,), 2.0))
    assert len(observer.traces) == 1


def test_enable_alone_imports_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tilesight.enable()
        tilesight.disable()
