"""Type text, both ways."""

from __future__ import annotations

import pytest

from tilesight.ir.type_parser import parse_optional_type
from tilesight.ir.types import DescriptorType, FloatType, IntegerType, PointerType, TensorType


@pytest.mark.parametrize(
    "text",
    [
        "i1",
        "i32",
        "index",
        "bf16",
        "f8E4M3FN",
        "!tt.ptr<f32>",
        "!tt.ptr<!tt.ptr<f32>>",
        "!tt.ptr<f32, 3>",
        "!tt.ptr<tensor<16x32xf16>>",
        "tensor<4xi1>",
        "tensor<4x64x!tt.ptr<bf16>>",
        "tensor<1x1x1xf64>",
        "tensor<8xf32, #ttg.blocked<{sizePerThread = [1], order = [0]}>>",
        "!tt.tensordesc<tensor<16x32xf16>>",
    ],
)
def test_printed_type_is_the_text(text: str) -> None:
    assert str(parse_optional_type(text)) == text


def test_what_types_are_made_of() -> None:
    pointers = TensorType((4, 64), PointerType(FloatType("bf16")))
    assert parse_optional_type("tensor<4x64x!tt.ptr<bf16>>") == pointers
    assert parse_optional_type("tensor<i32>") == TensorType((), IntegerType(32))
    assert parse_optional_type("!tt.ptr<f32, 3>") == PointerType(FloatType("f32"), 3)
    assert parse_optional_type("!tt.tensordesc<16x32xf16>") == DescriptorType(TensorType((16, 32), FloatType("f16")))
    encoded = parse_optional_type("tensor<8xf32, #blocked>")
    assert encoded == TensorType((8,), FloatType("f32"), "#blocked")


@pytest.mark.parametrize("text", ["", "f33", "tensor<>", "tensor<4xq>", "!tt.ptr<f32, x>", "!tt.foo<f32>", "i", "f32>"])
def test_no_type(text: str) -> None:
    assert parse_optional_type(text) is None
