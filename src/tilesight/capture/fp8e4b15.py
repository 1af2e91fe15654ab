"""Conversions of Triton's own fp8e4b15 in plain operations, where its CUDA back end writes inline assembly.

A sign, 4 bits of exponent with bias 15 and 3 of mantissa; no infinities and no NaN. In TTIR it is an i8.
"""

from __future__ import annotations

from typing import Any

from triton.language import core

SIGN = 0x8000
MAGNITUDE = 0x7FFF
LARGEST_ENCODED = 0x3F00
"""1.75 as f16, the largest value that a conversion gives (Triton, language/extra/cuda/utils.py)."""


@core.builtin
def convert_fp8e4b15(arg: Any, dst_ty: Any, fp_downcast_rounding: Any = None, _semantic: Any = None) -> Any:
    """fp8e4b15 → f16 or f32, exact; f16 or f32 → fp8e4b15, an f32 through f16 toward zero, as on CUDA."""
    if arg.type.scalar.is_fp8e4b15():
        half = _to_float16(arg, _semantic)
        return half.to(core.float32, _semantic=_semantic) if dst_ty.scalar.is_fp32() else half
    if arg.type.scalar.is_fp32():
        arg = arg.to(core.float16, fp_downcast_rounding="rtz", _semantic=_semantic)
    return _from_float16(arg, _semantic)


def _to_float16(arg: Any, semantic: Any) -> Any:
    """The 4 bits of exponent are the low 4 of f16's 5, whose bias is the same."""
    bits = arg.to(core.uint8, bitcast=True, _semantic=semantic).to(core.uint16, _semantic=semantic)
    magnitude = bits.__and__(0x7F, _semantic=semantic).__lshift__(7, _semantic=semantic)
    sign = bits.__and__(0x80, _semantic=semantic).__lshift__(8, _semantic=semantic)
    return magnitude.__or__(sign, _semantic=semantic).to(core.float16, bitcast=True, _semantic=semantic)


def _from_float16(arg: Any, semantic: Any) -> Any:
    """Clamped, to nearest, ties away from zero; NaN gives the largest."""
    bits = arg.to(core.uint16, bitcast=True, _semantic=semantic)
    magnitude = bits.__and__(MAGNITUDE, _semantic=semantic)
    is_small = magnitude.__lt__(LARGEST_ENCODED, _semantic=semantic)
    kept = core.where(is_small, magnitude, LARGEST_ENCODED, _semantic=semantic).to(core.uint16, _semantic=semantic)
    rounded = kept.__add__(0x40, _semantic=semantic).__rshift__(7, _semantic=semantic)
    sign = bits.__and__(SIGN, _semantic=semantic).__rshift__(8, _semantic=semantic)
    found = rounded.__or__(sign, _semantic=semantic).to(core.uint8, _semantic=semantic)
    return found.to(core.float8e4b15, bitcast=True, _semantic=semantic)
