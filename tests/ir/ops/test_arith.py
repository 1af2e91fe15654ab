"""The `arith` dialect's text; the lines are as Triton 3.7 prints them."""

from __future__ import annotations

import math

import pytest

from tilesight.ir import DenseElements, FloatType, IntegerType, TensorType
from tilesight.ir.ops import arith

from ..snippets import parse_one, printed_body

LINES = """
%0 = arith.addi %i, %i overflow<nsw, nuw> : i32
%0 = arith.addf %f, %f fastmath<nnan, contract> : f32
%0 = arith.subf %x, %x : tensor<8xf32>
%0 = arith.cmpi slt, %i, %i : i32
%0 = arith.cmpf une, %x, %x fastmath<fast> : tensor<8xf32>
%0 = arith.select %m, %x, %x : tensor<8xi1>, tensor<8xf32>
%0 = arith.select %b, %x, %x : tensor<8xf32>
%0 = arith.select %b, %f, %f : f32
%0 = arith.extui %s : i8 to i32
%0 = arith.extui %s nneg : i8 to i32
%0 = arith.trunci %i overflow<nsw> : i32 to i8
%0 = arith.truncf %d to_nearest_even fastmath<fast> : f64 to f16
%0 = arith.truncf %d : f64 to f16
%0 = arith.sitofp %n : tensor<8xi32> to tensor<8xf32>
%0 = arith.index_cast %idx : index to i32
%0 = arith.bitcast %f : f32 to i32
%0 = arith.negf %f : f32
%0 = arith.shrui %i, %i exact : i32
%sum, %overflow = arith.addui_extended %n, %n : tensor<8xi32>, tensor<8xi1>
%low, %high = arith.mulsi_extended %i, %i : i32
%0 = arith.constant true
%0 = arith.constant -1 : i64
%0 = arith.constant 0x7F800000 : f32
%0 = arith.constant dense<[1, 2, 3, 4]> : tensor<4xi32>
%0 = arith.constant dense<[true, false, true]> : tensor<3xi1>
""".strip().split("\n")


@pytest.mark.parametrize("line", LINES)
def test_line_is_printed_as_it_was_read(line: str) -> None:
    assert printed_body(line) == line


@pytest.mark.parametrize("name", [*arith.OVERFLOWING, *arith.INTEGER_BINARY, *arith.EXACT_BINARY])
def test_integer_binary(name: str) -> None:
    operation = parse_one(f"%0 = arith.{name} %n, %n : tensor<8xi32>")
    assert operation.results[0].type == TensorType((8,), IntegerType(32))
    assert operation.attributes == {}


@pytest.mark.parametrize("name", arith.FLOAT_BINARY)
def test_float_binary(name: str) -> None:
    assert parse_one(f"%0 = arith.{name} %f, %f : f32").results[0].type == FloatType("f32")


def test_comparison_has_its_predicate_and_a_boolean_result() -> None:
    operation = parse_one("%0 = arith.cmpi ult, %n, %n : tensor<8xi32>")
    assert operation.attributes == {"predicate": "ult"}
    assert str(operation.results[0].type) == "tensor<8xi1>"


def test_flags_are_the_text_between_the_brackets() -> None:
    assert parse_one("%0 = arith.addf %f, %f fastmath<nnan,ninf> : f32").attributes == {"fastmath": "nnan, ninf"}
    assert parse_one("%0 = arith.muli %i, %i overflow<nsw> : i32").attributes == {"overflowFlags": "nsw"}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", 1),
        ("false", 0),
        ("7 : index", 7),
        ("-3 : i8", -3),
        ("1.500000e+00 : f16", 1.5),
        ("9.99999974E-6 : f32", 9.999999747378752e-06),
        ("1.000000e-01 : f32", 0.10000000149011612),
        ("1.000980e-01 : bf16", 0.10009765625),
        ("1.000000e-01 : f64", 0.1),
        ("0x4CEB79A3 : f32", 123456792.0),
        ("0x7F800000 : f32", math.inf),
        ("0xFF80 : bf16", -math.inf),
        ("0x7C00 : f16", math.inf),
        ("0xFFF0000000000000 : f64", -math.inf),
        ("0x7C : f8E5M2", math.inf),
        ("4.480000e+02 : f8E4M3FN", 448.0),
    ],
)
def test_scalar_constant(text: str, value: int | float) -> None:
    found = parse_one(f"%0 = arith.constant {text}").attributes["value"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["0x7FC00000 : f32", "0x7E00 : f16", "0x7FC0 : bf16", "0x7F : f8E4M3FN"])
def test_nan_constant(text: str) -> None:
    value = parse_one(f"%0 = arith.constant {text}").attributes["value"]
    assert isinstance(value, float)
    assert math.isnan(value)


def test_negative_zero_keeps_its_sign() -> None:
    value = parse_one("%0 = arith.constant -0.000000e+00 : f32").attributes["value"]
    assert isinstance(value, float)
    assert math.copysign(1, value) == -1


def test_dense_constants() -> None:
    splat = parse_one("%0 = arith.constant dense<0xFF800000> : tensor<128xf32>").attributes["value"]
    assert isinstance(splat, DenseElements)
    assert (splat.is_splat, splat.values) == (True, (-math.inf,))
    listed = parse_one("%0 = arith.constant dense<[[1.5, -2.0], [0x7F800000, 4.0]]> : tensor<2x2xf32>")
    values = listed.attributes["value"]
    assert isinstance(values, DenseElements)
    assert values.values == (1.5, -2.0, math.inf, 4.0)
    assert not values.is_splat


def test_dense_constant_of_raw_bytes() -> None:
    blob = parse_one('%0 = arith.constant dense<"0x01000000FFFFFFFF"> : tensor<2xi32>').attributes["value"]
    assert isinstance(blob, DenseElements)
    assert blob.values == (1, -1)
    floats = parse_one('%0 = arith.constant dense<"0x0000C03F000080FF"> : tensor<2xf32>').attributes["value"]
    assert isinstance(floats, DenseElements)
    assert floats.values == (1.5, -math.inf)
    bits = parse_one('%0 = arith.constant dense<"0x000101"> : tensor<3xi1>').attributes["value"]
    assert isinstance(bits, DenseElements)
    assert bits.values == (0, 1, 1)
