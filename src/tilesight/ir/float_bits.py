"""Bit patterns of the float types and the numbers they stand for, without ml_dtypes."""

from __future__ import annotations

import math
import struct
from functools import cache
from typing import NamedTuple

_STRUCT = {"f64": ("<d", "<Q"), "f32": ("<f", "<I"), "tf32": ("<f", "<I"), "f16": ("<e", "<H")}


class SmallFormat(NamedTuple):
    """An 8-bit float: widths, bias, and which patterns are not numbers.

    `ieee`: the largest exponent holds inf and NaN; `fn`: only all ones is NaN, no inf;
    `fnuz`: only the pattern of −0 is NaN, no inf and no −0.
    """

    exponent_bits: int
    mantissa_bits: int
    bias: int
    specials: str


SMALL_FORMATS = {
    "f8E4M3FN": SmallFormat(4, 3, 7, "fn"),
    "f8E5M2": SmallFormat(5, 2, 15, "ieee"),
    "f8E4M3FNUZ": SmallFormat(4, 3, 8, "fnuz"),
    "f8E5M2FNUZ": SmallFormat(5, 2, 16, "fnuz"),
    "f8E4M3B11FNUZ": SmallFormat(4, 3, 11, "fnuz"),
}


def decode_float(bits: int, type_name: str) -> float:
    """The number that a bit pattern of this float type stands for; a NaN loses its payload."""
    if type_name in SMALL_FORMATS:
        return _decode_small(bits & 0xFF, SMALL_FORMATS[type_name])
    if type_name == "bf16":
        bits, type_name = (bits & 0xFFFF) << 16, "f32"
    to_float, to_bits = _STRUCT[type_name]
    return struct.unpack(to_float, struct.pack(to_bits, bits))[0]


def encode_float(value: float, type_name: str) -> int:
    """The bit pattern of the nearest number of this type, ties to even; too large becomes inf or NaN."""
    if type_name in SMALL_FORMATS:
        return _encode_small(value, type_name)
    if type_name == "bf16":
        return _upper_half_rounded(encode_float(value, "f32"))
    to_float, to_bits = _STRUCT[type_name]
    try:
        return struct.unpack(to_bits, struct.pack(to_float, value))[0]
    except OverflowError:
        return encode_float(math.copysign(math.inf, value), type_name)


def round_float(value: float, type_name: str) -> float:
    """The number of this float type nearest to `value`."""
    return decode_float(encode_float(value, type_name), type_name)


def _decode_small(bits: int, form: SmallFormat) -> float:
    mantissa = bits & ((1 << form.mantissa_bits) - 1)
    exponent = (bits >> form.mantissa_bits) & ((1 << form.exponent_bits) - 1)
    sign = -1.0 if bits >> 7 else 1.0
    if form.specials == "fnuz" and bits == 0x80:
        return math.nan
    if form.specials == "fn" and bits & 0x7F == 0x7F:
        return math.nan
    if form.specials == "ieee" and exponent == (1 << form.exponent_bits) - 1:
        return math.nan if mantissa else sign * math.inf
    leading = 1 << form.mantissa_bits if exponent else 0
    return sign * math.ldexp(leading + mantissa, max(exponent, 1) - form.bias - form.mantissa_bits)


@cache
def _finite_patterns(type_name: str) -> tuple[tuple[float, int], ...]:
    values = ((decode_float(bits, type_name), bits) for bits in range(128))
    return tuple((value, bits) for value, bits in values if math.isfinite(value))


def _encode_small(value: float, type_name: str) -> int:
    form = SMALL_FORMATS[type_name]
    negative = math.copysign(1.0, value) < 0
    nan = 0x80 if form.specials == "fnuz" else 0x7F
    if math.isnan(value):
        return nan
    patterns = _finite_patterns(type_name)
    (below, _), (largest, largest_bits) = patterns[-2:]
    halfway = largest + (largest - below) / 2
    if abs(value) > halfway or (abs(value) == halfway and largest_bits & 1):
        return (0xFC if negative else 0x7C) if form.specials == "ieee" else nan
    bits = min(patterns, key=lambda pattern: (abs(pattern[0] - abs(value)), pattern[1] & 1))[1]
    if bits == 0 and form.specials == "fnuz":
        return 0
    return bits | (0x80 if negative else 0)


def _upper_half_rounded(bits: int) -> int:
    """The upper 16 of 32 bits, rounded to nearest even; a NaN stays a NaN."""
    if bits & 0x7FFFFFFF > 0x7F800000:
        return (bits >> 16) | 0x40
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF
