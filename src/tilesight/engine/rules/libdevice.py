"""tt.extern_elementwise: NVIDIA's libdevice functions by symbol, such as `__nv_rsqrtf`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilesight.engine.frame import Frame
from tilesight.engine.registry import frame_rule, unsupported
from tilesight.engine.rules import math as math_rules
from tilesight.engine.rules.arith_cast import saturate_to_integer
from tilesight.engine.rules.arith_integer import as_unsigned, multiply_high
from tilesight.engine.rules.special import (
    erf,
    erfc,
    fused_multiply_add,
    gamma_function,
    log_gamma,
    reciprocal_sqrt,
    round_half_away,
)
from tilesight.engine.values import Array, dtype_of
from tilesight.errors import UnsupportedError
from tilesight.ir.module import Operation

FloatFunction = Callable[..., Array]


def _in_float64(function: FloatFunction) -> FloatFunction:
    """Computed in f64 and rounded once."""
    return lambda *operands: function(*(x.astype(np.float64) for x in operands)).astype(operands[0].dtype)


def _log_of_exponent(x: Array) -> Array:
    """The exponent of x as a float; −inf for 0, +inf for ±inf."""
    exponent = np.frexp(x)[1].astype(x.dtype) - 1
    return np.where(x == 0, -np.inf, np.where(np.isinf(x), np.inf, np.where(np.isnan(x), x, exponent))).astype(x.dtype)


def _positive_difference(x: Array, y: Array) -> Array:
    return np.where(np.isnan(x) | np.isnan(y), x + y, np.maximum(x - y, 0))


def _integer_power(x: Array, n: Array) -> Array:
    return np.power(x.astype(np.float64), n.astype(np.float64)).astype(x.dtype)


def _scale_by_power(x: Array, n: Array) -> Array:
    return np.ldexp(x, n.astype(np.int32))


FLOAT_FUNCTIONS: dict[str, FloatFunction] = {
    **math_rules.UNARY,
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "cospi": _in_float64(lambda x: np.cos(np.pi * np.fmod(x, 2))),
    "erf": erf,
    "erfc": erfc,
    "erfcx": _in_float64(lambda x: np.exp(x * x) * erfc(x)),
    "exp10": _in_float64(lambda x: np.power(10.0, x)),
    "fabs": np.abs,
    "fdim": _positive_difference,
    "fma": fused_multiply_add,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "ldexp": _scale_by_power,
    "lgamma": log_gamma,
    "logb": _log_of_exponent,
    "nearbyint": np.rint,
    "nextafter": np.nextafter,
    "norm3d": _in_float64(lambda x, y, z: np.sqrt(x * x + y * y + z * z)),
    "normcdf": _in_float64(lambda x: 0.5 * erfc(-x / np.sqrt(2.0))),
    "pow": np.power,
    "powi": _integer_power,
    "rcbrt": _in_float64(lambda x: 1 / np.cbrt(x)),
    "remainder": _in_float64(lambda x, y: x - y * np.rint(x / y)),
    "rhypot": _in_float64(lambda x, y: 1 / np.hypot(x, y)),
    "rint": np.rint,
    "round": round_half_away,
    "rsqrt": reciprocal_sqrt,
    "scalbn": _scale_by_power,
    "sinpi": _in_float64(lambda x: np.sin(np.pi * np.fmod(x, 2))),
    "tgamma": gamma_function,
}
"""Each is `__nv_<name>` for f64 and `__nv_<name>f` for f32."""


def _count_leading_zeros(x: Array) -> Array:
    return math_rules.count_leading_zeros(x).astype(np.int32)


def _find_first_set(x: Array) -> Array:
    """The position of the lowest set bit, counted from 1; 0 for 0."""
    return np.where(x == 0, 0, math_rules.count_trailing_zeros(x) + 1).astype(np.int32)


def _reverse_bits(x: Array) -> Array:
    bits = np.unpackbits(np.ascontiguousarray(x)[..., None].view(np.uint8), axis=-1, bitorder="little")
    return np.packbits(bits[..., ::-1], axis=-1, bitorder="little").view(x.dtype)[..., 0]


def _average(signed: bool, rounding: int) -> FloatFunction:
    """(x + y + rounding) >> 1 without overflow."""
    wide = (lambda x: x.astype(np.int64)) if signed else (lambda x: as_unsigned(x).astype(np.int64))
    return lambda x, y: (wide(x) + wide(y) + rounding >> 1).astype(np.int32)


def _low_24_bits(x: Array) -> Array:
    return x << np.int32(8) >> np.int32(8)


SYMBOLS: dict[str, FloatFunction] = {
    "__nv_abs": np.abs,
    "__nv_llabs": np.abs,
    "__nv_brev": _reverse_bits,
    "__nv_brevll": _reverse_bits,
    "__nv_clz": _count_leading_zeros,
    "__nv_clzll": _count_leading_zeros,
    "__nv_ffs": _find_first_set,
    "__nv_ffsll": _find_first_set,
    "__nv_popc": lambda x: math_rules.count_ones(x).astype(np.int32),
    "__nv_popcll": lambda x: math_rules.count_ones(x).astype(np.int32),
    "__nv_mulhi": lambda x, y: multiply_high(x, y, signed=True),
    "__nv_umulhi": lambda x, y: multiply_high(x, y, signed=False),
    "__nv_mul64hi": lambda x, y: multiply_high(x, y, signed=True),
    "__nv_umul64hi": lambda x, y: multiply_high(x, y, signed=False),
    "__nv_mul24": lambda x, y: _low_24_bits(x) * _low_24_bits(y),
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
    "__nv_ilogb": lambda x: np.frexp(x)[1] - 1,
    "__nv_ilogbf": lambda x: np.frexp(x)[1] - 1,
    "__nv_saturatef": lambda x: np.where(np.isnan(x), 0, np.clip(x, 0, 1)).astype(x.dtype),
    "__nv_fast_cosf": np.cos,
    "__nv_fast_exp10f": FLOAT_FUNCTIONS["exp10"],
    "__nv_fast_expf": np.exp,
    "__nv_fast_fdividef": np.divide,
    "__nv_fast_log10f": np.log10,
    "__nv_fast_log2f": np.log2,
    "__nv_fast_logf": np.log,
    "__nv_fast_powf": np.power,
    "__nv_fast_sinf": np.sin,
    "__nv_fast_tanf": np.tan,
    "__nv_fast_tanhf": np.tanh,
    "__nv_frsqrt_rn": reciprocal_sqrt,
    "__nv_fma_rn": fused_multiply_add,
    "__nv_fmaf_rn": fused_multiply_add,
    "__nv_float_as_int": lambda x: x.view(np.int32),
    "__nv_float_as_uint": lambda x: x.view(np.int32),
    "__nv_int_as_float": lambda x: x.view(np.float32),
    "__nv_uint_as_float": lambda x: x.view(np.float32),
    "__nv_double_as_longlong": lambda x: x.view(np.int64),
    "__nv_longlong_as_double": lambda x: x.view(np.float64),
    "__nv_double2hiint": lambda x: (x.view(np.int64) >> 32).astype(np.int32),
    "__nv_double2loint": lambda x: x.view(np.int64).astype(np.int32),
    **{f"__nv_{kind}add_rn": np.add for kind in "fd"},
    **{f"__nv_{kind}sub_rn": np.subtract for kind in "fd"},
    **{f"__nv_{kind}mul_rn": np.multiply for kind in "fd"},
    **{f"__nv_{kind}div_rn": np.divide for kind in "fd"},
    **{f"__nv_{kind}sqrt_rn": np.sqrt for kind in "fd"},
    **{f"__nv_{kind}rcp_rn": np.reciprocal for kind in "fd"},
    **{f"__nv_{name}": function for name, function in FLOAT_FUNCTIONS.items()},
    **{f"__nv_{name}f": function for name, function in FLOAT_FUNCTIONS.items()},
}
ROUNDINGS: dict[str, FloatFunction] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
TO_SIGNED: dict[str, FloatFunction] = {
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
TO_UNSIGNED: dict[str, FloatFunction] = {
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
