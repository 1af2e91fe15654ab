"""TorchInductor's own kernels on the engine, against float64."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tilesight.errors import ExecutionError

from . import inductor_kernels
from .launching import run

TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 8e-3}


def assert_close(got: torch.Tensor, expected: torch.Tensor) -> None:
    """Within the dtype's tolerance of a float64 reference."""
    torch.testing.assert_close(got.double(), expected, rtol=TOLERANCE[got.dtype], atol=TOLERANCE[got.dtype])


@pytest.mark.parametrize("size", [1, 1023, 5000])
def test_add_relu(size: int) -> None:
    a, b = torch.randn(2, size)
    out = torch.full((size,), 7.0)
    run(inductor_kernels.add_relu, (-(-size // 1024),), in_ptr0=a, in_ptr1=b, out_ptr0=out, xnumel=size, XBLOCK=1024)
    assert torch.equal(out, torch.relu(a + b))


@pytest.mark.parametrize("shape", [(16, 512), (13, 700), (3, 1)])
def test_online_softmax(shape: tuple[int, int]) -> None:
    x = torch.randn(shape).bfloat16() * 3
    out = torch.zeros_like(x)
    rows, columns = shape
    sizes: dict[str, Any] = {"xnumel": rows, "r0_numel": columns, "XBLOCK": 4, "R0_BLOCK": 256}
    run(inductor_kernels.online_softmax, (-(-rows // 4),), in_ptr0=x, out_ptr2=out, **sizes)
    assert_close(out, torch.softmax(x.double(), 1))


@pytest.mark.parametrize("shape", [(16, 512), (13, 700)])
def test_rmsnorm(shape: tuple[int, int]) -> None:
    x, weight = torch.randn(shape).bfloat16(), torch.randn(shape[1]).bfloat16()
    out = torch.zeros_like(x)
    rows, columns = shape
    sizes: dict[str, Any] = {"xnumel": rows, "r0_numel": columns, "XBLOCK": 4, "R0_BLOCK": 256}
    run(inductor_kernels.rmsnorm, (-(-rows // 4),), in_ptr0=x, in_ptr1=weight, out_ptr1=out, **sizes)
    wide = x.double()
    assert_close(out, wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + 1e-6) * weight.double())


def test_gelu() -> None:
    x = torch.randn(3000).bfloat16() * 2
    expected = torch.nn.functional.gelu(x.double())
    run(inductor_kernels.gelu, (3,), in_out_ptr0=x, xnumel=3000, XBLOCK=1024)
    assert_close(x, expected)


def test_cross_entropy() -> None:
    rows, classes = 37, 500
    logits, target = torch.randn(rows, classes).bfloat16() * 3, torch.randint(0, classes, (rows,))
    target[5] = -100
    largest, total, loss = torch.zeros(rows), torch.zeros(rows), torch.zeros(1)
    statistics: dict[str, Any] = {
        "in_ptr0": logits,
        "out_ptr0": largest,
        "out_ptr1": total,
        "xnumel": rows,
        "r0_numel": classes,
    }
    run(inductor_kernels.log_softmax_statistics, (10,), **statistics, XBLOCK=4, R0_BLOCK=128)
    inputs: dict[str, Any] = {
        "in_out_ptr0": loss,
        "in_ptr0": target,
        "in_ptr1": logits,
        "in_ptr2": largest,
        "in_ptr3": total,
    }
    run(inductor_kernels.nll_loss, (1,), **inputs, classes=classes, r0_numel=rows, XBLOCK=1, R0_BLOCK=64)
    assert_close(loss[0], torch.nn.functional.cross_entropy(logits.double(), target))


def test_device_assert_names_program_and_line() -> None:
    logits, target = torch.randn(4, 8).bfloat16(), torch.tensor([0, 1, 9, 3])
    ones = torch.ones(4)
    tensors: dict[str, Any] = {
        "in_ptr0": target,
        "in_ptr1": logits,
        "in_ptr2": ones,
        "in_ptr3": ones,
    }
    sizes: dict[str, Any] = {"classes": 8, "r0_numel": 4, "XBLOCK": 1, "R0_BLOCK": 16}
    with pytest.raises(ExecutionError, match=r"inductor_kernels.py:\d+: device assert failed in program 0, lane 2"):
        run(inductor_kernels.nll_loss, (1,), debug=True, in_out_ptr0=ones, **tensors, **sizes)
