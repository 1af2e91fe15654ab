"""Integer operations against Python's own integers, every edge with every edge."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from .elementwise import apply, integer_edges, pairs

DTYPES = ["int8", "int16", "int32", "int64"]


def wrap(value: int, bits: int) -> int:
    """A Python integer as signed two's complement."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def unsigned(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


SIGNED: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "andi": lambda a, b: a & b,
    "ori": lambda a, b: a | b,
    "xori": lambda a, b: a ^ b,
    "maxsi": max,
    "minsi": min,
}
SIGNED_DIVISION: dict[str, Callable[[int, int], int]] = {
    "divsi": truncated,
    "remsi": lambda a, b: a - b * truncated(a, b),
    "floordivsi": lambda a, b: a // b,
    "ceildivsi": lambda a, b: -(-a // b),
}
UNSIGNED: dict[str, Callable[[int, int], int]] = {"maxui": max, "minui": min}
UNSIGNED_DIVISION: dict[str, Callable[[int, int], int]] = {
    "divui": lambda a, b: a // b,
    "remui": lambda a, b: a % b,
    "ceildivui": lambda a, b: -(-a // b),
}
PREDICATES: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*SIGNED, *SIGNED_DIVISION])
def test_signed(name: str, dtype: str) -> None:
    a, b = pairs(integer_edges(dtype))
    bits = 8 * a.itemsize
    if name in SIGNED_DIVISION:
        a, b = a[b != 0], b[b != 0]
    got = apply(f"arith.{name} %0, %1 : T0", a, b)
    function = SIGNED.get(name) or SIGNED_DIVISION[name]
    assert got.tolist() == [wrap(function(x, y), bits) for x, y in zip(a.tolist(), b.tolist(), strict=True)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*UNSIGNED, *UNSIGNED_DIVISION])
def test_unsigned(name: str, dtype: str) -> None:
    a, b = pairs(integer_edges(dtype))
    bits = 8 * a.itemsize
    if name in UNSIGNED_DIVISION:
        a, b = a[b != 0], b[b != 0]
    got = apply(f"arith.{name} %0, %1 : T0", a, b)
    function = UNSIGNED.get(name) or UNSIGNED_DIVISION[name]
    expected = [
        wrap(function(unsigned(x, bits), unsigned(y, bits)), bits) for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]
    assert got.tolist() == expected


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("predicate", ["eq", "ne", *(sign + p for sign in "su" for p in ("lt", "le", "gt", "ge"))])
def test_compare(predicate: str, dtype: str) -> None:
    a, b = pairs(integer_edges(dtype))
    bits = 8 * a.itemsize
    got = apply(f"arith.cmpi {predicate}, %0, %1 : T0", a, b, result="bool")
    lanes = zip(a.tolist(), b.tolist(), strict=True)
    if predicate.startswith("u"):
        lanes = ((unsigned(x, bits), unsigned(y, bits)) for x, y in lanes)
    assert got.tolist() == [PREDICATES[predicate[-2:]](x, y) for x, y in lanes]


@pytest.mark.parametrize("predicate", ["eq", "ne", "slt", "sge", "ult", "uge"])
def test_compare_booleans(predicate: str) -> None:
    """A true i1 is -1 when signed and 1 when unsigned."""
    a, b = pairs(np.array([False, True]))
    got = apply(f"arith.cmpi {predicate}, %0, %1 : T0", a, b)
    sign = -1 if predicate.startswith("s") else 1
    assert got.tolist() == [
        PREDICATES[predicate[-2:]](sign * x, sign * y) for x, y in zip(a.tolist(), b.tolist(), strict=True)
    ]


@pytest.mark.parametrize("name", ["addi", "subi", "xori", "muli", "andi", "ori"])
def test_arithmetic_on_booleans(name: str) -> None:
    a, b = pairs(np.array([False, True]))
    got = apply(f"arith.{name} %0, %1 : T0", a, b)
    assert got.tolist() == [bool(SIGNED[name](x, y) & 1) for x, y in zip(a.tolist(), b.tolist(), strict=True)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["shli", "shrsi", "shrui"])
def test_shift(name: str, dtype: str) -> None:
    values = integer_edges(dtype)
    bits = 8 * values.itemsize
    amounts = np.array([0, 1, bits // 2, bits - 1], dtype)
    a, b = np.repeat(values, len(amounts)), np.tile(amounts, len(values))
    shifted: dict[str, Callable[[int, int], int]] = {
        "shli": lambda x, n: x << n,
        "shrsi": lambda x, n: x >> n,
        "shrui": lambda x, n: unsigned(x, bits) >> n,
    }
    got = apply(f"arith.{name} %0, %1 : T0", a, b)
    assert got.tolist() == [wrap(shifted[name](x, n), bits) for x, n in zip(a.tolist(), b.tolist(), strict=True)]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_extended_products(dtype: str) -> None:
    a, b = pairs(integer_edges(dtype))
    bits = 8 * a.itemsize
    low, high = apply("arith.mulsi_extended %0, %1 : T0", a, b, result=(dtype, dtype))
    products = [x * y for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert low.tolist() == [wrap(p, bits) for p in products]
    assert high.tolist() == [wrap(p >> bits, bits) for p in products]
    got = apply("tt.mulhiui %0, %1 : T0", a, b)
    lanes = zip(a.tolist(), b.tolist(), strict=True)
    assert got.tolist() == [wrap(unsigned(x, bits) * unsigned(y, bits) >> bits, bits) for x, y in lanes]


def test_division_by_zero_does_not_stop_the_launch() -> None:
    a, b = np.array([5, -5], "int32"), np.zeros(2, "int32")
    for name in ("divsi", "remsi", "divui", "remui"):
        assert len(apply(f"arith.{name} %0, %1 : T0", a, b)) == 2


@pytest.mark.parametrize("name", ["ctpop", "ctlz", "cttz"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_bit_counts(name: str, dtype: str) -> None:
    a = integer_edges(dtype)
    bits = 8 * a.itemsize
    words = [f"{unsigned(x, bits):0{bits}b}" for x in a.tolist()]
    counts: dict[str, Callable[[str], int]] = {
        "ctpop": lambda word: word.count("1"),
        "ctlz": lambda word: len(word) - len(word.lstrip("0")),
        "cttz": lambda word: len(word) - len(word.rstrip("0")),
    }
    assert apply(f"math.{name} %0 : T0", a).tolist() == [counts[name](word) for word in words]


def test_absolute() -> None:
    a = integer_edges("int16")
    assert apply("math.absi %0 : T0", a).tolist() == [wrap(abs(x), 16) for x in a.tolist()]
