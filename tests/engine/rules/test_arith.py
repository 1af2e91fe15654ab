"""Float operations against torch on the CPU, every edge with every edge."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from .. import kernels
from ..launching import run
from .elementwise import BFLOAT16, Array, apply, float_edges, pairs

DTYPES: list[Any] = [np.dtype("float32"), np.dtype("float64"), np.dtype("float16"), BFLOAT16]
BINARY: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "addf": torch.add,
    "subf": torch.sub,
    "mulf": torch.mul,
    "divf": torch.div,
    "maxnumf": torch.fmax,
    "minnumf": torch.fmin,
    "maximumf": torch.maximum,
    "minimumf": torch.minimum,
}


def to_torch(array: Array) -> torch.Tensor:
    """The same bits as a torch tensor."""
    if array.dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def assert_same(got: Array, expected: torch.Tensor) -> None:
    """Bit for bit, except for NaNs and the sign of zero."""
    found = to_torch(got)
    assert found.dtype == expected.dtype
    same = (found == expected) | (found.isnan() & expected.isnan())
    assert same.all(), (found[~same], expected[~same])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, dtype: Any) -> None:
    a, b = pairs(float_edges(dtype))
    assert_same(apply(f"arith.{name} %0, %1 : T0", a, b), BINARY[name](to_torch(a), to_torch(b)))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["addf", "mulf", "divf"])
def test_rounding_of_random_values(name: str, dtype: Any) -> None:
    """One rounding to nearest even: the case that Triton's interpreter gets wrong for bf16."""
    generator = np.random.default_rng(0)
    a, b = (generator.normal(size=4096).astype(np.float32).astype(dtype) for _ in range(2))
    assert_same(apply(f"arith.{name} %0, %1 : T0", a, b), BINARY[name](to_torch(a), to_torch(b)))


def test_signed_zeros_of_maximum_and_minimum() -> None:
    a, b = np.array([0.0, -0.0], "float32"), np.array([-0.0, 0.0], "float32")
    assert np.signbit(apply("arith.maximumf %0, %1 : T0", a, b)).tolist() == [False, False]
    assert np.signbit(apply("arith.minimumf %0, %1 : T0", a, b)).tolist() == [True, True]


def test_bfloat16_is_not_computed_on_raw_bits() -> None:
    a, b = np.array([2.5], BFLOAT16), np.array([2.0], BFLOAT16)
    assert apply("arith.addf %0, %1 : T0", a, b).astype(np.float32).tolist() == [4.5]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_negate(dtype: Any) -> None:
    a = float_edges(dtype)
    got = apply("arith.negf %0 : T0", a)
    assert_same(got, -to_torch(a))
    ordered = ~np.isnan(a.astype(np.float64))
    assert (np.signbit(got.astype(np.float64)) == ~np.signbit(a.astype(np.float64)))[ordered].all()


def test_remainder_has_the_sign_of_the_dividend() -> None:
    a, b = pairs(float_edges(np.dtype("float32")))
    invalid = np.isinf(a) | (b == 0)
    expected = [math.nan if bad else math.fmod(x, y) for x, y, bad in zip(a.tolist(), b.tolist(), invalid, strict=True)]
    np.testing.assert_array_equal(apply("arith.remf %0, %1 : T0", a, b), np.array(expected, np.float32))


ORDERED: dict[str, Callable[[float, float], bool]] = {
    "eq": lambda a, b: a == b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "ne": lambda a, b: a != b,
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("predicate", [u + p for u in "ou" for p in ORDERED] + ["ord", "uno"])
def test_compare(predicate: str, dtype: Any) -> None:
    a, b = pairs(float_edges(dtype))
    got = apply(f"arith.cmpf {predicate}, %0, %1 : T0", a, b, result="bool").tolist()
    for x, y, answer in zip(a.astype(np.float64).tolist(), b.astype(np.float64).tolist(), got, strict=True):
        has_nan = x != x or y != y
        if predicate in ("ord", "uno"):
            assert answer == (has_nan == (predicate == "uno"))
        else:
            assert answer == ((predicate[0] == "u") if has_nan else ORDERED[predicate[1:]](x, y))


def test_select_keeps_bits() -> None:
    a, b = pairs(float_edges(BFLOAT16))
    condition = np.arange(len(a)) % 3 == 0
    got = apply("arith.select %0, %1, %2 : T0, T1", condition, a, b, result="bfloat16")
    expected = np.where(condition, a.view(np.uint16), b.view(np.uint16))
    assert (got.view(np.uint16) == expected).all()


@pytest.mark.parametrize(("mode", "limits"), [("all", (np.nan, 1.0)), ("none", (-1.0, 1.0))])
def test_clamp(mode: str, limits: tuple[float, float]) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.25], "float32")
    low, high = np.full(4, -1, "float32"), np.full(4, 1, "float32")
    got = apply(f"tt.clampf %0, %1, %2, propagateNan = {mode} : R", x, low, high)
    np.testing.assert_array_equal(got, np.array([limits[0], 1, -1, 0.25], "float32"))


def test_pointers_are_chosen_among_several_tensors() -> None:
    x, y, z = torch.arange(8.0), torch.arange(8.0) + 10, torch.arange(8.0) + 20
    out = torch.zeros(16)
    run(kernels.choose_among_pointers, (1,), x=x, y=y, z=z, out=out, BLOCK=8)
    lanes = torch.arange(8)
    first = torch.where(lanes % 3 == 0, x, y)
    assert torch.equal(out[:8], torch.where(lanes % 3 == 2, z, first))
    assert torch.equal(out[8:], torch.where(lanes % 2 == 0, first, z))
