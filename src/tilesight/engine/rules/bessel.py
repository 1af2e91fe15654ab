"""Bessel functions of orders 0 and 1, in f64.

Below ASYMPTOTIC_FROM they are Fourier coefficients of exp(x·cos t) and exp(i·x·sin t), which the trapezoidal
rule gives to the last bit; beyond it the asymptotic series are (DLMF 10.9, 10.8, 10.17 and 10.40).
"""

from __future__ import annotations

import numpy as np

from tilesight.engine.values import Array

ASYMPTOTIC_FROM = 25.0
"""Where the asymptotic series' smallest term, about exp(−2x), lies far below one unit in the last place."""

NODES = 128
"""The rule's error is the 127th coefficient, below 1e-70 for x under 25."""

TERMS = 24
_ANGLES = 2 * np.pi * np.arange(NODES) / NODES


def modified_bessel(order: int, x: Array) -> Array:
    """I₀ or I₁ of f64 lanes: even or odd, growing as exp(x)/√(2πx)."""
    size = np.abs(x)
    near, far = np.minimum(size, ASYMPTOTIC_FROM), np.maximum(size, ASYMPTOTIC_FROM)
    cosines = np.cos(_ANGLES)
    odd_or_even = np.sinh if order else np.cosh  # the half of exp that counts, exact for small x
    small = (odd_or_even(near[..., None] * cosines) * cosines**order).mean(-1)
    series = sum((-1) ** k * term for k, term in enumerate(_series(order, far)))
    # exp(x) in two halves, for x just under the overflow of the product
    large = np.exp(far / 2) * (series / np.sqrt(2 * np.pi * far)) * np.exp(far / 2)
    result = np.where(size < ASYMPTOTIC_FROM, small, np.where(np.isinf(size), np.inf, large))
    return np.where(np.isnan(x), x, np.copysign(result, x) if order else result)


def bessel_first(order: int, x: Array) -> Array:
    """J₀ or J₁ of f64 lanes: even or odd, 0 at infinity."""
    size = np.abs(x)
    sines = np.sin(_ANGLES)
    phase = np.minimum(size, ASYMPTOTIC_FROM)[..., None] * sines
    small = (np.sin(phase) * sines if order else np.cos(phase)).mean(-1)
    first, _ = _oscillation(order, np.maximum(size, ASYMPTOTIC_FROM))
    result = np.where(size < ASYMPTOTIC_FROM, small, first)
    return np.where(np.isnan(x), x, np.where(x < 0, -result, result) if order else result)


def bessel_second(order: int, x: Array) -> Array:
    """Y₀ or Y₁ of f64 lanes: −∞ at 0, NaN below it, 0 at infinity."""
    near = np.clip(x, np.finfo(np.float64).tiny, ASYMPTOTIC_FROM)
    _, second = _oscillation(order, np.maximum(x, ASYMPTOTIC_FROM))
    result = np.where(x < ASYMPTOTIC_FROM, _neumann(order, near), second)
    return np.where(np.isnan(x) | (x < 0), np.nan, np.where(x == 0, -np.inf, result))


def _series(order: int, x: Array) -> list[Array]:
    """aₖ(order)/xᵏ for k below TERMS, with aₖ = Π (4·order² − (2j − 1)²) / (k!·8ᵏ) (DLMF 10.17.1)."""
    terms = [np.ones_like(x)]
    for k in range(1, TERMS):
        terms.append(terms[-1] * (4 * order * order - (2 * k - 1) ** 2) / (8 * k * x))
    return terms


def _oscillation(order: int, x: Array) -> tuple[Array, Array]:
    """(J, Y) of large x (DLMF 10.17.3 and 10.17.4); 0 at infinity."""
    finite = np.where(np.isinf(x), 1.0, x)
    terms = _series(order, x)
    even = sum((-1) ** k * term for k, term in enumerate(terms[0::2]))
    odd = sum((-1) ** k * term for k, term in enumerate(terms[1::2]))
    # cos and sin of x − (order/2 + 1/4)π, without rounding the difference
    turn = np.pi / 4 + order * np.pi / 2
    cosine = np.cos(finite) * np.cos(turn) + np.sin(finite) * np.sin(turn)
    sine = np.sin(finite) * np.cos(turn) - np.cos(finite) * np.sin(turn)
    scale = np.where(np.isinf(x), 0.0, np.sqrt(2 / (np.pi * finite)))
    return scale * (even * cosine - odd * sine), scale * (even * sine + odd * cosine)


def _coefficients(x: Array) -> Array:
    """[…, n] Jₙ(x) for n below NODES / 2, the Fourier coefficients of exp(i·x·sin t)."""
    return np.fft.fft(np.exp(1j * x[..., None] * np.sin(_ANGLES)), axis=-1).real[..., : NODES // 2] / NODES


def _neumann(order: int, x: Array) -> Array:
    """Y₀, or Y₁ = −Y₀′, of 0 < x < ASYMPTOTIC_FROM, by Neumann's series in the J of higher orders (DLMF 10.8)."""
    first = _coefficients(x)
    k = np.arange(1, NODES // 4 - 1)
    weights = (-1.0) ** k / k
    logarithm = np.log(x / 2) + np.euler_gamma
    if order == 0:
        return 2 / np.pi * logarithm * first[..., 0] - 4 / np.pi * (first[..., 2 * k] * weights).sum(-1)
    tail = ((first[..., 2 * k - 1] - first[..., 2 * k + 1]) * weights).sum(-1)
    return 2 / np.pi * (logarithm * first[..., 1] - first[..., 0] / x + tail)
