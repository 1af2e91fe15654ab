"""Python values → attribute text that `attribute_parser` reads back to an equal value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from tilesight.ir.float_bits import encode_float
from tilesight.ir.module import Attribute, DenseElements, SymbolRef
from tilesight.ir.types import (
    DescriptorType,
    FloatType,
    FunctionType,
    IndexType,
    IntegerType,
    PointerType,
    TensorType,
    Type,
)

UNIT_NAMES = frozenset(
    {
        "allow_reorder",
        "efficient_layout",
        "nvvm.kernel",
        "tt.disallow_acc_multi_buffer",
        "tt.flatten",
        "tt.warp_specialize",
    }
)
WORD_FIRST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
WORD_REST = WORD_FIRST | frozenset("0123456789.$")


def show_types(types: Iterable[Type]) -> str:
    return ", ".join(map(str, types))


def show_string(text: str) -> str:
    """A quoted string; what is not printable ASCII as its UTF-8 bytes in hexadecimal."""
    shown = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:02X}" for byte in text.encode()
    )
    return f'"{shown}"'


def show_symbol(symbol: SymbolRef) -> str:
    plain = symbol.name[:1] in WORD_FIRST and set(symbol.name) <= WORD_REST
    return f"@{symbol.name}" if plain else f"@{show_string(symbol.name)}"


def show_dictionary(attributes: Mapping[str, Attribute]) -> str:
    """`{a = 1 : i32, b}`, or nothing for an empty dictionary."""
    if not attributes:
        return ""
    return "{" + ", ".join(_show_entry(name, value) for name, value in sorted(attributes.items())) + "}"


def _show_entry(name: str, value: Attribute) -> str:
    if name in UNIT_NAMES and value is True:
        return name
    shown = name if set(name) <= WORD_REST else show_string(name)
    return f"{shown} = {show_attribute(value)}"


def show_attribute(value: Attribute) -> str:
    """An int is printed as i32 (i64 where it does not fit), a float as f64."""
    if value is None or value is True:
        return "unit" if value is None else "true"
    if isinstance(value, bool):
        return "false"
    if isinstance(value, int):
        return f"{value} : {'i32' if -(2**31) <= value < 2**31 else 'i64'}"
    if isinstance(value, float):
        return f"{show_number(value, FloatType('f64'))} : f64"
    if isinstance(value, str):
        return value if value.startswith("#") else show_string(value)
    if isinstance(value, SymbolRef):
        return show_symbol(value)
    if isinstance(value, DenseElements):
        return show_dense(value)
    if isinstance(value, tuple):
        return _show_sequence(value)
    if isinstance(value, dict):
        return show_dictionary(value) or "{}"
    return _show_type_attribute(value)


def _show_type_attribute(value: Type) -> str:
    known = IntegerType | IndexType | FloatType | PointerType | TensorType | DescriptorType | FunctionType
    assert isinstance(value, known)
    return str(value)


def _show_sequence(values: tuple[Attribute, ...]) -> str:
    if all(isinstance(value, int) for value in values):
        return f"array<i32: {', '.join(str(int(value)) for value in values if isinstance(value, int))}>".replace(
            ": >", ">"
        )
    return f"[{', '.join(map(show_attribute, values))}]"


def show_number(value: int | float, type_: Type) -> str:
    """A literal of this type; inf and NaN are bit patterns, as MLIR prints them."""
    if isinstance(type_, FloatType):
        if not math.isfinite(value):
            return f"0x{encode_float(value, type_.name):0{type_.bits // 4}X}"
        mantissa, _, exponent = repr(float(value)).partition("e")
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent or '+00'}"
    if type_ == IntegerType(1):
        return "true" if value else "false"
    return str(int(value))


def show_dense(value: DenseElements) -> str:
    """`dense<v> : type`, or nested brackets in the type's shape."""
    assert isinstance(value.type, TensorType)
    element = value.type.element
    numbers = [show_number(number, element) for number in value.values]
    body = numbers[0] if value.is_splat else _nest(numbers, value.type.shape)
    return f"dense<{body}> : {value.type}"


def _nest(numbers: list[str], shape: tuple[int, ...]) -> str:
    if len(shape) <= 1:
        return f"[{', '.join(numbers)}]"
    step = len(numbers) // shape[0]
    return f"[{', '.join(_nest(numbers[i : i + step], shape[1:]) for i in range(0, len(numbers), step))}]"
