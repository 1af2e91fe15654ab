"""Matrix products of bytes and of scaled narrow floats; the others are in test_execute.py."""

from __future__ import annotations

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
