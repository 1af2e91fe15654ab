"""arith: casts between integers, floats and bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilesight.engine.floats import cast_float, cast_toward_zero
from tilesight.engine.frame import Frame
from tilesight.engine.registry import frame_rule
from tilesight.engine.rules.arith_integer import as_signed, as_unsigned
from tilesight.engine.values import INTEGER_DTYPES, Array, LaneSum, Pointer, dtype_of
from tilesight.ir.module import Operation


@frame_rule("arith.extsi", "arith.index_cast", takes_lanes=True)
def extend_signed(frame: Frame, operation: Operation, source: Array | LaneSum) -> Array | LaneSum:
    dtype = dtype_of(operation.results[0].type)
    if isinstance(source, LaneSum):
        if dtype.itemsize >= source.dtype.itemsize:
            return LaneSum(dtype, source.terms)
        source = source.array
    return as_signed(source).astype(dtype)


@frame_rule("arith.extui", "arith.index_castui")
def extend_unsigned(frame: Frame, operation: Operation, source: Array) -> Array:
    return as_unsigned(source).astype(dtype_of(operation.results[0].type))


@frame_rule("arith.trunci")
def truncate_integer(frame: Frame, operation: Operation, source: Array) -> Array:
    """The low bits; of i1 the lowest one."""
    dtype = dtype_of(operation.results[0].type)
    return (source & 1).astype(np.bool_) if dtype == np.bool_ else source.astype(dtype)


@frame_rule("arith.extf", "arith.truncf", "tt.fp_to_fp")
def cast(frame: Frame, operation: Operation, source: Array) -> Array:
    """Any float to any other, to nearest even unless the operation says toward zero."""
    dtype = dtype_of(operation.results[0].type)
    mode = str(operation.attributes.get("rounding", operation.attributes.get("roundingmode", "")))
    if mode in ("rtz", "toward_zero"):
        return cast_toward_zero(source, dtype)
    return cast_float(source, dtype)


@frame_rule("arith.sitofp")
def signed_to_float(frame: Frame, operation: Operation, source: Array) -> Array:
    return _to_float(as_signed(source), dtype_of(operation.results[0].type))


@frame_rule("arith.uitofp")
def unsigned_to_float(frame: Frame, operation: Operation, source: Array) -> Array:
    return _to_float(as_unsigned(source), dtype_of(operation.results[0].type))


def _to_float(source: Array, dtype: np.dtype[Any]) -> Array:
    """bf16, f16 and fp8 are reached through f32, as the GPU does."""
    wide = source.astype(np.float64 if dtype == np.float64 else np.float32)
    return cast_float(wide, dtype)


@frame_rule("arith.fptosi")
def float_to_signed(frame: Frame, operation: Operation, source: Array) -> Array:
    """Toward zero; out of range it saturates and NaN is 0 (PTX `cvt.rzi`; undefined in the IR)."""
    dtype = dtype_of(operation.results[0].type)
    if dtype == np.bool_:
        return cast_float(source, np.dtype(np.float64)) != 0
    return saturate_to_integer(np.trunc(cast_float(source, np.dtype(np.float64))), dtype)


@frame_rule("arith.fptoui")
def float_to_unsigned(frame: Frame, operation: Operation, source: Array) -> Array:
    """Toward zero; out of range it saturates and NaN is 0 (PTX `cvt.rzi`; undefined in the IR)."""
    dtype = dtype_of(operation.results[0].type)
    if dtype == np.bool_:
        return cast_float(source, np.dtype(np.float64)) != 0
    whole = np.trunc(cast_float(source, np.dtype(np.float64)))
    return saturate_to_integer(whole, np.dtype(f"u{dtype.itemsize}")).view(dtype)


def saturate_to_integer(source: Array, dtype: np.dtype[Any]) -> Array:
    """Whole floats as integers of a signed or unsigned dtype: clamped to its range, NaN as 0."""
    wide = cast_float(source, np.dtype(np.float64))
    limits = np.iinfo(dtype)
    inside = (wide >= float(limits.min)) & (wide < float(limits.max) + (limits.max < 2**53))
    if inside.all():
        return wide.astype(dtype)
    whole = np.where(inside, wide, 0).astype(dtype)
    clamped = np.where(wide > 0, np.array(limits.max, dtype), np.array(limits.min, dtype))
    return np.where(inside | np.isnan(wide), whole, clamped)


@frame_rule("arith.bitcast", "tt.bitcast")
def bitcast(frame: Frame, operation: Operation, source: Any) -> Any:
    """The same bits as another type of the same width; of a pointer, the same address."""
    if isinstance(source, Pointer):
        return source
    dtype = dtype_of(operation.results[0].type)
    if source.dtype == dtype:
        return source
    if dtype == INTEGER_DTYPES[1]:
        return (source.view(np.uint8) & 1).astype(np.bool_)
    return source.view(dtype)
