"""The `math` dialect's text."""

from __future__ import annotations

import pytest

from tilesight.ir.ops import math

from ..snippets import parse_one, printed_body


@pytest.mark.parametrize("name", math.FLOAT_UNARY)
def test_float_unary(name: str) -> None:
    operation = parse_one(f"%0 = math.{name} %x fastmath<fast> : tensor<8xf32>")
    assert operation.operands[0].type == operation.results[0].type
    assert operation.attributes == {"fastmath": "fast"}


@pytest.mark.parametrize("name", math.INTEGER_UNARY)
def test_integer_unary(name: str) -> None:
    assert str(parse_one(f"%0 = math.{name} %i : i32").results[0].type) == "i32"


@pytest.mark.parametrize("name", math.BINARY)
def test_binary(name: str) -> None:
    assert len(parse_one(f"%0 = math.{name} %x, %x : tensor<8xf32>").operands) == 2


@pytest.mark.parametrize("name", math.PREDICATES)
def test_predicate_gives_a_boolean(name: str) -> None:
    assert str(parse_one(f"%0 = math.{name} %x : tensor<8xf32>").results[0].type) == "tensor<8xi1>"


@pytest.mark.parametrize(
    "line",
    [
        "%0 = math.fma %f, %f, %f : f32",
        "%0 = math.fpowi %f, %i : f32, i32",
        "%0 = math.ipowi %i, %i : i32",
        "%0 = math.clampf %f to [%f, %f] : f32",
        "%sin, %cos = math.sincos %f : f32",
    ],
)
def test_line_is_printed_as_it_was_read(line: str) -> None:
    assert printed_body(line) == line
