"""tt.extern_elementwise: NVIDIA's libdevice functions by symbol, such as `__nv_rsqrtf`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from tilesight.engine.frame import Frame
from tilesight.engine.registry import frame_rule, unsupported
from tilesight.engine.rules import math as math_rules
from tilesight.engine.rules.arith_cast import saturate_to_integer
from tilesight.engine.rules.arith_integer import as_unsigned, multiply_high
from tilesight.engine.rules.bessel import bessel_first, bessel_second, modified_bessel
from tilesight.engine.rules.careful import (
    cosine_of_pi,
    log_gamma,
    normal_distribution,
    remainder_to_nearest,
    scaled_erfc,
    sine_of_pi,
)
from tilesight.engine.rules.directed import CONVERSIONS, DIRECTED, convert
from tilesight.engine.rules.special import (
    erf,
    erfc,
    fused_multiply_add,
    gamma_function,
    inverse_erf,
    inverse_erfc,
    inverse_normal,
    reciprocal_sqrt,
    round_half_away,
)
from tilesight.engine.values import Array, dtype_of
from tilesight.errors import UnsupportedError
from tilesight.ir.module import Operation

Unary = Callable[[Array], Array]
Binary = Callable[[Array, Array], Array]
AnyFunction = Callable[..., Array]


def _in_float64(function: Unary) -> Unary:
    """Computed in f64 and rounded once."""
    return lambda x: function(x.astype(np.float64)).astype(x.dtype)


def _in_float64_of_two(function: Binary) -> Binary:
    """Computed in f64 and rounded once."""
    return lambda x, y: function(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)


def _log_of_exponent(x: Array) -> Array:
    """The exponent of x as a float; −inf for 0, +inf for ±inf."""
    exponent = np.frexp(x)[1].astype(x.dtype) - 1
    return np.where(x == 0, -np.inf, np.where(np.isinf(x), np.inf, np.where(np.isnan(x), x, exponent))).astype(x.dtype)


def _positive_difference(x: Array, y: Array) -> Array:
    return np.where(np.isnan(x) | np.isnan(y), x + y, np.where(x > y, x - y, 0)).astype(x.dtype)


def _integer_power(x: Array, n: Array) -> Array:
    return np.power(x.astype(np.float64), n.astype(np.float64)).astype(x.dtype)


def _scale_by_power(x: Array, n: Array) -> Array:
    return np.ldexp(x, n.astype(np.int32))


def _norm(*parts: Array) -> Array:
    """√(x² + y² + …) without overflow on the way, computed in f64."""
    return reduce(np.hypot, (part.astype(np.float64) for part in parts)).astype(parts[0].dtype)


def _reciprocal_norm(*parts: Array) -> Array:
    return (1 / reduce(np.hypot, (part.astype(np.float64) for part in parts))).astype(parts[0].dtype)


FLOAT_UNARY: dict[str, Unary] = {
    **math_rules.UNARY,
    "cyl_bessel_i0": _in_float64(partial(modified_bessel, 0)),
    "cyl_bessel_i1": _in_float64(partial(modified_bessel, 1)),
    "cospi": _in_float64(cosine_of_pi),
    "erf": erf,
    "erfc": erfc,
    "erfcinv": inverse_erfc,
    "erfcx": _in_float64(scaled_erfc),
    "erfinv": inverse_erf,
    "exp10": _in_float64(lambda x: np.power(10.0, x)),
    "fabs": np.abs,
    "j0": _in_float64(partial(bessel_first, 0)),
    "j1": _in_float64(partial(bessel_first, 1)),
    "lgamma": _in_float64(log_gamma),
    "logb": _log_of_exponent,
    "nearbyint": np.rint,
    "normcdf": _in_float64(normal_distribution),
    "normcdfinv": inverse_normal,
    "rcbrt": _in_float64(lambda x: 1 / np.cbrt(x)),
    "rint": np.rint,
    "round": round_half_away,
    "rsqrt": reciprocal_sqrt,
    "sinpi": _in_float64(sine_of_pi),
    "tgamma": gamma_function,
    "y0": _in_float64(partial(bessel_second, 0)),
    "y1": _in_float64(partial(bessel_second, 1)),
}
FLOAT_BINARY: dict[str, Binary] = {
    **math_rules.BINARY,
    "fdim": _positive_difference,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "ldexp": _scale_by_power,
    "nextafter": np.nextafter,
    "pow": np.power,
    "powi": _integer_power,
    "remainder": _in_float64_of_two(remainder_to_nearest),
    "rhypot": _in_float64_of_two(lambda x, y: 1 / np.hypot(x, y)),
    "scalbn": _scale_by_power,
}
FLOAT_FUNCTIONS: dict[str, AnyFunction] = {
    **FLOAT_UNARY,
    **FLOAT_BINARY,
    "fma": fused_multiply_add,
    "norm3d": _norm,
    "norm4d": _norm,
    "rnorm3d": _reciprocal_norm,
    "rnorm4d": _reciprocal_norm,
}
"""Each is `__nv_<name>` for f64 and `__nv_<name>f` for f32."""


def _find_first_set(x: Array) -> Array:
    """The position of the lowest set bit, counted from 1; 0 for 0."""
    return np.where(x == 0, 0, math_rules.count_trailing_zeros(x) + 1).astype(np.int32)


def _reverse_bits(x: Array) -> Array:
    bits = np.unpackbits(np.ascontiguousarray(x)[..., None].view(np.uint8), axis=-1, bitorder="little")
    return np.packbits(bits[..., ::-1], axis=-1, bitorder="little").view(x.dtype)[..., 0]


def _wide(x: Array, signed: bool) -> Array:
    return (x if signed else as_unsigned(x)).astype(np.int64)


def _average(signed: bool, rounding: int) -> Binary:
    """(x + y + rounding) >> 1 without overflow."""
    return lambda x, y: (_wide(x, signed) + _wide(y, signed) + rounding >> 1).astype(np.int32)


def _low_24_bits(x: Array) -> Array:
    return x << np.int32(8) >> np.int32(8)


def _multiply_low_24_bits(x: Array, y: Array) -> Array:
    return _low_24_bits(x) * _low_24_bits(y)


def _exponent(x: Array) -> Array:
    """The exponent of x as an integer; the lowest i32 for 0 and NaN, the highest for ±inf (CUDA's ilogb)."""
    limits = np.iinfo(np.int32)
    return np.where(np.isinf(x), limits.max, np.where((x == 0) | np.isnan(x), limits.min, np.frexp(x)[1] - 1))


def _saturate(x: Array) -> Array:
    """Clamped to [0, 1]; NaN gives 0."""
    return np.where(np.isnan(x), 0, np.clip(x, 0, 1)).astype(x.dtype)


def _high_word(x: Array) -> Array:
    return (x.view(np.int64) >> 32).astype(np.int32)


def _low_word(x: Array) -> Array:
    return x.view(np.int64).astype(np.int32)


def _bits_as(dtype: type[np.generic]) -> Unary:
    return lambda x: x.view(dtype)


def _multiply_high_of(signed: bool) -> Binary:
    return lambda x, y: multiply_high(x, y, signed)


SYMBOLS: dict[str, AnyFunction] = {
    "__nv_abs": np.abs,
    "__nv_llabs": np.abs,
    "__nv_brev": _reverse_bits,
    "__nv_brevll": _reverse_bits,
    "__nv_clz": math_rules.count_leading_zeros,
    "__nv_clzll": math_rules.count_leading_zeros,
    "__nv_ffs": _find_first_set,
    "__nv_ffsll": _find_first_set,
    "__nv_popc": math_rules.count_ones,
    "__nv_popcll": math_rules.count_ones,
    "__nv_mulhi": _multiply_high_of(signed=True),
    "__nv_umulhi": _multiply_high_of(signed=False),
    "__nv_mul64hi": _multiply_high_of(signed=True),
    "__nv_umul64hi": _multiply_high_of(signed=False),
    "__nv_mul24": _multiply_low_24_bits,
    "__nv_hadd": _average(signed=True, rounding=0),
    "__nv_rhadd": _average(signed=True, rounding=1),
    "__nv_uhadd": _average(signed=False, rounding=0),
    "__nv_urhadd": _average(signed=False, rounding=1),
    "__nv_finitef": np.isfinite,
    "__nv_isfinited": np.isfinite,
    "__nv_isinff": np.isinf,
    "__nv_isinfd": np.isinf,
    "__nv_isnanf": np.isnan,
    "__nv_isnand": np.isnan,
    "__nv_signbitf": np.signbit,
    "__nv_signbitd": np.signbit,
    "__nv_ilogb": _exponent,
    "__nv_ilogbf": _exponent,
    "__nv_saturatef": _saturate,
    "__nv_fast_cosf": np.cos,
    "__nv_fast_exp10f": FLOAT_FUNCTIONS["exp10"],
    "__nv_fast_expf": math_rules.exponential_by_powers_of_two,
    "__nv_fast_fdividef": np.divide,
    "__nv_fast_log10f": np.log10,
    "__nv_fast_log2f": np.log2,
    "__nv_fast_logf": math_rules.UNARY["log"],
    "__nv_fast_powf": np.power,
    "__nv_fast_sinf": np.sin,
    "__nv_fast_tanf": np.tan,
    "__nv_fast_tanhf": np.tanh,
    "__nv_frsqrt_rn": reciprocal_sqrt,
    "__nv_fma_rn": fused_multiply_add,
    "__nv_fmaf_rn": fused_multiply_add,
    "__nv_float_as_int": _bits_as(np.int32),
    "__nv_float_as_uint": _bits_as(np.int32),
    "__nv_int_as_float": _bits_as(np.float32),
    "__nv_uint_as_float": _bits_as(np.float32),
    "__nv_double_as_longlong": _bits_as(np.int64),
    "__nv_longlong_as_double": _bits_as(np.float64),
    "__nv_double2hiint": _high_word,
    "__nv_double2loint": _low_word,
    **{f"__nv_{kind}add_rn": np.add for kind in "fd"},
    **{f"__nv_{kind}sub_rn": np.subtract for kind in "fd"},
    **{f"__nv_{kind}mul_rn": np.multiply for kind in "fd"},
    **{f"__nv_{kind}div_rn": np.divide for kind in "fd"},
    **{f"__nv_{kind}sqrt_rn": np.sqrt for kind in "fd"},
    **{f"__nv_{kind}rcp_rn": np.reciprocal for kind in "fd"},
    **{f"__nv_{name}": function for name, function in FLOAT_FUNCTIONS.items()},
    **{f"__nv_{name}f": function for name, function in FLOAT_FUNCTIONS.items()},
}
ROUNDINGS: dict[str, Unary] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
TO_SIGNED: dict[str, Unary] = {
    f"__nv_{name}2{kind}_{mode}": function
    for name in ("float", "double")
    for kind in ("int", "ll")
    for mode, function in ROUNDINGS.items()
} | {
    "__nv_llrint": np.rint,
    "__nv_llrintf": np.rint,
    "__nv_llround": round_half_away,
    "__nv_llroundf": round_half_away,
}
TO_UNSIGNED: dict[str, Unary] = {
    f"__nv_{name}2{kind}_{mode}": function
    for name in ("float", "double")
    for kind in ("uint", "ull")
    for mode, function in ROUNDINGS.items()
}
FROM_SIGNED = frozenset(f"__nv_{name}_rn" for name in ("int2float", "int2double", "ll2float", "ll2double"))
FROM_UNSIGNED = frozenset(f"__nv_u{name}_rn" for name in ("int2float", "int2double", "ll2float", "ll2double"))


def call_symbol(symbol: str, operands: tuple[Array, ...], dtype: np.dtype[Any]) -> Array:
    """The result of a libdevice function, in the dtype that the operation declares.

    Raises: UnsupportedError: no function of that name is known
    """
    if symbol in SYMBOLS:
        return SYMBOLS[symbol](*operands).astype(dtype, copy=False)
    if symbol in DIRECTED:
        return DIRECTED[symbol](*operands).astype(dtype, copy=False)
    if symbol in CONVERSIONS:
        return convert(symbol, operands[0], dtype)
    if symbol in TO_SIGNED:
        return saturate_to_integer(TO_SIGNED[symbol](operands[0]), dtype)
    if symbol in TO_UNSIGNED:
        return saturate_to_integer(TO_UNSIGNED[symbol](operands[0]), np.dtype(f"u{dtype.itemsize}")).view(dtype)
    if symbol in FROM_SIGNED or symbol == "__nv_double2float_rn":
        return operands[0].astype(dtype)
    if symbol in FROM_UNSIGNED:
        return as_unsigned(operands[0]).astype(dtype)
    raise UnsupportedError(f"no function for {symbol}")


@frame_rule("tt.extern_elementwise")
def call_extern(frame: Frame, operation: Operation, *operands: Array) -> Array:
    """A device library's function, lane by lane."""
    symbol = str(operation.attributes["symbol"])
    try:
        return call_symbol(symbol, operands, dtype_of(operation.results[0].type))
    except UnsupportedError as error:
        raise unsupported(operation, f"tt.extern_elementwise: {error.got} in engine/rules/libdevice.py") from None
