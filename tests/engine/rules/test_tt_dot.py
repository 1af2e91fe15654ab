"""Matrix products of bytes and of scaled narrow floats; the others are in test_execute.py."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from .. import kernels
from ..launching import run

FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
FLOAT8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def test_bytes_accumulate_in_int32() -> None:
    a, b = torch.randint(-128, 128, (2, 32, 32), dtype=torch.int8)
    c = torch.zeros(32, 32, dtype=torch.int32)
    run(kernels.dot_of_bytes, (1,), a=a, b=b, c=c, BLOCK=32)
    assert torch.equal(c.long(), a.long() @ b.long())


def narrow(kind: str, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random bytes of a type with K along the columns, and the numbers they stand for."""
    if kind == "e2m1":
        codes = torch.randint(0, 16, (rows, columns), dtype=torch.uint8)
        packed = codes[:, 0::2] | codes[:, 1::2] << 4
        return packed, FP4[codes.long()].double()
    values = torch.randn(rows, columns).to(FLOAT8[kind])
    return values.view(torch.uint8), values.double()


@pytest.mark.parametrize(("a_kind", "b_kind"), [("e4m3", "e5m2"), ("e2m1", "e4m3"), ("e2m1", "e2m1")])
def test_scaled(a_kind: str, b_kind: str) -> None:
    a, left = narrow(a_kind, 128, 64)
    b, right = narrow(b_kind, 32, 64)
    a_scale = torch.randint(120, 134, (128, 2), dtype=torch.uint8)
    b_scale = torch.randint(120, 134, (32, 2), dtype=torch.uint8)
    c = torch.zeros(128, 32)
    tensors = {"a": a, "a_scale": a_scale, "b": b.T.contiguous(), "b_scale": b_scale, "c": c}
    run(kernels.scaled_dot, (1,), **tensors, A=a_kind, B=b_kind, M=128, N=32)  # pyright: ignore[reportArgumentType]
    left = left * (2.0 ** (a_scale.double() - 127)).repeat_interleave(32, 1)
    right = right * (2.0 ** (b_scale.double() - 127)).repeat_interleave(32, 1)
    rounding = 64 * 2.0**-24 * (left.abs() @ right.abs().T)
    assert ((c.double() - left @ right.T).abs() <= rounding).all()


def precise_product(a: torch.Tensor, b: torch.Tensor, precision: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The engine's product of two f32 matrices and the same in float64."""
    c = torch.empty(a.shape[0], b.shape[1])
    sizes: dict[str, Any] = {"M": a.shape[0], "N": b.shape[1], "K": a.shape[1], "BLOCK": 16, "BLOCK_N": 16}
    run(kernels.matmul, (a.shape[0] // 16, b.shape[1] // 16), a=a, b=b, c=c, PRECISION=precision, **sizes)
    return c.double(), a.double() @ b.double()


# Relative to |a| @ |b|: the operands lose up to 2^-10 (tf32) or 2^-9 (bf16); what three and six
# products leave out is the square of one, and the square of the smallest piece; f32 sums over 64 terms.
BOUNDS = {"tf32": 2.0**-9, "bf16x3": 2.0**-15, "tf32x3": 2.0**-20, "bf16x6": 2.0**-20, "ieee": 64 * 2.0**-24}
COARSER_THAN = {"tf32": 2.0**-16, "bf16x3": 2.0**-21}


@pytest.mark.parametrize("precision", BOUNDS)
def test_precision_of_floats(precision: str) -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = torch.randn(64, 64, generator=generator), torch.randn(64, 64, generator=generator)
    found, exact = precise_product(a, b, precision)
    error = ((found - exact).abs() / (a.double().abs() @ b.double().abs())).max().item()
    assert error <= BOUNDS[precision]
    assert error > COARSER_THAN.get(precision, 0.0), "operands that are not rounded would be this near"


@pytest.mark.parametrize("precision", ["tf32x3", "bf16x3", "bf16x6"])
def test_infinity_stays_infinity(precision: str) -> None:
    found, _ = precise_product(torch.ones(16, 16), torch.full((16, 16), torch.inf), precision)
    assert torch.equal(found, torch.full((16, 16), torch.inf).double())


def test_tf32_cuts_off_what_lies_below_ten_bits() -> None:
    """As an H200 does: 1 + 2^-10 + 2^-11 + 2^-12 would round up."""
    a, b = torch.eye(16), torch.full((16, 16), 1 + 2.0**-10 + 2.0**-11 + 2.0**-12)
    found, _ = precise_product(a, b, "tf32")
    assert torch.equal(found, torch.full((16, 16), 1 + 2.0**-10).double())
