"""math: elementwise functions, computed in f32 for narrower types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilesight.engine.floats import compute, compute_wide, pick
from tilesight.engine.registry import rule
from tilesight.engine.rules.special import erf, erfc, fused_multiply_add, logarithm, reciprocal_sqrt, round_half_away
from tilesight.engine.values import Array


def through_double(function: Callable[..., Array]) -> Callable[..., Array]:
    """The function computed in f64 and rounded once: NumPy's own f32 loops differ with its version and the CPU."""

    def apply(*operands: Array) -> Array:
        wide = [operand.astype(np.float64) for operand in operands]
        with np.errstate(all="ignore"):
            return function(*wide).astype(operands[0].dtype)

    return apply


LOG2_E = np.float32(1.4426950408889634)

UNARY: dict[str, Callable[[Array], Array]] = {
    "acos": through_double(np.arccos),
    "acosh": through_double(np.arccosh),
    "asin": through_double(np.arcsin),
    "asinh": through_double(np.arcsinh),
    "atan": through_double(np.arctan),
    "atanh": through_double(np.arctanh),
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": through_double(np.cosh),
    "erf": erf,
    "erfc": erfc,
    "exp": through_double(np.exp),
    "exp2": through_double(np.exp2),
    "expm1": through_double(np.expm1),
    "floor": np.floor,
    "log": logarithm,
    "log10": np.log10,
    "log1p": through_double(np.log1p),
    "log2": np.log2,
    "round": round_half_away,
    "roundeven": np.rint,
    "rsqrt": reciprocal_sqrt,
    "sin": np.sin,
    "sinh": through_double(np.sinh),
    "sqrt": np.sqrt,
    "tan": through_double(np.tan),
    "tanh": np.tanh,
    "trunc": np.trunc,
}
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "atan2": through_double(np.arctan2),
    "copysign": np.copysign,
    "powf": np.power,
}


def _register_unary(name: str, function: Callable[[Array], Array]) -> None:
    @rule(f"math.{name}")
    def apply(operand: Array) -> Array:
        return compute_wide(function, operand)


def _register_binary(name: str, function: Callable[[Array, Array], Array]) -> None:
    @rule(f"math.{name}")
    def apply(lhs: Array, rhs: Array) -> Array:
        return compute_wide(function, lhs, rhs)


for _name, _unary in UNARY.items():
    if _name != "exp":
        _register_unary(_name, _unary)
for _name, _binary in BINARY.items():
    _register_binary(_name, _binary)


def exponential_by_powers_of_two(x: Array) -> Array:
    """2^(x·log₂e) with the product rounded to f32: |x|/2 units in the last place from eˣ, as on the GPU.

    Source: Triton's lowering of math.exp to PTX `ex2.approx.f32` (ElementwiseOpToLLVM.cpp)
    """
    return UNARY["exp2"](x * LOG2_E)


@rule("math.exp")
def exponential(operand: Array) -> Array:
    if operand.dtype == np.float32:
        return exponential_by_powers_of_two(operand)
    return compute_wide(UNARY["exp"], operand)


@rule("tt.precise_sqrt")
def square_root(operand: Array) -> Array:
    return compute_wide(np.sqrt, operand)


@rule("math.absf")
def absolute_float(operand: Array) -> Array:
    return pick(np.abs, operand)


@rule("math.absi")
def absolute_integer(operand: Array) -> Array:
    """|x|; the lowest integer wraps around to itself."""
    return np.abs(operand)


@rule("math.fma")
def multiply_add(a: Array, b: Array, c: Array) -> Array:
    """a·b + c with one rounding."""
    return compute_wide(fused_multiply_add, a, b, c)


@rule("math.isnan")
def is_nan(operand: Array) -> Array:
    return compute(np.isnan, operand)


@rule("math.isinf")
def is_infinite(operand: Array) -> Array:
    return compute(np.isinf, operand)


@rule("math.isfinite")
def is_finite(operand: Array) -> Array:
    return compute(np.isfinite, operand)


def _unsigned(operand: Array) -> Array:
    return operand.view(f"u{operand.itemsize}")


@rule("math.ctpop")
def count_ones(operand: Array) -> Array:
    return np.bitwise_count(_unsigned(operand)).astype(operand.dtype)


@rule("math.cttz")
def count_trailing_zeros(operand: Array) -> Array:
    """Zeros below the lowest set bit; the width for 0."""
    bits = _unsigned(operand)
    one = bits.dtype.type(1)
    return np.bitwise_count(~bits & (bits - one)).astype(operand.dtype)


@rule("math.ctlz")
def count_leading_zeros(operand: Array) -> Array:
    """Zeros above the highest set bit; the width for 0."""
    bits = _unsigned(operand)
    shift = 1
    while shift < 8 * operand.itemsize:
        bits = bits | bits >> bits.dtype.type(shift)
        shift *= 2
    return (8 * operand.itemsize - np.bitwise_count(bits).astype(np.int64)).astype(operand.dtype)


@rule("math.ipowi")
def power_integer(lhs: Array, rhs: Array) -> Array:
    """Integer power, wrapped around; a negative exponent leaves ±1 or 0."""
    positive: Any = np.power(lhs, np.maximum(rhs, 0))
    odd = (rhs & 1).astype(np.bool_)
    negative = np.where(lhs == 1, 1, np.where(lhs == -1, np.where(odd, -1, 1), 0)).astype(lhs.dtype)
    return np.where(rhs >= 0, positive, negative)


@rule("math.fpowi")
def power_of_integer(lhs: Array, rhs: Array) -> Array:
    def power(base: Array) -> Array:
        return np.power(base, rhs.astype(base.dtype))

    return compute_wide(power, lhs)
