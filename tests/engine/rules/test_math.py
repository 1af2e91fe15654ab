"""Elementwise functions within a few units in the last place of torch's float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from .elementwise import BFLOAT16, Array, apply, float_edges
from .test_arith import assert_same, to_torch

ULPS = {"exp": 2, "exp2": 2, "sinh": 3, "cosh": 3, "tan": 4, "tanh": 2, "asinh": 3, "acosh": 3, "atanh": 3, "erf": 1}
UNARY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "acos": torch.acos,
    "acosh": torch.acosh,
    "asin": torch.asin,
    "asinh": torch.asinh,
    "atan": torch.atan,
    "atanh": torch.atanh,
    "ceil": torch.ceil,
    "cos": torch.cos,
    "cosh": torch.cosh,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "floor": torch.floor,
    "log": torch.log,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "log2": torch.log2,
    "roundeven": torch.round,
    "rsqrt": torch.rsqrt,
    "sin": torch.sin,
    "sinh": torch.sinh,
    "sqrt": torch.sqrt,
    "tan": torch.tan,
    "tanh": torch.tanh,
    "trunc": torch.trunc,
}


def arguments(dtype: Any) -> Array:
    """Edges and a few thousand values of every magnitude that matters."""
    generator = np.random.default_rng(3)
    values = np.concatenate(
        [generator.normal(size=2000) * 3, generator.uniform(-1, 1, 1000), generator.normal(size=500) * 80]
    )
    return np.concatenate([float_edges(dtype), values.astype(np.float32).astype(dtype)])


def ulps_apart(got: Array, expected: Array) -> Array:
    """How many units in the last place lie between two f32 results; 0 for equal infinities and NaNs."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = expected.astype(got.dtype)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        gap = np.spacing(np.abs(rounded))
        return np.where(same, 0, np.abs(got.astype(np.float64) - expected) / gap)


def test_the_exponential_is_a_power_of_two() -> None:
    """x·log₂e is rounded to f32 first, half a unit of up to 128: as much of the result as GPUs lose."""
    x = arguments(np.dtype("float32"))
    x = x[(np.abs(x) < 87) | ~np.isfinite(x)]
    got = apply("math.exp %0 : T0", x)
    exact = np.exp(x.astype(np.float64))
    apart = ulps_apart(got, exact)
    assert (apart <= np.abs(x) + 1)[np.isfinite(x)].all()
    assert apart[~np.isfinite(x)].max() == 0
    with np.errstate(over="ignore"):
        product = (x * np.float32(np.log2(np.e))).astype(np.float64)
    assert ulps_apart(got, np.exp2(product)).max() <= 1


@pytest.mark.parametrize("name", [name for name in UNARY if name != "exp"])
def test_single_precision(name: str) -> None:
    x = arguments(np.dtype("float32"))
    got = apply(f"math.{name} %0 : T0", x)
    expected = UNARY[name](torch.from_numpy(x).double()).numpy()
    assert ulps_apart(got, expected).max() <= ULPS.get(name, 2)


@pytest.mark.parametrize("name", UNARY)
def test_bfloat16_is_computed_in_single_precision(name: str) -> None:
    x = arguments(BFLOAT16)
    got = to_torch(apply(f"math.{name} %0 : T0", x)).double()
    expected = UNARY[name](to_torch(x).double())
    torch.testing.assert_close(got, expected.bfloat16().double(), rtol=2**-7, atol=0, equal_nan=True)


@pytest.mark.parametrize("name", ["erf", "exp", "log", "sin", "tanh", "sqrt", "rsqrt"])
def test_double_precision(name: str) -> None:
    x = arguments(np.dtype("float64"))
    got = apply(f"math.{name} %0 : T0", x)
    np.testing.assert_allclose(got, UNARY[name](torch.from_numpy(x)).numpy(), rtol=4e-15, atol=0)


@pytest.mark.parametrize("dtype", [np.dtype("float32"), np.dtype("float16"), BFLOAT16], ids=str)
def test_absolute(dtype: Any) -> None:
    x = float_edges(dtype)
    assert_same(apply("math.absf %0 : T0", x), to_torch(x).abs())


def test_round_half_away() -> None:
    x = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, 8388609.0, np.inf, np.nan], "float32")
    expected = np.array([1, 2, 3, -1, -3, 0, 8388609.0, np.inf, np.nan], "float32")
    np.testing.assert_array_equal(apply("math.round %0 : T0", x), expected)


def test_fused_multiply_add_rounds_once() -> None:
    """(1 + 2⁻¹²)² − (1 + 2⁻¹¹) is 2⁻²⁴, which a rounded product loses; the others would round twice."""
    a = np.array([1 + 2.0**-12, 1.0, 2.0**-30], "float32")
    b = np.array([1 + 2.0**-12, 1 + 2.0**-23, 2.0**-30], "float32")
    c = np.array([-(1 + 2.0**-11), 2.0**-24, 1.0], "float32")
    got = apply("math.fma %0, %1, %2 : T0", a, b, c, result="float32")
    exact = [2.0**-24, 1 + 2.0**-22, 1.0]
    assert got.tolist() == exact


@pytest.mark.parametrize(
    ("name", "function"), [("powf", torch.pow), ("atan2", torch.atan2), ("copysign", torch.copysign)]
)
def test_binary(name: str, function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
    generator = np.random.default_rng(4)
    a, b = (generator.normal(size=2000).astype(np.float32) for _ in range(2))
    a = np.abs(a) if name == "powf" else a
    got = apply(f"math.{name} %0, %1 : T0", a, b)
    expected = function(torch.from_numpy(a).double(), torch.from_numpy(b).double()).numpy()
    assert ulps_apart(got, expected).max() <= 2
