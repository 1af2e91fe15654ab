"""arith: integers. They wrap around; signedness is in the operation's name, never in the dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilesight.engine.frame import Frame
from tilesight.engine.registry import frame_rule, rule
from tilesight.engine.values import (
    Array,
    LaneSum,
    add_lanes,
    bounds_of,
    scale_lanes,
    spread_integers,
    varying_axes,
)
from tilesight.ir.module import Operation

Compare = Callable[[Array, Array], Array]
Lanes = Array | LaneSum


def as_unsigned(array: Array) -> Array:
    """The same bits read as unsigned; i1 as 0 and 1."""
    return array.view(np.uint8) if array.dtype == np.bool_ else array.view(f"u{array.itemsize}")


def as_signed(array: Array) -> Array:
    """The same bits read as signed; a true i1 is -1."""
    return -array.view(np.int8) if array.dtype == np.bool_ else array


def _like(result: Array, operand: Array) -> Array:
    """A result in the operand's dtype, wrapped around."""
    if operand.dtype == np.bool_:
        return (result & 1).astype(np.bool_)
    return result.astype(operand.dtype, copy=False)


def _sums_axes(lhs: Lanes, rhs: Lanes) -> bool:
    """Whether a sum would spread out two values that vary along different axes."""
    if isinstance(lhs, LaneSum) or isinstance(rhs, LaneSum):
        return True
    left, right = varying_axes(lhs), varying_axes(rhs)
    return len(left) == 1 and len(right) == 1 and left != right and lhs.dtype != np.bool_


@rule("arith.addi", takes_lanes=True)
def add_integer(lhs: Lanes, rhs: Lanes) -> Lanes:
    if _sums_axes(lhs, rhs) and (total := add_lanes(lhs, rhs, lhs.dtype)) is not None:
        return total
    left, right = spread_integers(lhs), spread_integers(rhs)
    return left ^ right if left.dtype == np.bool_ else left + right


@rule("arith.subi", takes_lanes=True)
def subtract_integer(lhs: Lanes, rhs: Lanes) -> Lanes:
    if _sums_axes(lhs, rhs) and (total := add_lanes(lhs, rhs, lhs.dtype, scale=-1)) is not None:
        return total
    left, right = spread_integers(lhs), spread_integers(rhs)
    return left ^ right if left.dtype == np.bool_ else left - right


@rule("arith.muli", takes_lanes=True)
def multiply_integer(lhs: Lanes, rhs: Lanes) -> Lanes:
    for lanes, factor in ((lhs, rhs), (rhs, lhs)):
        if isinstance(lanes, LaneSum) and isinstance(factor, np.ndarray) and factor.size == 1:
            scaled = scale_lanes(lanes, factor)
            if scaled is not None:
                return scaled
    left, right = spread_integers(lhs), spread_integers(rhs)
    return left & right if left.dtype == np.bool_ else left * right


@rule("arith.divsi")
def divide_signed(lhs: Array, rhs: Array) -> Array:
    """The quotient truncated toward zero; by 0 it is 0 (undefined in the IR)."""
    left, right = as_signed(lhs), as_signed(rhs)
    if left.min() >= 0 and right.min() > 0:
        return _like(left // right, lhs)
    return _like((left - np.fmod(left, right)) // right, lhs)


@rule("arith.remsi")
def remainder_signed(lhs: Array, rhs: Array) -> Array:
    """The remainder with the dividend's sign; by 0 it is 0 (undefined in the IR)."""
    return _like(np.fmod(as_signed(lhs), as_signed(rhs)), lhs)


@rule("arith.divui")
def divide_unsigned(lhs: Array, rhs: Array) -> Array:
    return _like(as_unsigned(lhs) // as_unsigned(rhs), lhs)


@rule("arith.remui")
def remainder_unsigned(lhs: Array, rhs: Array) -> Array:
    return _like(as_unsigned(lhs) % as_unsigned(rhs), lhs)


@rule("arith.floordivsi")
def divide_floor(lhs: Array, rhs: Array) -> Array:
    return _like(as_signed(lhs) // as_signed(rhs), lhs)


@rule("arith.ceildivsi")
def divide_ceiling(lhs: Array, rhs: Array) -> Array:
    left, right = as_signed(lhs), as_signed(rhs)
    quotient = left // right
    return _like(quotient + (quotient * right != left), lhs)


@rule("arith.ceildivui")
def divide_ceiling_unsigned(lhs: Array, rhs: Array) -> Array:
    left, right = as_unsigned(lhs), as_unsigned(rhs)
    quotient = left // right
    return _like(quotient + (quotient * right != left), lhs)


@rule("arith.andi")
def bitwise_and(lhs: Array, rhs: Array) -> Array:
    for known, other in ((lhs, rhs), (rhs, lhs)):
        if known.dtype == np.bool_ and known.size == 1 and known.reshape(-1)[0]:
            return other
    return lhs & rhs


@rule("arith.ori")
def bitwise_or(lhs: Array, rhs: Array) -> Array:
    return lhs | rhs


@rule("arith.xori")
def bitwise_xor(lhs: Array, rhs: Array) -> Array:
    return lhs ^ rhs


def _shift(function: Callable[[Array, Array], Array], value: Array, amount: Array, overflow: Array) -> Array:
    """A shift; by the width or more it gives `overflow` (undefined in the IR)."""
    bits = 8 * value.itemsize
    count = as_unsigned(amount)
    if count.max() < bits:
        return function(value, count.astype(value.dtype))
    kept = np.minimum(count, bits - 1).astype(value.dtype)
    return np.where(count < bits, function(value, kept), overflow)


@rule("arith.shli")
def shift_left(lhs: Array, rhs: Array) -> Array:
    return _like(_shift(np.left_shift, as_unsigned(lhs), rhs, np.zeros_like(lhs)), lhs)


@rule("arith.shrui")
def shift_right_unsigned(lhs: Array, rhs: Array) -> Array:
    return _like(_shift(np.right_shift, as_unsigned(lhs), rhs, np.zeros_like(lhs)), lhs)


@rule("arith.shrsi")
def shift_right_signed(lhs: Array, rhs: Array) -> Array:
    left = as_signed(lhs)
    return _like(_shift(np.right_shift, left, rhs, (left < 0) * left.dtype.type(-1)), lhs)


@rule("arith.maxsi")
def maximum_signed(lhs: Array, rhs: Array) -> Array:
    return _like(np.maximum(as_signed(lhs), as_signed(rhs)), lhs)


@rule("arith.minsi")
def minimum_signed(lhs: Array, rhs: Array) -> Array:
    return _like(np.minimum(as_signed(lhs), as_signed(rhs)), lhs)


@rule("arith.maxui")
def maximum_unsigned(lhs: Array, rhs: Array) -> Array:
    return _like(np.maximum(as_unsigned(lhs), as_unsigned(rhs)), lhs)


@rule("arith.minui")
def minimum_unsigned(lhs: Array, rhs: Array) -> Array:
    return _like(np.minimum(as_unsigned(lhs), as_unsigned(rhs)), lhs)


SIGNED_PREDICATES: dict[str, Compare] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
}
UNSIGNED_PREDICATES: dict[str, Compare] = {
    "ult": np.less,
    "ule": np.less_equal,
    "ugt": np.greater,
    "uge": np.greater_equal,
}


@frame_rule("arith.cmpi", takes_lanes=True)
def compare_integer(frame: Frame, operation: Operation, lhs: Lanes, rhs: Lanes) -> Array:
    """A comparison; both sides are read as the predicate says."""
    predicate = str(operation.attributes["predicate"])
    if predicate in SIGNED_PREDICATES:
        known = _answer_from_bounds(predicate, lhs, rhs)
        if known is not None:
            return np.full((1,) * lhs.ndim, known)
        return SIGNED_PREDICATES[predicate](as_signed(spread_integers(lhs)), as_signed(spread_integers(rhs)))
    left, right = as_unsigned(spread_integers(lhs)), as_unsigned(spread_integers(rhs))
    return UNSIGNED_PREDICATES[predicate](left, right)


def _answer_from_bounds(predicate: str, lhs: Lanes, rhs: Lanes) -> bool | None:
    """The answer when it is the same in all lanes of a lane sum: most masks of most chunks."""
    if predicate in ("eq", "ne") or not (isinstance(lhs, LaneSum) or isinstance(rhs, LaneSum)):
        return None
    (left_low, left_high), (right_low, right_high) = bounds_of(lhs), bounds_of(rhs)
    compare: Any = SIGNED_PREDICATES[predicate]
    extremes = bool(compare(left_low, right_high)), bool(compare(left_high, right_low))
    return extremes[0] if extremes[0] == extremes[1] else None


@frame_rule("arith.addui_extended")
def add_extended(frame: Frame, operation: Operation, lhs: Array, rhs: Array) -> tuple[Array, Array]:
    """The wrapped sum and whether it overflowed."""
    left, right = as_unsigned(lhs), as_unsigned(rhs)
    total = left + right
    return _like(total, lhs), total < left


@rule("arith.mulsi_extended")
def multiply_extended_signed(lhs: Array, rhs: Array) -> tuple[Array, Array]:
    """The low and the high half of the signed product."""
    low = lhs * rhs
    return low, multiply_high(lhs, rhs, signed=True)


@rule("arith.mului_extended")
def multiply_extended_unsigned(lhs: Array, rhs: Array) -> tuple[Array, Array]:
    """The low and the high half of the unsigned product."""
    return lhs * rhs, multiply_high(lhs, rhs, signed=False)


@rule("tt.mulhiui")
def multiply_high_unsigned(lhs: Array, rhs: Array) -> Array:
    return multiply_high(lhs, rhs, signed=False)


def multiply_high(lhs: Array, rhs: Array, signed: bool) -> Array:
    """The upper half of a product of twice the width."""
    bits = 8 * lhs.itemsize
    if bits < 64:
        wide = (np.int64, as_signed) if signed else (np.uint64, as_unsigned)
        product = wide[1](lhs).astype(wide[0]) * wide[1](rhs).astype(wide[0])
        return (product >> wide[0](bits)).astype(lhs.dtype)
    high = _multiply_high_64(as_unsigned(lhs), as_unsigned(rhs)).view(np.int64)
    if signed:
        high = high - np.where(lhs < 0, rhs, 0) - np.where(rhs < 0, lhs, 0)
    return high


def _multiply_high_64(left: Array, right: Array) -> Array:
    """The upper 64 bits of a product of u64, by halves of 32 bits."""
    half, low = np.uint64(32), np.uint64(0xFFFF_FFFF)
    a, b, c, d = left >> half, left & low, right >> half, right & low
    middle = a * d + (b * d >> half)
    crossed = b * c + (middle & low)
    return a * c + (middle >> half) + (crossed >> half)
