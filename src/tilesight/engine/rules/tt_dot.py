"""tt: matrix products, one BLAS call a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from tilesight.engine.floats import (
    FLOAT32,
    cast_float,
    is_native,
    narrow_to_bfloat16,
    round_to_tf32,
    truncate_to_tf32,
    widen_bfloat16,
)
from tilesight.engine.frame import Frame
from tilesight.engine.registry import frame_rule, unsupported
from tilesight.engine.values import Array, dtype_of
from tilesight.ir.module import Operation
from tilesight.ir.types import block_shape

Product: TypeAlias = Callable[[Array, Array], Array]

E8M0_BIAS = 127
FP4_VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)


@frame_rule("tt.dot")
def dot(frame: Frame, operation: Operation, a: Array, b: Array, c: Array) -> Array:
    """a @ b + c, accumulated in f32 (f64 for f64, i32 for i8).

    Products of f16, bf16 and fp8 are exact in f32. f32 operands are multiplied as `inputPrecision`
    says: `ieee`, `tf32`, or the sums of several narrower products `tf32x3`, `bf16x3`, `bf16x6`.

    Raises: UnsupportedError: a precision that none of these is
    """
    left = _operand(operation, 0, a)
    right = _operand(operation, 1, b)
    if a.dtype == np.float32:
        precision = str(operation.attributes.get("inputPrecision", "ieee"))
        if precision not in PRODUCTS:
            raise unsupported(operation, f"tt.dot with inputPrecision {precision}")
        product = PRODUCTS[precision](left, right)
    else:
        product = np.matmul(left, right)
    if c.dtype.kind == "i":
        return (product.astype(np.int64) + c).astype(c.dtype)
    if is_native(c.dtype) and c.dtype.itemsize >= 4:
        return (product + c).astype(c.dtype, copy=False)
    return cast_float(product + cast_float(c, FLOAT32), c.dtype)


def _operand(operation: Operation, index: int, array: Array) -> Array:
    """An operand spread out and contiguous, in the type that products are summed in."""
    shape = block_shape(operation.operands[index].type)
    full = np.broadcast_to(array, (array.shape[0], *shape))
    if array.dtype.kind in "bi":
        return np.ascontiguousarray(full, dtype=np.float64)
    if array.dtype == np.float64:
        return np.ascontiguousarray(full)
    return np.ascontiguousarray(cast_float(full, FLOAT32))


def multiply_tf32(left: Array, right: Array) -> Array:
    """The product as tensor cores make it: they read the upper 19 bits of each f32 and nobody rounds before."""
    return np.matmul(truncate_to_tf32(left), truncate_to_tf32(right))


def multiply_tf32_three_times(left: Array, right: Array) -> Array:
    """big·big + small·big + big·small, where x = big + small and big is x rounded to tf32.

    Source: Triton's lowering (F32DotTC.cpp), after https://github.com/NVIDIA/cutlass/discussions/385
    """
    big_left, big_right = round_to_tf32(left), round_to_tf32(right)
    small = multiply_tf32(left - big_left, big_right) + multiply_tf32(big_left, right - big_right)
    return _without_nan(small) + np.matmul(big_left, big_right)


def _multiply_bfloat16(parts: int) -> Product:
    """The sum of products of an f32's leading `parts` bf16 pieces, smallest first.

    Source: https://arxiv.org/abs/1904.06376; the products kept are those of Triton's F32DotTC.cpp
    """
    kept = ((1, 1), (2, 0), (0, 2), (1, 0), (0, 1)) if parts == 3 else ((1, 0), (0, 1))

    def multiply(left: Array, right: Array) -> Array:
        lefts, rights = _bfloat16_parts(left, parts), _bfloat16_parts(right, parts)
        small = np.matmul(lefts[kept[0][0]], rights[kept[0][1]])
        for i, j in kept[1:]:
            small = small + np.matmul(lefts[i], rights[j])
        return _without_nan(small) + np.matmul(lefts[0], rights[0])

    return multiply


def _bfloat16_parts(array: Array, parts: int) -> list[Array]:
    """f32 as a sum of bf16 pieces, each the nearest to what the ones before it leave."""
    found: list[Array] = []
    for _ in range(parts):
        piece = widen_bfloat16(narrow_to_bfloat16(array))
        found.append(piece)
        array = array - piece
    return found


def _without_nan(small: Array) -> Array:
    """The small products, 0 where ∞ − ∞ in a piece made a NaN: the big product decides there."""
    return np.where(np.isnan(small), np.float32(0), small)


PRODUCTS: dict[str, Product] = {
    "ieee": np.matmul,
    "tf32": multiply_tf32,
    "tf32x3": multiply_tf32_three_times,
    "bf16x3": _multiply_bfloat16(2),
    "bf16x6": _multiply_bfloat16(3),
}
"""How two f32 blocks are multiplied, by the IR's word for it."""


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
