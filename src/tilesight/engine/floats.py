"""Float casts and arithmetic for the types that NumPy does not compute with itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilesight.engine.values import BFLOAT16, Array

FLOAT32 = np.dtype(np.float32)
FLOAT16 = np.dtype(np.float16)
LARGEST_FLOAT8 = {
    "float8_e4m3fn": 448.0,
    "float8_e5m2": 57344.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2fnuz": 57344.0,
    "float8_e4m3b11fnuz": 30.0,
}
NATIVE = frozenset({np.dtype(np.float64), FLOAT32, FLOAT16})


def is_native(dtype: np.dtype[Any]) -> bool:
    """Whether NumPy itself computes with the type (not bf16, not fp8)."""
    return dtype in NATIVE


def widen_bfloat16(array: Array) -> Array:
    """bf16 → f32, exact."""
    return (array.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


def narrow_to_bfloat16(array: Array) -> Array:
    """f32 → bf16, to nearest, ties to even; NaN stays NaN.

    Adding 0x7FFF plus the lowest kept bit carries into the kept half exactly when it rounds up.
    """
    bits = array.view(np.uint32)
    kept = bits >> np.uint32(16)
    rounded = (bits + ((kept & np.uint32(1)) + np.uint32(0x7FFF))) >> np.uint32(16)
    result = rounded.astype(np.uint16)
    unordered = np.isnan(array)
    if unordered.any():
        result = np.where(unordered, kept.astype(np.uint16) | np.uint16(0x40), result)
    return result.view(BFLOAT16)


def truncate_to_bfloat16(array: Array) -> Array:
    """f32 → bf16 toward zero; NaN stays NaN."""
    kept = (array.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(array), kept | np.uint16(0x40), kept).view(BFLOAT16)


def truncate_to_tf32(array: Array) -> Array:
    """f32 with 10 bits of mantissa, the others cut off, as tensor cores read an f32 operand (seen on an H200)."""
    return (array.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def round_to_tf32(array: Array) -> Array:
    """f32 with 10 bits of mantissa, to nearest, ties away from zero (PTX `cvt.rna.tf32.f32`)."""
    bits = array.view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
    return np.where(np.isfinite(array), rounded, array)


def float64_to_odd_float32(array: Array) -> Array:
    """f64 → f32 with the last bit set when inexact, so that a second rounding is right."""
    nearest = array.astype(np.float32)
    back = nearest.astype(np.float64)
    inexact = (back != array) & np.isfinite(array) & np.isfinite(nearest)
    if not inexact.any():
        return nearest
    away = np.abs(back) > np.abs(array)
    toward = np.where(away, np.nextafter(nearest, np.float32(0)), nearest)
    odd = toward.view(np.uint32) | np.uint32(1)
    return np.where(inexact, odd, nearest.view(np.uint32)).view(np.float32)


def cast_float(array: Array, dtype: np.dtype[Any]) -> Array:
    """Any float type to any other: to nearest, ties to even; fp8 saturates as PTX `satfinite` does."""
    if array.dtype == dtype:
        return array
    if array.dtype == BFLOAT16:
        return cast_float(widen_bfloat16(array), dtype)
    if dtype == BFLOAT16:
        wide = float64_to_odd_float32(array) if array.dtype == np.float64 else array.astype(np.float32)
        return narrow_to_bfloat16(wide)
    if is_native(dtype):
        return array.astype(dtype)
    wide = float64_to_odd_float32(array) if array.dtype == np.float64 else array.astype(np.float32)
    return saturate(wide, dtype).astype(dtype)


def saturate(array: Array, dtype: np.dtype[Any]) -> Array:
    """f32 clamped to the finite range of a narrow float; NaN stays NaN."""
    largest = np.float32(LARGEST_FLOAT8[dtype.name])
    return np.clip(array, -largest, largest)


def cast_toward_zero(array: Array, dtype: np.dtype[Any]) -> Array:
    """A float cast that never grows in magnitude (`rounding = rtz`)."""
    if array.dtype == np.float32 and dtype == BFLOAT16:
        return truncate_to_bfloat16(array)
    nearest = cast_float(array, dtype)
    grown = np.abs(cast_float(nearest, np.dtype(np.float64))) > np.abs(cast_float(array, np.dtype(np.float64)))
    storage = np.dtype(f"u{dtype.itemsize}")
    bits = nearest.view(storage)
    return np.where(grown, bits - storage.type(1), bits).view(dtype)


def compute(function: Callable[..., Array], *operands: Array) -> Array:
    """Apply a function of floats, in f32 with one rounding for bf16 and fp8.

    One f32 operation rounded once more to bf16 is the correctly rounded bf16 operation, because
    24 ≥ 2·8 + 2 bits. Results that are not floats, such as comparisons, pass through.
    """
    dtype = operands[0].dtype
    if is_native(dtype):
        return function(*operands)
    result = function(*(cast_float(operand, FLOAT32) for operand in operands))
    return cast_float(result, dtype) if result.dtype == FLOAT32 else result


def pick(function: Callable[..., Array], *operands: Array) -> Array:
    """Apply a function that gives one of its operands or its opposite: nothing is rounded, fp8 infinities stay."""
    dtype = operands[0].dtype
    if is_native(dtype):
        return function(*operands)
    result = function(*(cast_float(operand, FLOAT32) for operand in operands))
    return narrow_to_bfloat16(result) if dtype == BFLOAT16 else result.astype(dtype)


def compute_wide(function: Callable[..., Array], *operands: Array) -> Array:
    """Apply a function in f32 where the type is narrower, f16 included; f32 and f64 as they are."""
    dtype = operands[0].dtype
    if dtype.itemsize >= 4:
        return function(*operands)
    return cast_float(function(*(cast_float(operand, FLOAT32) for operand in operands)), dtype)
