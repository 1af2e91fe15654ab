"""Bit patterns against NumPy and ml_dtypes."""

from __future__ import annotations

import math
import struct

import ml_dtypes
import numpy as np
import pytest

from tilesight.ir.float_bits import decode_float, encode_float, round_float

EIGHT_BITS = {
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
}
SIXTEEN_BITS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
EDGES = [0.0, -0.0, 1.0, -1.5, 0.1, 1e-5, 1e-8, 3e-45, 65504.0, 65520.0, 1e30, 3.4e38, 448.0, 464.0, 480.0, 57344.0]


def same(left: float, right: float) -> bool:
    """Equal as numbers, signs of zero and NaN included."""
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) and math.isnan(right)
    return struct.pack("<d", left) == struct.pack("<d", right)


@pytest.mark.parametrize("name", EIGHT_BITS)
def test_every_eight_bit_pattern(name: str) -> None:
    expected = np.arange(256, dtype=np.uint8).view(EIGHT_BITS[name]).astype(np.float64)
    for bits in range(256):
        assert same(decode_float(bits, name), float(expected[bits])), bits
        if not math.isnan(expected[bits]):
            assert encode_float(float(expected[bits]), name) == bits


@pytest.mark.parametrize("name", SIXTEEN_BITS)
def test_sixteen_bit_patterns(name: str) -> None:
    bits = np.arange(0, 1 << 16, 37, dtype=np.uint16)
    with np.errstate(invalid="ignore"):
        numbers = bits.view(SIXTEEN_BITS[name]).astype(np.float64)
    for pattern, number in zip(bits, numbers, strict=True):
        assert same(decode_float(int(pattern), name), float(number))


@pytest.mark.parametrize("name", {**EIGHT_BITS, **SIXTEEN_BITS})
def test_rounding(name: str) -> None:
    dtype = {**EIGHT_BITS, **SIXTEEN_BITS}[name]
    values = np.array([sign * edge for edge in EDGES for sign in (1, -1)], dtype=np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = values.astype(dtype).astype(np.float64)
    for value, number in zip(values, expected, strict=True):
        assert same(round_float(float(value), name), float(number)), value


@pytest.mark.parametrize(
    ("bits", "name", "value"),
    [
        (0x7F800000, "f32", math.inf),
        (0xFF800000, "f32", -math.inf),
        (0x80000000, "f32", -0.0),
        (0x00000001, "f32", 2.0**-149),
        (0x7FC00000, "f32", math.nan),
        (0x7FF0000000000000, "f64", math.inf),
        (0xFF80, "bf16", -math.inf),
        (0xFC00, "f16", -math.inf),
    ],
)
def test_known_patterns(bits: int, name: str, value: float) -> None:
    assert same(decode_float(bits, name), value)
    if not math.isnan(value):
        assert encode_float(value, name) == bits


def test_too_large_for_f32_is_infinite() -> None:
    assert round_float(1e300, "f32") == math.inf
    assert round_float(-1e300, "bf16") == -math.inf
    assert math.isnan(round_float(math.nan, "bf16"))
