"""Functions that NumPy lacks: erf, its kin and their inverses, fused multiply-add, rounding half away, 1/√x."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import copysign, exp, factorial, gamma, pi, sqrt
from math import erf as exact_erf
from math import erfc as exact_erfc
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from tilesight.engine.values import Array

NODES_PER_UNIT = 64
LAST_NODE = 6 * NODES_PER_UNIT
TERMS = {4: 5, 8: 9}


@cache
def _erf_table() -> NDArray[np.float64]:
    """Taylor coefficients of erf at k/64 for 0 ≤ k ≤ 384, one row an order.

    erf⁽ⁿ⁺¹⁾(x) = 2/√π · (−1)ⁿ · Hₙ(x) · exp(−x²) with the physicists' Hermite polynomials.
    """
    table = np.zeros((max(TERMS.values()), LAST_NODE + 1))
    for node in range(LAST_NODE + 1):
        x = node / NODES_PER_UNIT
        table[0, node] = exact_erf(x)
        hermite = [1.0, 2 * x]
        for order in range(1, len(table)):
            n = order - 1
            if n >= 2:
                hermite.append(2 * x * hermite[n - 1] - 2 * (n - 1) * hermite[n - 2])
            derivative = 2 / sqrt(pi) * (-1) ** n * hermite[n] * exp(-x * x)
            table[order, node] = derivative / factorial(order)
    return table


def erf(x: Array) -> Array:
    """The error function, right to one unit in the last place of f32 or a few of f64.

    Taylor polynomials around nodes 1/64 apart, in f64; from 6 on it is 1 to the last bit.
    """
    magnitude = np.minimum(np.abs(x.astype(np.float64)), 6.0)
    scaled = np.rint(magnitude * NODES_PER_UNIT)
    step = magnitude - scaled / NODES_PER_UNIT
    node = np.where(np.isnan(scaled), 0, scaled).astype(np.int64)
    table = _erf_table()
    terms = TERMS[x.dtype.itemsize]
    total = table[terms - 1].take(node)
    for order in reversed(range(terms - 1)):
        total *= step
        total += table[order].take(node)
    return np.copysign(total, x).astype(x.dtype)


def lane_by_lane(function: Callable[[float], float]) -> Callable[[Array], Array]:
    """A function of Python floats, lane by lane; slow, for functions that kernels rarely use."""

    def apply(x: Array) -> Array:
        results = [function(float(lane)) for lane in x.reshape(-1)]
        return np.array(results, np.float64).reshape(x.shape).astype(x.dtype)

    return apply


def _gamma(x: float) -> float:
    if x == 0:
        return float(np.copysign(np.inf, x))
    if x == -np.inf or (x < 0 and x == int(x)):
        return np.nan
    try:
        return gamma(x)
    except OverflowError:
        return np.inf


def _inverse_normal(p: float) -> float:
    """The standard normal distribution's quantile; ∓∞ at 0 and 1."""
    if 0 < p < 1:
        return NormalDist().inv_cdf(p)
    return {0.0: -np.inf, 1.0: np.inf}.get(p, np.nan)


def _inverse_erf(x: float) -> float:
    """From the tail that x leaves, or near 0, where that cancels, by the series (DLMF 7.17.2)."""
    if abs(x) < 1e-3:
        t = x * sqrt(pi) / 2
        return t * (1 + t * t * (1 / 3 + t * t * 7 / 30))
    return copysign(-_inverse_normal((1 - abs(x)) / 2) / sqrt(2), x)


def _inverse_erfc(x: float) -> float:
    return _inverse_erf(1 - x) if 0.5 < x < 1.5 else -_inverse_normal(x / 2) / sqrt(2)


inverse_normal = lane_by_lane(_inverse_normal)
inverse_erf = lane_by_lane(_inverse_erf)
inverse_erfc = lane_by_lane(_inverse_erfc)
erfc = lane_by_lane(exact_erfc)
gamma_function = lane_by_lane(_gamma)


def logarithm(x: Array) -> Array:
    """ln x; in f64, because NumPy's own f32 logarithm is up to 3 units in the last place off."""
    return np.log(x.astype(np.float64)).astype(x.dtype)


def reciprocal_sqrt(x: Array) -> Array:
    """1/√x with one rounding for f32."""
    return (1 / np.sqrt(x.astype(np.float64))).astype(x.dtype)


def round_half_away(x: Array) -> Array:
    """To the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(x.dtype.type(1), x), whole)


def fused_multiply_add(a: Array, b: Array, c: Array) -> Array:
    """a·b + c with one rounding: exact for f32 (round to odd in f64, then to f32).

    f64 goes through 80-bit floats, which leaves a second rounding in rare cases.
    """
    if a.dtype == np.float64:
        return (a.astype(np.longdouble) * b.astype(np.longdouble) + c.astype(np.longdouble)).astype(np.float64)
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = product + addend
    moved = total - product
    error = (product - (total - moved)) + (addend - moved)
    return _to_odd(total, error).astype(a.dtype)


def _to_odd(total: Array, error: Array) -> Array:
    """An inexact sum with its last bit set, on the side of the exact value."""
    inexact = (error != 0) & np.isfinite(total)
    if not inexact.any():
        return total
    even = (total.view(np.int64) & 1) == 0
    away_from_zero = (error > 0) == (total > 0)
    step = np.where(away_from_zero, np.int64(1), np.int64(-1))
    return np.where(inexact & even, total.view(np.int64) + step, total.view(np.int64)).view(np.float64)
