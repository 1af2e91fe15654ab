"""arith: constants, selection, float arithmetic; integers and casts are in arith_*.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilesight.engine.floats import compute, pick
from tilesight.engine.frame import Frame
from tilesight.engine.registry import frame_rule, rule
from tilesight.engine.rules import arith_cast, arith_integer
from tilesight.engine.values import Array, choose, dtype_of, rank_of
from tilesight.ir.module import DenseElements, Operation
from tilesight.ir.types import block_shape

__all__ = ["arith_cast", "arith_integer"]

Compare = Callable[[Array, Array], Array]


@frame_rule("arith.constant")
def constant(frame: Frame, operation: Operation) -> Array:
    """A scalar, or a block that varies only if its elements are listed one by one."""
    type_ = operation.results[0].type
    value = operation.attributes["value"]
    shape = block_shape(type_)
    if isinstance(value, DenseElements):
        elements = _as_array(value.values, dtype_of(type_))
        return elements.reshape((1,) * (1 + len(shape)) if value.is_splat else (1, *shape))
    assert isinstance(value, int | float)
    return _as_array((value,), dtype_of(type_)).reshape((1,) * (1 + len(shape)))


def _as_array(values: tuple[int | float, ...], dtype: np.dtype[Any]) -> Array:
    """Numbers as a dtype; integers are taken modulo its range, so 255 : i8 is -1."""
    if dtype == np.bool_:
        return np.array([bool(value) for value in values])
    if dtype.kind == "i":
        unsigned = [int(value) % (1 << 8 * dtype.itemsize) for value in values]
        return np.array(unsigned, f"u{dtype.itemsize}").view(dtype)
    return np.array(values, np.float64).astype(dtype)


@rule("arith.select")
def select(condition: Array, true_value: Any, false_value: Any) -> Any:
    if condition.ndim == 1 and (rank := rank_of(true_value)) > 1:
        condition = condition.reshape(-1, *(1,) * (rank - 1))
    return choose(condition, true_value, false_value)


@rule("arith.addf")
def add_float(lhs: Array, rhs: Array) -> Array:
    return compute(np.add, lhs, rhs)


@rule("arith.subf")
def subtract_float(lhs: Array, rhs: Array) -> Array:
    return compute(np.subtract, lhs, rhs)


@rule("arith.mulf")
def multiply_float(lhs: Array, rhs: Array) -> Array:
    return compute(np.multiply, lhs, rhs)


@rule("arith.divf", "tt.precise_divf")
def divide_float(lhs: Array, rhs: Array) -> Array:
    return compute(np.divide, lhs, rhs)


@rule("arith.remf")
def remainder_float(lhs: Array, rhs: Array) -> Array:
    """The remainder with the dividend's sign."""
    return compute(np.fmod, lhs, rhs)


@rule("arith.negf")
def negate_float(operand: Array) -> Array:
    return pick(np.negative, operand)


@rule("arith.maxnumf")
def maximum_number(lhs: Array, rhs: Array) -> Array:
    """The larger; a NaN gives way to a number."""
    return pick(np.fmax, lhs, rhs)


@rule("arith.minnumf")
def minimum_number(lhs: Array, rhs: Array) -> Array:
    """The smaller; a NaN gives way to a number."""
    return pick(np.fmin, lhs, rhs)


@rule("arith.maximumf")
def maximum_or_nan(lhs: Array, rhs: Array) -> Array:
    """The larger, −0 below +0; NaN if either is."""
    return pick(_maximum_signed_zero, lhs, rhs)


@rule("arith.minimumf")
def minimum_or_nan(lhs: Array, rhs: Array) -> Array:
    """The smaller, −0 below +0; NaN if either is."""
    return pick(_minimum_signed_zero, lhs, rhs)


def _maximum_signed_zero(lhs: Array, rhs: Array) -> Array:
    """np.maximum, whose choice between −0 and +0 is not defined, with +0 chosen."""
    largest = np.maximum(lhs, rhs)
    zero = largest == 0
    if not zero.any():
        return largest
    return np.where(zero & (lhs == rhs), lhs + rhs, largest)


def _minimum_signed_zero(lhs: Array, rhs: Array) -> Array:
    return -_maximum_signed_zero(-lhs, -rhs)


def _is_less_or_greater(lhs: Array, rhs: Array) -> Array:
    return (lhs < rhs) | (lhs > rhs)


def _is_unordered(lhs: Array, rhs: Array) -> Array:
    return np.isnan(lhs) | np.isnan(rhs)


def _negated(compare: Compare) -> Compare:
    return lambda lhs, rhs: ~compare(lhs, rhs)


def _always(answer: bool) -> Compare:
    return lambda lhs, rhs: np.full((1,) * lhs.ndim, answer)


FLOAT_PREDICATES: dict[str, Compare] = {
    "false": _always(False),
    "oeq": np.equal,
    "ogt": np.greater,
    "oge": np.greater_equal,
    "olt": np.less,
    "ole": np.less_equal,
    "one": _is_less_or_greater,
    "ord": _negated(_is_unordered),
    "ueq": _negated(_is_less_or_greater),
    "ugt": _negated(np.less_equal),
    "uge": _negated(np.less),
    "ult": _negated(np.greater_equal),
    "ule": _negated(np.greater),
    "une": np.not_equal,
    "uno": _is_unordered,
    "true": _always(True),
}


@frame_rule("arith.cmpf")
def compare_float(frame: Frame, operation: Operation, lhs: Array, rhs: Array) -> Array:
    """A comparison; `o…` is false and `u…` true where either side is NaN."""
    return compute(FLOAT_PREDICATES[str(operation.attributes["predicate"])], lhs, rhs)
