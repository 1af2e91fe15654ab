"""A module rewritten with wider floats computes what the same kernel computes on wider tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from tests.engine.launching import launch_of
from tilesight.checks.widen import F32, can_widen, every_float, widen
from tilesight.engine import Listener, execute
from tilesight.engine.listener import Executed
from tilesight.ir import Module, Operation, parse_module

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false
# pyright: reportOperatorIssue=false, reportAssignmentType=false


class Shown(Listener):
    """What stores are given before rounding, in the order of execution, as float64."""

    def __init__(self, stores: dict[Operation, tuple[Operation, Operation]]) -> None:
        self.stores = stores
        self.values: list[np.ndarray[Any, Any]] = []

    def watched(self, module: Module) -> list[Operation]:
        return [shown for _, shown in self.stores.values()]

    def after_step(self, executed: Executed) -> None:
        self.values.append(np.asarray(executed.operands[0], np.float64))


def run_wide(kernel: Any, grid: tuple[int, ...] = (1,), **arguments: Any) -> list[np.ndarray[Any, Any]]:
    """The stored values of a kernel with every float in f64."""
    launch = launch_of(kernel, grid, arguments)
    module = parse_module(launch.ttir)
    assert can_widen(module)
    widened = widen(module, every_float(module))
    shown = Shown(widened.stores)
    execute(widened.module, launch, [shown])
    return shown.values


def run_twice(kernel: Any, grid: tuple[int, ...], outputs: list[torch.Tensor], **arguments: Any) -> None:
    """A module that is rewritten with nothing wider leaves the very same bits."""
    launch = launch_of(kernel, grid, arguments)
    module = parse_module(launch.ttir)
    execute(module, launch)
    first = [output.clone() for output in outputs]
    for output in outputs:
        output.zero_()
    execute(widen(module, {}).module, launch)
    for output, before in zip(outputs, first, strict=True):
        assert torch.equal(output.view(torch.int16), before.view(torch.int16))


@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    values = tl.load(x + lanes, mask=lanes < n, other=-float("inf"))
    shifted = tl.exp((values - tl.max(values, 0)).to(tl.float32)).to(tl.float16)
    tl.store(out + lanes, shifted / tl.sum(shifted, 0), mask=lanes < n)


@triton.jit
def matmul(a, b, out, K, scale, BLOCK: tl.constexpr):
    m = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float16)
    for start in range(0, K, BLOCK):
        k = start + m
        left, right = tl.load(a + m[:, None] * K + k[None, :]), tl.load(b + k[:, None] * BLOCK + m[None, :])
        total = tl.dot(left, right, total, out_dtype=tl.float16)
    tl.store(out + m[:, None] * BLOCK + m[None, :], total * scale)


@triton.jit
def while_and_if(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    total = tl.load(x + lanes)
    round_ = 0
    while round_ < n:
        if round_ % 2 == 0:  # noqa: SIM108
            total = total * 1.1
        else:
            total = total + 0.3
        round_ += 1
    tl.store(out + lanes, tl.where(total > 1.0, total, -total))


@triton.jit(noinline=True)
def squared(x):
    return x * x


@triton.jit
def calls(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(out + lanes, tl.cumsum(tl.load(x + lanes) * squared(tl.load(x)), 0))


@triton.jit
def returns_early(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    value = tl.load(x + lanes) / 3.0
    if n < 0:
        return
    tl.store(out + lanes, value)


@triton.jit
def adds_atomically(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.atomic_add(out + lanes, tl.load(x + lanes) / 7.0, mask=lanes < n)


@triton.jit
def takes_bits(x, out, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    bits = tl.load(x + lanes).to(tl.int16, bitcast=True)
    tl.store(out + lanes, (bits & 0x7FFF).to(tl.float16, bitcast=True))


def halves(n: int = 32) -> torch.Tensor:
    torch.manual_seed(5)
    return torch.randn(n).half()


def test_softmax_in_float64() -> None:
    x = halves()
    (got,) = run_wide(softmax, x=x, out=torch.zeros(32).half(), n=32, BLOCK=32)
    np.testing.assert_allclose(got[0], torch.softmax(x.double(), 0).numpy(), rtol=1e-14)


def test_product_in_float64() -> None:
    torch.manual_seed(6)
    a, b = torch.randn(32, 128).half(), torch.randn(128, 32).half()
    (got,) = run_wide(matmul, a=a, b=b, out=torch.zeros(32, 32).half(), K=128, scale=0.5, BLOCK=32)
    np.testing.assert_allclose(got[0], (a.double() @ b.double()).numpy() * 0.5, rtol=1e-12, atol=1e-12)


def test_loops_and_branches_in_float64() -> None:
    x = halves()
    (got,) = run_wide(while_and_if, x=x, out=torch.zeros(32).half(), n=5, BLOCK=32)
    factor, addend = (float(np.float16(number)) for number in (1.1, 0.3))
    wide = x.double().numpy()
    for index in range(5):
        wide = wide + addend if index % 2 else wide * factor
    np.testing.assert_allclose(got[0], np.where(wide > 1, wide, -wide), rtol=1e-14)


def test_functions_and_scans_in_float64() -> None:
    x = halves()
    (got,) = run_wide(calls, x=x, out=torch.zeros(32).half(), n=32, BLOCK=32)
    np.testing.assert_allclose(got[0], np.cumsum(x.double().numpy() * x[0].double().numpy() ** 2), rtol=1e-14)


def test_branches_between_blocks_in_float64() -> None:
    x = halves()
    (got,) = run_wide(returns_early, x=x, out=torch.zeros(32).half(), n=1, BLOCK=32)
    np.testing.assert_allclose(got[0], x.double().numpy() / 3.0, rtol=1e-14)


def test_atomics_in_float64() -> None:
    x = halves()
    (got,) = run_wide(adds_atomically, x=x, out=torch.zeros(32).half(), n=20, BLOCK=32)
    np.testing.assert_allclose(got[0], x.double().numpy() / 7.0, rtol=1e-14)


def test_a_sum_in_float32_alone() -> None:
    """The sum of f16 products is made in f32, and the products themselves stay in f16."""
    x = torch.full((32,), 0.1).half()
    launch = launch_of(calls, (1,), {"x": x, "out": torch.zeros(32).half(), "n": 32, "BLOCK": 32})
    module = parse_module(launch.ttir)
    (scan,) = (inner for inner in module.kernel.walk() if inner.name == "tt.scan")
    combined = [*scan.results, *scan.regions[0].entry.arguments]
    combined += [result for inner in scan.regions[0].entry.operations for result in inner.results]
    widened = widen(module, dict.fromkeys(combined, F32))
    shown = Shown(widened.stores)
    execute(widened.module, launch, [shown])
    product = x.numpy() * (x[:1].numpy() * x[:1].numpy())
    assert product.dtype == np.float16
    np.testing.assert_array_equal(shown.values[0][0], np.cumsum(product, dtype=np.float32).astype(np.float64))


@pytest.mark.parametrize("kernel", [softmax, while_and_if, calls, returns_early, adds_atomically, takes_bits])
def test_nothing_wider_changes_nothing(kernel: Any) -> None:
    out = torch.zeros(32).half()
    run_twice(kernel, (1,), [out], x=halves(), out=out, n=20, BLOCK=32)


def test_floats_taken_for_bits_cannot_be_widened() -> None:
    launch = launch_of(takes_bits, (1,), {"x": halves(), "out": halves(), "n": 32, "BLOCK": 32})
    assert not can_widen(parse_module(launch.ttir))
