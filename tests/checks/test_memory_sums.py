"""Sums that are rounded in memory at each addition: found with the error that NumPy finds, quiet where few or wide."""

# pyright: basic, reportArgumentType=false, reportIndexIssue=false, reportOperatorIssue=false, reportCallIssue=false

from __future__ import annotations

import inspect
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from tests.engine.launching import launch_of
from tilesight.checks.finding import Finding
from tilesight.checks.memory_sums import find_sums_in_memory
from tilesight.checks.replay import Replay
from tilesight.engine import ExecutionOptions, execute
from tilesight.ir import parse_module

NUMPY_TYPES = {torch.float16: np.float16, torch.bfloat16: ml_dtypes.bfloat16}


def check(kernel: Any, grid: tuple[int, ...], **arguments: Any) -> list[Finding]:
    """What is found in a launch, after it ran."""
    launch = launch_of(kernel, grid, arguments)
    module, options = parse_module(launch.ttir), ExecutionOptions()
    replay = Replay.of(module, launch, options)
    execute(module, launch, (), options)
    return find_sums_in_memory(replay)


def marked(kernel: Any) -> int:
    """The kernel's line that ends in `# narrow`."""
    lines, first = inspect.getsourcelines(kernel.fn)
    return next(first + index for index, line in enumerate(lines) if line.rstrip().endswith("# narrow"))


def figures(finding: Finding) -> tuple[int, float, float]:
    """Roundings of an element, the error, and the error in float32, as a message names them."""
    found = re.search(r"up to ([\d,]+) roundings an element: .* off by (\S+) of .*, by (\S+) in", finding.message)
    assert found is not None
    return int(found[1].replace(",", "")), float(found[2]), float(found[3])


def error_of_steps(parts: np.ndarray[Any, Any], dtype: Any, decay: float = 1.0) -> float:
    """The error of a running sum of [steps, columns] that is kept in `dtype`, against float64."""
    total, exact = np.zeros(parts.shape[1], dtype), np.zeros(parts.shape[1])
    for part in parts:
        total = (total.astype(np.float32) * np.float32(decay) + part.astype(np.float32)).astype(dtype)
        exact = exact * decay + part
    apart = np.abs(total.astype(np.float64) - exact)
    return float(np.max(apart / (np.abs(exact) + np.sqrt(np.mean(exact**2)))))


@triton.jit
def add_by_atomics(x, out, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    value = tl.load(x + tl.program_id(0) * BLOCK + c)
    tl.atomic_add(out + c, value.to(out.dtype.element_ty))  # narrow


@triton.jit
def add_by_descriptor(x, out, BLOCK: tl.constexpr):
    target = tl.make_tensor_descriptor(out, [8, BLOCK], [BLOCK, 1], [8, BLOCK])
    value = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tile = tl.broadcast_to(value[None, :], (8, BLOCK))
    target.atomic_add([0, 0], tile.to(out.dtype.element_ty))  # narrow


@triton.jit
def add_into(place, value):
    tl.store(place, (tl.load(place) + value).to(place.dtype.element_ty))  # narrow


@triton.jit
def add_in_a_loop(x, out, rows, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    tl.store(out + c, tl.zeros((BLOCK,), out.dtype.element_ty))
    for row in range(rows):
        add_into(out + c, tl.load(x + row * BLOCK + c))


@triton.jit
def add_narrow_in_a_loop(x, out, rows, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    for row in range(rows):
        value = tl.load(x + row * BLOCK + c)
        tl.store(out + c, tl.load(out + c) + value.to(out.dtype.element_ty))  # narrow


@triton.jit
def decaying_state(x, out, rows, DECAY: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    for row in range(rows):
        state = tl.load(out + c).to(tl.float32) * DECAY + tl.load(x + row * BLOCK + c)
        tl.store(out + c, state.to(out.dtype.element_ty))  # narrow


@triton.jit
def add_through_two_names(x, before, after, rows, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    for row in range(rows):
        state = tl.load(before + c).to(tl.float32) + tl.load(x + row * BLOCK + c)
        tl.store(after + c, state.to(after.dtype.element_ty))  # narrow


@triton.jit
def add_under_a_lock(x, out, lock, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    value = tl.load(x + tl.program_id(0) * BLOCK + c)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out + c, (tl.load(out + c) + value).to(out.dtype.element_ty))  # narrow
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def residual(x, out, BLOCK: tl.constexpr):
    """In place, each element once: an output that is read before."""
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + c, (tl.load(out + c) + tl.load(x + c)).to(out.dtype.element_ty))


@triton.jit
def largest_so_far(x, out, rows, BLOCK: tl.constexpr):
    """A maximum loses nothing to rounding."""
    c = tl.arange(0, BLOCK)
    for row in range(rows):
        value = tl.load(x + row * BLOCK + c)
        tl.store(out + c, tl.maximum(tl.load(out + c).to(tl.float32), value).to(out.dtype.element_ty))


def parts(steps: int, seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed)
    return torch.rand(steps, 64)


@pytest.mark.parametrize("dtype", NUMPY_TYPES)
@pytest.mark.parametrize("kernel", [add_in_a_loop, add_through_two_names], ids=lambda kernel: kernel.__name__)
def test_a_sum_that_a_loop_keeps_in_memory(kernel: Any, dtype: torch.dtype) -> None:
    x, out = parts(200), torch.zeros(64, dtype=dtype)
    tensors = {"out": out} if kernel is add_in_a_loop else {"before": out, "after": out}
    (found,) = check(kernel, (1,), x=x, **tensors, rows=200, BLOCK=64)
    assert (found.kind, found.level) == ("precision", "warning")
    assert found.line == marked(add_into if kernel is add_in_a_loop else kernel)
    times, error, better = figures(found)
    assert times == 200
    assert error == pytest.approx(error_of_steps(x.double().numpy(), NUMPY_TYPES[dtype]), rel=0.05)
    assert better < 2e-6
    assert "store it once" in found.hint


@pytest.mark.parametrize("dtype", NUMPY_TYPES)
@pytest.mark.parametrize("kernel", [add_by_atomics, add_by_descriptor], ids=lambda kernel: kernel.__name__)
def test_atomics_into_a_narrow_tensor(kernel: Any, dtype: torch.dtype) -> None:
    x, rows = parts(200).to(dtype).float(), 1 if kernel is add_by_atomics else 8
    (found,) = check(kernel, (200,), x=x, out=torch.zeros(rows, 64, dtype=dtype), BLOCK=64)
    assert (found.kind, found.level, found.line) == ("precision", "warning", marked(kernel))
    times, error, better = figures(found)
    assert times == 200
    assert error == pytest.approx(error_of_steps(x.double().numpy(), NUMPY_TYPES[dtype]), rel=0.05)
    assert better < 2e-6
    assert "by atomics" in found.message


def test_an_addition_that_is_narrow_itself() -> None:
    x = parts(100).half().float()
    (found,) = check(add_narrow_in_a_loop, (1,), x=x, out=torch.zeros(64).half(), rows=100, BLOCK=64)
    assert found.line == marked(add_narrow_in_a_loop)
    _, error, better = figures(found)
    assert error == pytest.approx(error_of_steps(x.double().numpy(), np.float16), rel=0.05)
    assert better < 2e-6


def test_a_state_that_decays_is_held_against_one_that_decays_as_much() -> None:
    x = parts(300)
    (found,) = check(decaying_state, (1,), x=x, out=torch.zeros(64).bfloat16(), rows=300, DECAY=0.9, BLOCK=64)
    expected = error_of_steps(x.double().numpy(), ml_dtypes.bfloat16, 0.9)
    assert figures(found)[1] == pytest.approx(expected, rel=0.05)
    assert expected < error_of_steps(x.double().numpy(), ml_dtypes.bfloat16) / 2


def test_a_strided_view_counts_its_own_elements() -> None:
    x, whole = parts(100), torch.zeros(64, 3).half()
    (found,) = check(add_in_a_view, (1,), x=x, out=whole[:, 1], rows=100, STRIDE=3, BLOCK=64)
    assert found.line == marked(add_in_a_view)
    assert figures(found)[0] == 100


@triton.jit
def add_in_a_view(x, out, rows, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    for row in range(rows):
        value = tl.load(x + row * BLOCK + c) + tl.load(out + c * STRIDE).to(tl.float32)
        tl.store(out + c * STRIDE, value.to(out.dtype.element_ty))  # narrow


def test_under_a_lock_it_is_a_note() -> None:
    tensors = {"x": parts(60), "out": torch.zeros(64).half(), "lock": torch.zeros(1, dtype=torch.int32)}
    (found,) = check(add_under_a_lock, (60,), **tensors, BLOCK=64)
    assert (found.level, found.line) == ("note", marked(add_under_a_lock))


def test_float32_in_memory_is_quiet() -> None:
    assert check(add_in_a_loop, (1,), x=parts(200), out=torch.zeros(64), rows=200, BLOCK=64) == []
    assert check(add_by_atomics, (200,), x=parts(200), out=torch.zeros(64), BLOCK=64) == []


def test_one_addition_an_element_is_quiet() -> None:
    assert check(residual, (4,), x=parts(4), out=torch.ones(256).bfloat16(), BLOCK=64) == []
    assert check(add_by_atomics, (2,), x=parts(2), out=torch.zeros(64).bfloat16(), BLOCK=64) == []


def test_sums_that_are_exact_are_quiet() -> None:
    ones = torch.ones(200, 64)
    assert check(add_by_atomics, (200,), x=ones, out=torch.zeros(64).half(), BLOCK=64) == []


def test_a_maximum_is_quiet() -> None:
    assert check(largest_so_far, (1,), x=parts(50), out=torch.zeros(64).half(), rows=50, BLOCK=64) == []


def test_the_callers_tensor_is_left_as_the_launch_left_it() -> None:
    x, out = parts(50), torch.zeros(64).half()
    check(add_in_a_loop, (1,), x=x, out=out, rows=50, BLOCK=64)
    total = np.zeros(64, np.float16)
    for part in x.numpy():
        total = (total.astype(np.float32) + part).astype(np.float16)
    assert out.numpy().tolist() == total.tolist()
