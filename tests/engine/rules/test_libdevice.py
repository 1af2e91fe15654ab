"""libdevice functions by symbol, against torch's float64 and Python's math."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from tilesight.errors import UnsupportedError

from .elementwise import apply, float_edges, integer_edges
from .test_math import arguments, ulps_apart

FLOAT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp": torch.exp,
    "exp2": torch.exp2,
    "log": torch.log,
    "log1p": torch.log1p,
    "rsqrt": torch.rsqrt,
    "sqrt": torch.sqrt,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "sin": torch.sin,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "trunc": torch.trunc,
    "rint": torch.round,
    "nearbyint": torch.round,
    "fabs": torch.abs,
    "expm1": torch.expm1,
    "lgamma": torch.lgamma,
}


def extern(symbol: str, *types: str) -> str:
    shown = ", ".join(f"%{i}" for i in range(len(types)))
    attributes = f'{{libname = "", libpath = "", pure = true, symbol = "{symbol}"}}'
    return f"tt.extern_elementwise {shown} {attributes} : ({', '.join(types)}) -> R"


@pytest.mark.parametrize("name", FLOAT)
def test_single(name: str) -> None:
    x = arguments(np.dtype("float32"))
    expected = FLOAT[name](torch.from_numpy(x).double()).numpy()
    assert ulps_apart(apply(extern(f"__nv_{name}f", "T0"), x), expected).max() <= 2


@pytest.mark.parametrize("name", FLOAT)
def test_double(name: str) -> None:
    x = arguments(np.dtype("float64"))
    expected = FLOAT[name](torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(apply(extern(f"__nv_{name}", "T0"), x), expected, rtol=2e-13, atol=1e-15)


@pytest.mark.parametrize(
    ("symbol", "function"),
    [
        ("__nv_isnanf", np.isnan),
        ("__nv_isinff", np.isinf),
        ("__nv_finitef", np.isfinite),
        ("__nv_signbitf", np.signbit),
    ],
)
def test_predicates_give_i32(symbol: str, function: Callable[[np.ndarray], np.ndarray]) -> None:
    x = float_edges(np.dtype("float32"))
    assert apply(extern(symbol, "T0"), x, result="int32").tolist() == [int(bit) for bit in function(x)]


@pytest.mark.parametrize(
    ("symbol", "function"),
    [
        ("__nv_powf", math.pow),
        ("__nv_atan2f", math.atan2),
        ("__nv_fdiv_rn", lambda a, b: a / b),
        ("__nv_fmodf", math.fmod),
    ],
)
def test_two_operands(symbol: str, function: Callable[[float, float], float]) -> None:
    generator = np.random.default_rng(5)
    a, b = (np.abs(generator.normal(size=500)).astype(np.float32) + np.float32(0.01) for _ in range(2))
    expected = np.array([function(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)])
    assert ulps_apart(apply(extern(symbol, "T0", "T1"), a, b, result="float32"), expected).max() <= 1


def test_power_of_special_values() -> None:
    a = np.array([0, 0, -2, -2, np.inf, 1, np.nan], "float32")
    b = np.array([0, -1, 3, 0.5, -1, np.nan, 0], "float32")
    got = apply(extern("__nv_powf", "T0", "T1"), a, b, result="float32")
    np.testing.assert_array_equal(got, np.array([1, np.inf, -8, np.nan, 0, 1, 1], "float32"))


@pytest.mark.parametrize(("mode", "function"), [("rn", round), ("rz", int), ("rd", math.floor), ("ru", math.ceil)])
def test_float_to_integer(mode: str, function: Callable[[float], int]) -> None:
    x = np.array([0.5, 1.5, -0.5, -1.5, 2.7, -2.7, 0.0], "float32")
    got = apply(extern(f"__nv_float2int_{mode}", "T0"), x, result="int32")
    assert got.tolist() == [function(value) for value in x.tolist()]


def test_integers() -> None:
    a = integer_edges("int32")
    words = [f"{x % (1 << 32):032b}" for x in a.tolist()]
    clz = apply(extern("__nv_clz", "T0"), a)
    assert clz.tolist() == [len(word) - len(word.lstrip("0")) for word in words]
    reversed_bits = apply(extern("__nv_brev", "T0"), a).view(np.uint32)
    assert reversed_bits.tolist() == [int(word[::-1], 2) for word in words]
    first_set = apply(extern("__nv_ffs", "T0"), a)
    assert first_set.tolist() == [0 if "1" not in word else len(word) - word.rindex("1") for word in words]


def test_unknown_symbol_says_where_it_belongs() -> None:
    with pytest.raises(UnsupportedError, match=r"no function for __nv_nonsense in engine/rules/libdevice\.py"):
        apply(extern("__nv_nonsense", "T0"), np.ones(2, np.float32))


@pytest.mark.parametrize("suffix", ["f", ""])
def test_remainder_is_exact_however_large_the_quotient(suffix: str) -> None:
    dtype = np.dtype("float32" if suffix else "float64")
    generator = np.random.default_rng(6)
    x = (generator.normal(size=600) * 10.0 ** generator.integers(-8, 30, 600)).astype(dtype)
    y = (generator.normal(size=600) * 10.0 ** generator.integers(-8, 8, 600)).astype(dtype)
    x[:8], y[:8] = [1, 3, 5, -1, -3, 7, 2.5, 0], [2, 2, 2, 2, 2, -2, 1, 3]
    largest = float(np.finfo(dtype).max)
    x[8:12], y[8:12] = [largest, largest, 1, -largest / 2], [largest * 0.75, largest, np.inf, largest]
    got = apply(extern(f"__nv_remainder{suffix}", "T0", "T1"), x, y, result=dtype.name)
    assert got.tolist() == [math.remainder(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]


def test_remainder_of_special_values() -> None:
    x, y = np.array([np.inf, 1, np.nan, 1], "float32"), np.array([1, 0, 1, np.nan], "float32")
    assert np.isnan(apply(extern("__nv_remainderf", "T0", "T1"), x, y, result="float32")).all()


def test_exponents_of_special_values() -> None:
    x = np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, 0.75, 1e-45, 3e38], "float32")
    low, high = -(1 << 31), (1 << 31) - 1
    assert apply(extern("__nv_ilogbf", "T0"), x, result="int32").tolist() == [
        low, low, high, high, low, 0, -1, -149, 127,
    ]  # fmt: skip


def test_positive_difference_of_infinities() -> None:
    x, y = np.array([np.inf, -np.inf, np.inf, 1, 2], "float32"), np.array([np.inf, -np.inf, 1, 2, 1], "float32")
    assert apply(extern("__nv_fdimf", "T0", "T1"), x, y, result="float32").tolist() == [0, 0, np.inf, 0, 1]


def test_norms_do_not_overflow_on_the_way() -> None:
    x = np.array([3e200, 3.0, 0.0], "float64")
    got = apply(extern("__nv_norm3d", "T0", "T1", "T2"), x, x, x, result="float64")
    np.testing.assert_allclose(got, x * math.sqrt(3), rtol=1e-15)
    halves = apply(extern("__nv_rnorm4d", "T0", "T1", "T2", "T3"), x, x, x, x, result="float64")
    np.testing.assert_allclose(halves, [1 / 6e200, 1 / 6, np.inf], rtol=1e-15)
