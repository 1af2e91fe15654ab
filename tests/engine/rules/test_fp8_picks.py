"""Operations that give one of their operands back: every fp8 value with every other, against torch in f32."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
import torch

from .elementwise import Array, apply, pairs

DTYPES = {"float8_e5m2": ml_dtypes.float8_e5m2, "float8_e4m3fn": ml_dtypes.float8_e4m3fn}
BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "maxnumf": torch.fmax,
    "minnumf": torch.fmin,
    "maximumf": torch.maximum,
    "minimumf": torch.minimum,
}
UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {"math.absf": torch.abs, "arith.negf": torch.neg}


def all_values(name: str) -> Array:
    return np.arange(256, dtype=np.uint8).view(DTYPES[name])


def to_torch(array: Array) -> torch.Tensor:
    """The values in f32, decoded by torch."""
    return torch.from_numpy(array.view(np.uint8)).view(getattr(torch, array.dtype.name)).float()


def assert_same(got: torch.Tensor, expected: torch.Tensor) -> None:
    assert torch.equal(got.isnan(), expected.isnan())
    assert torch.equal(got.nan_to_num(0, 1e9, -1e9), expected.nan_to_num(0, 1e9, -1e9))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
def test_sign_operations(name: str, dtype: str) -> None:
    x = all_values(dtype)
    assert_same(to_torch(apply(f"{name} %0 : T0", x)), UNARY[name](to_torch(x)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
def test_largest_and_smallest(name: str, dtype: str) -> None:
    a, b = pairs(all_values(dtype))
    assert_same(to_torch(apply(f"arith.{name} %0, %1 : T0", a, b)), BINARY[name](to_torch(a), to_torch(b)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("nan", ["all", "none"])
def test_clamp(nan: str, dtype: str) -> None:
    """Limits that are infinite where the type has infinities: nothing is cut off."""
    x = all_values(dtype)
    low, high = (np.full(256, limit, np.float32).astype(DTYPES[dtype]) for limit in (-np.inf, np.inf))
    if dtype == "float8_e4m3fn":
        low, high = (np.full(256, limit, np.float32).astype(DTYPES[dtype]) for limit in (-3, 300))
    got = to_torch(apply(f"tt.clampf %0, %1, %2, propagateNan = {nan} : T0", x, low, high))
    given = to_torch(x)
    clamped = torch.minimum(torch.maximum(given, to_torch(low)), to_torch(high))
    assert_same(got, clamped if nan == "all" else torch.where(given.isnan(), to_torch(low), clamped))
