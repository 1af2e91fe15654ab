"""libdevice's functions that round toward zero, down or up, such as `__nv_fdiv_rz`.

The nearest result is moved one unit in the last place where the exact one lies on its other side.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np

from tilesight.engine.floats import cast_float
from tilesight.engine.rules.arith_integer import as_unsigned
from tilesight.engine.rules.special import fused_multiply_add
from tilesight.engine.values import Array, Mask

AnyFunction = Callable[..., Array]

_to_fractions = np.frompyfunc(Fraction, 1, 1)


def _exact(x: Array) -> Array:
    """Numbers whose products are exact: f32 as f64, everything else as fractions."""
    return x.astype(np.float64) if x.dtype == np.float32 else _fractions(x)


def _fractions(x: Array) -> Array:
    """Rational numbers, 0 where not finite."""
    return np.asarray(_to_fractions(np.where(np.isfinite(x), x, np.zeros_like(x))))


def _sum_and_error(x: Array, y: Array) -> tuple[Array, Array]:
    """The rounded sum and what rounding left out (Knuth's two-sum); nothing for fractions."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _beyond_sum(r: Array, x: Array, y: Array) -> Array:
    total, error = _sum_and_error(x, y)
    return (total - r) + error


def _beyond_difference(r: Array, x: Array, y: Array) -> Array:
    return _beyond_sum(r, x, -y)


def _beyond_product(r: Array, x: Array, y: Array) -> Array:
    return x * y - r


def _beyond_quotient(r: Array, x: Array, y: Array) -> Array:
    return (x - r * y) * np.where(y < 0, -1, 1)


def _beyond_reciprocal(r: Array, x: Array) -> Array:
    return _beyond_quotient(r, x * 0 + 1, x)


def _beyond_root(r: Array, x: Array) -> Array:
    return x - r * r


def _beyond_fused(r: Array, x: Array, y: Array, z: Array) -> Array:
    return _beyond_sum(r, x * y, z)


OPERATIONS: dict[str, tuple[AnyFunction, AnyFunction]] = {
    "add": (np.add, _beyond_sum),
    "sub": (np.subtract, _beyond_difference),
    "mul": (np.multiply, _beyond_product),
    "div": (np.divide, _beyond_quotient),
    "rcp": (np.reciprocal, _beyond_reciprocal),
    "sqrt": (np.sqrt, _beyond_root),
    "fma": (fused_multiply_add, _beyond_fused),
}
"""The function to nearest, and how far the exact result lies beyond a result, up to a positive factor."""


def _move(nearest: Array, beyond: Array, mode: str) -> Array:
    """The result in the wanted direction; `beyond` tells on which side of the nearest the exact one lies."""
    above = np.where(np.isinf(nearest), nearest < 0, np.asarray(beyond > 0, np.bool_))
    below = np.where(np.isinf(nearest), nearest > 0, np.asarray(beyond < 0, np.bool_))
    infinity = np.array(np.inf, nearest.dtype)
    if mode == "rd":
        return np.where(below, np.nextafter(nearest, -infinity), nearest)
    if mode == "ru":
        return np.where(above, np.nextafter(nearest, infinity), nearest)
    too_far = (below & (nearest > 0)) | (above & (nearest < 0))
    return np.where(too_far, np.nextafter(nearest, np.zeros_like(nearest)), nearest)


def _cancels_to_minus_zero(name: str, nearest: Array, operands: tuple[Array, ...]) -> Mask:
    """Sums of opposite numbers: −0 when rounding down (IEEE 754-2019 §6.3)."""
    if name not in ("add", "sub", "fma"):
        return np.zeros((1,) * nearest.ndim, np.bool_)
    *factors, last = operands
    negative = np.signbit(factors[0]) if len(factors) == 1 else np.signbit(factors[0]) ^ np.signbit(factors[1])
    return (nearest == 0) & (negative != (np.signbit(last) ^ (name == "sub")))


def _directed(name: str, mode: str) -> AnyFunction:
    """One operation in one direction; results that are exact infinities or NaN stay as they are."""
    function, beyond = OPERATIONS[name]

    def rounded(*operands: Array) -> Array:
        nearest = function(*operands)
        moved = _move(nearest, beyond(_exact(nearest), *map(_exact, operands)), mode)
        finite = reduce(np.logical_and, [np.isfinite(operand) for operand in operands])
        if name in ("div", "rcp"):
            finite = finite & (operands[-1] != 0)
        result = np.where(finite & ~np.isnan(nearest), moved, nearest)
        if mode == "rd":
            result = np.where(_cancels_to_minus_zero(name, result, operands) & finite, -np.zeros_like(result), result)
        return result

    return rounded


def _symbol(name: str, kind: str, mode: str) -> str:
    return f"__nv_fma{kind.replace('d', '')}_{mode}" if name == "fma" else f"__nv_{kind}{name}_{mode}"


DIRECTED: dict[str, AnyFunction] = {
    _symbol(name, kind, mode): _directed(name, mode)
    for name in OPERATIONS
    for kind in ("f", "d")
    for mode in ("rd", "ru", "rz")
}
CONVERSIONS: dict[str, tuple[bool, str]] = {
    f"__nv_{source}2{target}_{mode}": (source.startswith("u"), mode)
    for source, targets in {
        "double": ("float",),
        "int": ("float",),
        "uint": ("float",),
        "ll": ("float", "double"),
        "ull": ("float", "double"),
    }.items()
    for target in targets
    for mode in ("rd", "ru", "rz")
}
"""Conversions to a narrower float: whether the source is unsigned, and the direction."""


def convert(symbol: str, source: Array, dtype: np.dtype[Any]) -> Array:
    """An integer or an f64 as a float of `dtype`, rounded as the symbol says."""
    unsigned, mode = CONVERSIONS[symbol]
    source = as_unsigned(source) if unsigned else source
    nearest = cast_float(source, dtype) if source.dtype.kind == "f" else source.astype(dtype)
    beyond = _fractions(source) - _fractions(nearest)
    moved = _move(nearest, beyond, mode)
    return np.where(np.isfinite(source), moved, nearest).astype(dtype)
