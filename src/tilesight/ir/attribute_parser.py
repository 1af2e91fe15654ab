"""Attribute text → Python values.

`true` and `false` are bools in an attribute dictionary; as an `arith.constant` or in `dense<...>`
they are the ints 1 and 0 of type i1. A unit attribute (a name alone) is True. `array<i32: 1, 0>`
and `[1, 0]` are tuples. An attribute of another dialect (`#arith.fastmath<fast>`) is its text.
"""

from __future__ import annotations

import re
import struct
from math import ceil

from tilesight.ir.cursor import Cursor
from tilesight.ir.float_bits import decode_float, round_float
from tilesight.ir.lexer import Token
from tilesight.ir.module import Attribute, DenseElements, SymbolRef
from tilesight.ir.type_parser import is_scalar_type_word, parse_optional_type
from tilesight.ir.types import FloatType, FunctionType, IntegerType, TensorType, Type, element_type

_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]*")
_BLOB_LETTER = {8: "b", 16: "h", 32: "i", 64: "q"}


def parse_type(cursor: Cursor) -> Type:
    """A type, a function type `(A, B) -> C` included."""
    if cursor.token.text == "(":
        return parse_function_type(cursor)
    token = cursor.token
    type_ = parse_optional_type(token.text) if token.kind in ("word", "type") else None
    if type_ is None:
        cursor.fail("a type")
    cursor.advance()
    return type_


def parse_function_type(cursor: Cursor) -> FunctionType:
    """`(A, B) -> C`, `(A) -> (C, D)` or `() -> ()`."""
    inputs = cursor.enclosed_list("(", ")", lambda: parse_type(cursor))
    cursor.expect("->")
    return FunctionType(tuple(inputs), parse_result_types(cursor))


def parse_result_types(cursor: Cursor) -> tuple[Type, ...]:
    """What stands after an arrow: one type, or several in parentheses."""
    if cursor.token.text == "(":
        return tuple(cursor.enclosed_list("(", ")", lambda: parse_type(cursor)))
    return (parse_type(cursor),)


def parse_attribute(cursor: Cursor) -> Attribute:
    """Any attribute that may stand on the right of `name =`."""
    token = cursor.token
    if token.kind == "number":
        return _parse_number_with_type(cursor)
    if token.kind == "string":
        return parse_string(cursor)
    if token.kind == "symbol":
        return parse_symbol(cursor)
    if token.kind == "attribute":
        return cursor.advance().text
    if token.text == "[":
        return tuple(cursor.enclosed_list("[", "]", lambda: parse_attribute(cursor)))
    if token.text == "{":
        return parse_attribute_dictionary(cursor)
    return _parse_word_attribute(cursor)


def _parse_word_attribute(cursor: Cursor) -> Attribute:
    token = cursor.token
    if token.text in ("true", "false"):
        return cursor.advance().text == "true"
    if token.text == "unit":
        cursor.advance()
        return True
    if token.text == "array":
        return _parse_array(cursor)
    if token.text == "dense":
        return parse_dense(cursor)
    if token.text != "(" and token.kind != "type" and not is_scalar_type_word(token.text):
        cursor.fail("an attribute value")
    return parse_type(cursor)


def parse_attribute_dictionary(cursor: Cursor) -> dict[str, Attribute]:
    """`{name = value, unit_name}`."""
    return dict(cursor.enclosed_list("{", "}", lambda: _parse_entry(cursor)))


def parse_optional_attribute_dictionary(cursor: Cursor) -> dict[str, Attribute]:
    """The dictionary at this place, or an empty one where there is none."""
    return parse_attribute_dictionary(cursor) if cursor.token.text == "{" else {}


def _parse_entry(cursor: Cursor) -> tuple[str, Attribute]:
    if cursor.token.kind == "string":
        name = parse_string(cursor)
    else:
        name = cursor.expect_kind("word", "an attribute name").text
    return name, parse_attribute(cursor) if cursor.accept("=") else True


def parse_string(cursor: Cursor) -> str:
    """A quoted string, its escapes (`\\n`, `\\0A`) resolved."""
    return unescape(cursor.expect_kind("string", "a string").text[1:-1])


def unescape(text: str) -> str:
    """MLIR's escapes: a backslash before `n`, `t`, a quote or two hexadecimal digits of a UTF-8 byte."""
    if "\\" not in text:
        return text
    data = bytearray()
    position = 0
    while position < len(text):
        if text[position] != "\\":
            data += text[position].encode()
            position += 1
        elif text[position + 1] in _ESCAPES:
            data += _ESCAPES[text[position + 1]].encode()
            position += 2
        elif _HEXADECIMAL.fullmatch(text[position + 1 : position + 3]):
            data.append(int(text[position + 1 : position + 3], 16))
            position += 3
        else:
            data += b"\\"
            position += 1
    return data.decode(errors="replace")


def parse_symbol(cursor: Cursor) -> SymbolRef:
    """`@name` or `@"any name"`."""
    text = cursor.expect_kind("symbol", "a symbol such as `@name`").text[1:]
    return SymbolRef(unescape(text[1:-1]) if text.startswith('"') else text)


def parse_number(cursor: Cursor, element: Type) -> int | float:
    """One number literal read as `element`; a hexadecimal one for a float type is its bit pattern."""
    token = cursor.token
    if token.text in ("true", "false"):
        return int(cursor.advance().text == "true")
    cursor.expect_kind("number", f"a number of type {element}")
    return _number(cursor, token, element)


def _number(cursor: Cursor, token: Token, element: Type) -> int | float:
    text = token.text
    if isinstance(element, FloatType):
        if "0x" in text:
            bits = int(text, 16)
            if not 0 <= bits < 1 << element.bits:
                cursor.fail(f"a pattern of {element.bits} bits for {element}", token)
            return decode_float(bits, element.name)
        return round_float(float(text), element.name)
    if "." in text:
        cursor.fail(f"a number of type {element}", token)
    return int(text, 16) if "0x" in text else int(text)


def _parse_number_with_type(cursor: Cursor) -> int | float:
    token = cursor.advance()
    if cursor.accept(":"):
        return _number(cursor, token, parse_type(cursor))
    return _number(cursor, token, FloatType("f64") if "." in token.text else IntegerType(64))


def _parse_array(cursor: Cursor) -> tuple[Attribute, ...]:
    """`array<i32: 1, 0>` or `array<i32>`."""
    cursor.expect("array")
    cursor.expect("<")
    element = parse_type(cursor)
    values: list[Attribute] = []
    if cursor.accept(":"):
        values.extend(cursor.comma_list(lambda: parse_number(cursor, element)))
    cursor.expect(">")
    return tuple(values)


def parse_dense(cursor: Cursor) -> DenseElements:
    """`dense<1.0> : tensor<4xf32>`, `dense<[1, 2]> : tensor<2xi32>` or `dense<"0x...">` with raw bytes.

    Raises:  TtirSyntaxError: the type is no tensor, or its size is not the number of values
    """
    cursor.expect("dense")
    cursor.expect("<")
    start = cursor.index
    while not (cursor.token.text == ">" and cursor.peek().text == ":"):
        if cursor.token.kind == "end":
            cursor.fail("`> : ` and a tensor type")
        cursor.advance()
    cursor.advance()
    cursor.advance()
    type_token = cursor.token
    type_ = parse_type(cursor)
    if not isinstance(type_, TensorType):
        cursor.fail("a tensor type", type_token)
    literals = [token for token in cursor.tokens[start : cursor.index] if token.offset < type_token.offset]
    values = _dense_values(cursor, literals, type_)
    if len(values) not in (1, type_.elements):
        cursor.fail(f"1 or {type_.elements} values for {type_}", type_token, got=f"{len(values)} values")
    return DenseElements(type_, values)


def _dense_values(cursor: Cursor, literals: list[Token], type_: TensorType) -> tuple[int | float, ...]:
    element = element_type(type_)
    if literals and literals[0].kind == "string":
        return _parse_blob(cursor, literals[0], type_)
    values: list[int | float] = []
    for token in literals:
        if token.text in ("true", "false"):
            values.append(int(token.text == "true"))
        elif token.kind == "number":
            values.append(_number(cursor, token, element))
    return tuple(values)


def _parse_blob(cursor: Cursor, token: Token, type_: TensorType) -> tuple[int | float, ...]:
    digits = token.text[3:-1]
    width = max(8, getattr(type_.element, "bits", 64))
    if width not in _BLOB_LETTER or len(digits) % (width // 4) or not _HEXADECIMAL.fullmatch(digits):
        cursor.fail(f"`0x` and hexadecimal digits, {width // 4} for each element of {type_}", token)
    return _decode_blob(bytes.fromhex(digits), type_)


def _decode_blob(data: bytes, type_: TensorType) -> tuple[int | float, ...]:
    """Little-endian elements, or one for a splat; i1 takes a byte an element or, in old texts, a bit."""
    element = type_.element
    bits = element.bits if isinstance(element, IntegerType | FloatType) else 64
    if bits == 1 and len(data) == ceil(type_.elements / 8) != type_.elements:
        return tuple((data[index // 8] >> (index % 8)) & 1 for index in range(type_.elements))
    width = max(8, bits)
    count = len(data) // (width // 8)
    integers = struct.unpack(f"<{count}{_BLOB_LETTER[width]}", data)
    if isinstance(element, FloatType):
        return tuple(decode_float(value % (1 << width), element.name) for value in integers)
    return tuple(value & 1 for value in integers) if bits == 1 else integers
