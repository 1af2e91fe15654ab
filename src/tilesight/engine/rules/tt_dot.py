"""tt: matrix products, one BLAS call a program."""

from __future__ import annotations

import numpy as np

from tilesight.engine.floats import cast_float, is_native, round_to_tf32
from tilesight.engine.frame import Frame
from tilesight.engine.registry import frame_rule
from tilesight.engine.values import Array, dtype_of
from tilesight.ir.module import Operation
from tilesight.ir.types import block_shape

E8M0_BIAS = 127
FP4_VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


@frame_rule("tt.dot")
def dot(frame: Frame, operation: Operation, a: Array, b: Array, c: Array) -> Array:
    """a @ b + c, accumulated in f32 (f64 for f64, i32 for i8).

    Products of f16, bf16 and fp8 are exact in f32. f32 operands are rounded to tf32 where
    `inputPrecision` says so; tf32x3 and the bf16 splittings count as f32.
    """
    left = _operand(operation, 0, a)
    right = _operand(operation, 1, b)
    product = np.matmul(left, right)
    if c.dtype.kind == "i":
        return (product.astype(np.int64) + c).astype(c.dtype)
    if is_native(c.dtype) and c.dtype.itemsize >= 4:
        return (product + c).astype(c.dtype, copy=False)
    return cast_float(product + cast_float(c, np.dtype(np.float32)), c.dtype)


def _operand(operation: Operation, index: int, array: Array) -> Array:
    """An operand spread out and contiguous, in the type that products are summed in."""
    shape = block_shape(operation.operands[index].type)
    full = np.broadcast_to(array, (array.shape[0], *shape))
    if array.dtype.kind in "bi":
        return np.ascontiguousarray(full, dtype=np.float64)
    if array.dtype == np.float64:
        return np.ascontiguousarray(full)
    wide = np.ascontiguousarray(cast_float(full, np.dtype(np.float32)))
    is_rounded = array.dtype == np.float32 and operation.attributes.get("inputPrecision") == "tf32"
    return round_to_tf32(wide) if is_rounded else wide


@frame_rule("tt.dot_scaled")
def dot_scaled(frame: Frame, operation: Operation, *operands: Array) -> Array:
    """(a · 2^(a_scale − 127)) @ (b · 2^(b_scale − 127)) + c, with one scale for 32 elements along K.

    e2m1 operands hold two elements a byte, the even one in the low half.
    """
    given = {
        name: operands[operation.operands.index(values[0])]
        for name, values in operation.operand_segments.items()
        if values
    }
    left = _scaled(operation, "a", given, k_axis=-1)
    right = _scaled(operation, "b", given, k_axis=-2)
    return (np.matmul(left, right) + given["c"]).astype(dtype_of(operation.results[0].type))


def _scaled(operation: Operation, name: str, given: dict[str, Array], k_axis: int) -> Array:
    value = operation.operand_segments[name][0]
    array = np.broadcast_to(given[name], (given[name].shape[0], *block_shape(value.type)))
    kind = str(operation.attributes[f"{name}_elem_type"])
    elements = (
        _unpack_fp4(array, k_axis) if kind == "e2m1" else cast_float(_as_float8(array, kind), np.dtype(np.float32))
    )
    scale_values = operation.operand_segments.get(f"{name}_scale", ())
    if not scale_values:
        return np.ascontiguousarray(elements)
    scale = given[f"{name}_scale"]
    scale = np.broadcast_to(scale, (scale.shape[0], *block_shape(scale_values[0].type)))
    factors = _decode_scale(scale)
    if k_axis == -2:
        factors = factors.swapaxes(-1, -2)
    block = elements.shape[k_axis] // factors.shape[k_axis]
    return np.ascontiguousarray(elements * np.repeat(factors, block, axis=k_axis))


def _decode_scale(scale: Array) -> Array:
    """e8m0 bytes as powers of two, 255 as NaN; float scales as they are."""
    if scale.dtype != np.int8:
        return cast_float(scale, np.dtype(np.float32))
    exponent = scale.view(np.uint8).astype(np.int32)
    return np.where(exponent == 255, np.nan, np.ldexp(np.float32(1), exponent - E8M0_BIAS)).astype(np.float32)


def _as_float8(array: Array, kind: str) -> Array:
    if array.dtype != np.int8:
        return array
    names = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
    return array.view(np.dtype(names[kind])) if kind in names else array


def _unpack_fp4(array: Array, axis: int) -> Array:
    """Two e2m1 numbers a byte, spread out along an axis."""
    axis %= array.ndim
    bits = array.view(np.uint8)
    pairs = np.stack([FP4_VALUES[bits & 0xF], FP4_VALUES[bits >> 4]], axis=axis + 1)
    shape = list(array.shape)
    shape[axis] *= 2
    return pairs.reshape(shape)
