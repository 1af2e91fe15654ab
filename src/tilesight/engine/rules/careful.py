"""Functions whose plain formulas lose digits: sin and cos of multiples of π, ln Γ near its zeros, erfc scaled."""

from __future__ import annotations

from functools import cache
from math import lgamma

import numpy as np
from numpy.typing import NDArray

from tilesight.engine.rules.special import erfc, lane_by_lane
from tilesight.engine.values import Array

EULER_GAMMA = 0.5772156649015329
SQRT_HALF = 0.7071067811865476
SQRT_HALF_REST = -4.833646656726457e-17
"""√½ − SQRT_HALF."""
LAST_ZETA = 40
ASYMPTOTIC_FROM = 12.0


def sine_of_pi(x: Array) -> Array:
    """sin(π·x) of f64: the nearest half is taken off first, which is exact."""
    quarter, rest = _reduce_to_quarters(x)
    sine, cosine = np.sin(np.pi * rest), np.cos(np.pi * rest)
    value = np.choose(quarter, [sine, cosine, -sine, -cosine])
    return np.where(np.isfinite(x), np.where(value == 0, np.copysign(0.0, x), value), np.nan)


def cosine_of_pi(x: Array) -> Array:
    """cos(π·x) of f64: the nearest half is taken off first, which is exact."""
    quarter, rest = _reduce_to_quarters(x)
    sine, cosine = np.sin(np.pi * rest), np.cos(np.pi * rest)
    value = np.choose(quarter, [cosine, -sine, -cosine, sine])
    return np.where(np.isfinite(x), value + 0.0, np.nan)


def _reduce_to_quarters(x: Array) -> tuple[Array, Array]:
    """x = 2·whole + quarter/2 + rest with |rest| ≤ ¼."""
    turn = np.fmod(np.where(np.isfinite(x), x, 0), 2.0)
    halves = np.rint(2 * turn)
    return halves.astype(np.int64) % 4, turn - halves / 2


def remainder_to_nearest(x: Array, y: Array) -> Array:
    """x − n·y with n the integer nearest to x/y, ties to even (IEEE 754 remainder); exact."""
    magnitude = np.abs(y)
    rest = np.fmod(np.abs(x), np.where(magnitude < 2.0**1022, 2 * magnitude, magnitude))
    over = 2 * rest > magnitude
    once = rest - magnitude
    rest = np.where(over, np.where(2 * once >= magnitude, once - magnitude, once), rest)
    signed = np.where(np.signbit(x), -rest, rest)
    return np.where(np.isinf(y) & np.isfinite(x), x, signed)


@cache
def _zeta_less_one() -> NDArray[np.float64]:
    """ζ(k) − 1 for 0 ≤ k ≤ LAST_ZETA (0 for k < 2), by Euler and Maclaurin's sum from 300 on."""
    found = np.zeros(LAST_ZETA + 1)
    last = 300.0
    for k in range(2, LAST_ZETA + 1):
        head = sum(n**-k for n in range(2, int(last)))
        tail = last ** (1 - k) / (k - 1) + last**-k / 2 + k * last ** (-k - 1) / 12
        tail -= k * (k + 1) * (k + 2) * last ** (-k - 3) / 720
        found[k] = head + tail
    return found


def log_gamma(x: Array) -> Array:
    """ln |Γ(x)| of f64; +∞ at the poles.

    Between ½ and 3½ by Taylor's series around 2, where the value vanishes, moved there by
    ln Γ(x + 1) = ln Γ(x) + ln x.
    Source: DLMF 5.7.3, 5.5.1
    """
    plain = lane_by_lane(_log_gamma)(x)
    near = (x > 0.5) & (x <= 3.5)
    if not near.any():
        return plain
    below, above = near & (x < 1.25), near & (x > 2.5)
    t = np.where(near, x - np.where(below, 1, np.where(above, 3, 2)), 0)
    total = np.zeros_like(t)
    for k in range(LAST_ZETA, 1, -1):
        total = (total + (-1) ** k * _zeta_less_one()[k] / k) * t
    total = (total + 1 - EULER_GAMMA) * t
    moved = total - np.where(below, np.log1p(t), 0) + np.where(above, np.log(2 + t), 0)
    return np.where(near, moved, plain)


def _log_gamma(x: float) -> float:
    try:
        return np.inf if np.isinf(x) or (x <= 0 and x == int(x)) else lgamma(x)
    except OverflowError:
        return np.inf


def scaled_erfc(x: Array) -> Array:
    """exp(x²)·erfc(x) of f64, from 12 on by its asymptotic series.

    Source: DLMF 7.12.1
    """
    large = x > ASYMPTOTIC_FROM
    kept = np.where(large, 0.0, x)
    high = kept.astype(np.float32).astype(np.float64)
    direct = np.exp(high * high) * np.exp((kept - high) * (kept + high)) * erfc(kept)
    far = np.where(large, x, ASYMPTOTIC_FROM)
    total = np.ones_like(far)
    for n in range(9, 0, -1):
        total = 1 - (2 * n - 1) / (2 * far * far) * total
    return np.where(large, total / (far * np.sqrt(np.pi)), direct)


def normal_distribution(x: Array) -> Array:
    """The standard normal distribution of f64, ½·erfc(−x/√2), with x/√2 to twice the digits."""
    t = -x * SQRT_HALF
    high, constant = _high_bits(x), _high_bits(np.array(SQRT_HALF))
    product_error = (high * constant + t) + high * (SQRT_HALF - constant) + (x - high) * constant
    product_error += (x - high) * (SQRT_HALF - constant)
    rest = -(product_error + x * SQRT_HALF_REST)
    correction = np.where(np.isfinite(x), rest * 2 / np.sqrt(np.pi) * np.exp(-t * t), 0)
    return 0.5 * (erfc(t) - correction)


def _high_bits(x: Array) -> Array:
    """The upper 26 bits of the mantissa, so that products of two such are exact."""
    return (x.view(np.int64) & np.int64(-1 << 27)).view(np.float64)
