"""libdevice's directed roundings against rational arithmetic and tables by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tilesight.engine.rules.libdevice import call_symbol

MODES = ("rd", "ru", "rz")
F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
SINGLE = [
    0.0,
    1.0,
    -1.0,
    3.0,
    0.1,
    -0.1,
    7.25,
    1e-45,
    -1e-45,
    1.1754944e-38,
    1e-30,
    3.4028235e38,
    -2.5e38,
    1e20,
    16777217.0,
]
DOUBLE = [0.0, 1.0, -3.0, 0.1, 5e-324, -2.2250738585072014e-308, 1.7976931348623157e308, 1e300, 1e-200, 7.25]
BINARY: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
}


def neighbours_hold(result: float, exact: Fraction, mode: str, dtype: np.dtype[Any]) -> bool:
    """Whether `result` is the number of `dtype` next to `exact` in the direction: it, but not its neighbour."""
    largest = Fraction(float(np.finfo(dtype).max))
    if mode == "rz":
        mode = "rd" if exact >= 0 else "ru"
    if mode == "ru":
        return neighbours_hold(-result, -exact, "rd", dtype)
    if math.isinf(result):
        return result < 0 and exact < -largest
    with np.errstate(over="ignore"):
        above = float(np.nextafter(dtype.type(result), dtype.type(np.inf)))
    return Fraction(result) <= exact and (math.isinf(above) or exact < Fraction(above))


def values(dtype: np.dtype[Any]) -> list[float]:
    return [float(x) for x in np.array(SINGLE if dtype == F32 else DOUBLE, dtype)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("kind", "dtype"), [("f", F32), ("d", F64)])
@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name: str, kind: str, dtype: np.dtype[Any], mode: str) -> None:
    pairs = [(x, y) for x in values(dtype) for y in values(dtype) if name != "div" or y]
    x, y = (np.array(column, dtype) for column in zip(*pairs, strict=True))
    with np.errstate(all="ignore"):
        result = call_symbol(f"__nv_{kind}{name}_{mode}", (x, y), dtype)
    assert result.dtype == dtype
    for (left, right), got in zip(pairs, result.tolist(), strict=True):
        exact = BINARY[name](Fraction(left), Fraction(right))
        assert neighbours_hold(got, exact, mode, dtype), (left, right, got)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("kind", "dtype"), [("f", F32), ("d", F64)])
def test_fused(kind: str, dtype: np.dtype[Any], mode: str) -> None:
    some = values(dtype)[1:7]
    triples = [(x, y, z) for x in some for y in some for z in some]
    columns = tuple(np.array(column, dtype) for column in zip(*triples, strict=True))
    symbol = f"__nv_fma{'f' if kind == 'f' else ''}_{mode}"
    with np.errstate(all="ignore"):
        result = call_symbol(symbol, columns, dtype)
    for (x, y, z), got in zip(triples, result.tolist(), strict=True):
        assert neighbours_hold(got, Fraction(x) * Fraction(y) + Fraction(z), mode, dtype), (x, y, z, got)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("kind", "dtype"), [("f", F32), ("d", F64)])
def test_reciprocal_and_root(kind: str, dtype: np.dtype[Any], mode: str) -> None:
    some = [abs(x) for x in values(dtype) if x]
    with np.errstate(all="ignore"):
        reciprocals = call_symbol(f"__nv_{kind}rcp_{mode}", (np.array(some, dtype),), dtype).tolist()
        roots = call_symbol(f"__nv_{kind}sqrt_{mode}", (np.array(some, dtype),), dtype)
        above = np.nextafter(roots, dtype.type(np.inf)).tolist()
        below = np.nextafter(roots, dtype.type(0)).tolist()
    assert all(neighbours_hold(got, 1 / Fraction(x), mode, dtype) for x, got in zip(some, reciprocals, strict=True))
    for x, got, over, under in zip(some, roots.tolist(), above, below, strict=True):
        if mode == "ru":
            assert Fraction(under) ** 2 < Fraction(x) <= Fraction(got) ** 2
        else:
            assert Fraction(got) ** 2 <= Fraction(x) < Fraction(over) ** 2


@pytest.mark.parametrize(
    ("symbol", "operands", "expected"),
    [
        ("__nv_fadd_rd", (1.0, -1.0), -0.0),
        ("__nv_fadd_ru", (1.0, -1.0), 0.0),
        ("__nv_fadd_rd", (0.0, 0.0), 0.0),
        ("__nv_fsub_rd", (2.0, 2.0), -0.0),
        ("__nv_fmaf_rd", (-1.0, 1.0, 1.0), -0.0),
        ("__nv_fdiv_rz", (1.0, 0.0), math.inf),
        ("__nv_fdiv_rd", (-1.0, 0.0), -math.inf),
        ("__nv_fadd_rz", (math.inf, 1.0), math.inf),
        ("__nv_fadd_ru", (math.inf, -math.inf), math.nan),
        ("__nv_fsqrt_rd", (-1.0,), math.nan),
        ("__nv_frcp_rz", (-math.inf,), -0.0),
    ],
)
def test_zeros_and_infinities(symbol: str, operands: tuple[float, ...], expected: float) -> None:
    with np.errstate(all="ignore"):
        got = call_symbol(symbol, tuple(np.array([x], np.float32) for x in operands), F32)
    assert np.array_equal(got, np.array([expected], np.float32), equal_nan=True)
    assert math.isnan(expected) or np.signbit(got[0]) == np.signbit(expected)


INTEGERS = [0, 1, -1, 2**24 + 1, -(2**24) - 1, 2**31 - 1, -(2**31)]
LONGS = [*INTEGERS, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("name", "target", "given", "source"),
    [
        ("int2float", F32, INTEGERS, np.int32),
        ("ll2float", F32, LONGS, np.int64),
        ("ll2double", F64, LONGS, np.int64),
        ("double2float", F32, [0.1, -0.1, 1e-50, -1e-50, 3.5e38, -3.5e38, 1.0, 16777217.0], np.float64),
    ],
)
def test_conversions(name: str, target: np.dtype[Any], given: list[float], source: type, mode: str) -> None:
    with np.errstate(all="ignore"):
        result = call_symbol(f"__nv_{name}_{mode}", (np.array(given, source),), target)
    assert result.dtype == target
    assert all(neighbours_hold(got, Fraction(x), mode, target) for x, got in zip(given, result.tolist(), strict=True))


@pytest.mark.parametrize(("mode", "expected"), [("rd", 4294967040.0), ("ru", 4294967296.0), ("rz", 4294967040.0)])
def test_unsigned_integers(mode: str, expected: float) -> None:
    """−1 as bits is 2³² − 1, between two f32 that are 256 apart."""
    got = call_symbol(f"__nv_uint2float_{mode}", (np.array([-1], np.int32),), F32)
    assert got.tolist() == [expected]


def test_infinities_convert_to_themselves() -> None:
    got = call_symbol("__nv_double2float_rz", (np.array([math.inf, -math.inf, math.nan]),), F32)
    assert np.array_equal(got, np.array([math.inf, -math.inf, math.nan], np.float32), equal_nan=True)


@pytest.mark.parametrize("kind", ["f", "d"])
@pytest.mark.parametrize("name", ["add", "div", "mul", "sub"])
def test_operands_that_vary_along_different_axes(name: str, kind: str) -> None:
    """One number a program against a block, as kernels with scalar arguments have it."""
    dtype = F32 if kind == "f" else F64
    block, scalar = np.linspace(-3, 3, 24, dtype=dtype).reshape(4, 6), np.array([[0.1], [7], [-0.3], [3]], dtype)
    for mode in MODES:
        symbol = f"__nv_{kind}{name}_{mode}"
        whole = call_symbol(symbol, (block, np.broadcast_to(scalar, block.shape)), dtype)
        assert np.array_equal(call_symbol(symbol, (block, scalar), dtype), whole)
