"""What the printer writes, and what `first_difference` tells apart."""

from __future__ import annotations

import math

import pytest

from tilesight.ir import first_difference, parse_module, print_module
from tilesight.ir.attribute_printer import show_number, show_string
from tilesight.ir.types import FloatType, IntegerType, Type

from .snippets import module_text, parse_body

TEXT = """module {
  tt.func public @k(%x: i32 {tt.divisibility = 16 : i32} loc(#loc0), %b: i1) -> i32 attributes {noinline = false} {
    cf.cond_br %b, ^bb1(%x : i32), ^bb2
  ^bb1(%z: i32 loc(#loc0)):
    %0 = arith.addi %z, %x : i32 loc(#loc1)
    tt.return %0 : i32
  ^bb2:
    tt.return %x : i32 loc(#loc2)
  }
} loc(#loc3)
#loc0 = loc("x"("f.py":1:0))
#loc1 = loc(callsite("lib.py":3:4 at callsite("mid.py":5:6 at "v"("f.py":2:0))))
#loc2 = loc("f.py":9:9)
#loc3 = loc("f.py":1:0)
"""


def test_printed_text() -> None:
    assert print_module(parse_module(TEXT)) == TEXT


@pytest.mark.parametrize(
    ("value", "type_", "text"),
    [
        (0.1, FloatType("f64"), "0.1e+00"),
        (1e-05, FloatType("f64"), "1.0e-05"),
        (-0.0, FloatType("f32"), "-0.0e+00"),
        (math.inf, FloatType("f32"), "0x7F800000"),
        (-math.inf, FloatType("bf16"), "0xFF80"),
        (-math.inf, FloatType("f8E5M2"), "0xFC"),
        (1, IntegerType(1), "true"),
        (-1, IntegerType(8), "-1"),
    ],
)
def test_number(value: int | float, type_: Type, text: str) -> None:
    assert show_number(value, type_) == text


def test_string_is_escaped_as_mlir_does() -> None:
    assert show_string('a"\\\n\u00e9') == '"a\\22\\5C\\0A\\C3\\A9"'


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("%0 = arith.addi %i, %i : i32", "%0 = arith.muli %i, %i : i32"),
        ("%0 = arith.constant 0.0 : f32", "%0 = arith.constant -0.0 : f32"),
        ("%0 = arith.constant 1 : i32", "%0 = arith.constant 1 : i64"),
        ("%0 = arith.constant true", "%0 = arith.constant false"),
        ("tt.store %p, %f : !tt.ptr<f32>", "tt.store %p, %f cacheModifier = cs : !tt.ptr<f32>"),
        ("%0 = arith.subi %i, %i : i32", "%0 = arith.subi %i, %i overflow<nsw> : i32"),
        ("gpu.barrier", "gpu.barrier\ngpu.barrier"),
        ('gpu.barrier loc("f.py":1:1)', 'gpu.barrier loc("f.py":1:2)'),
        ("scf.if %b {\n}", "scf.if %b {\n} else {\n}"),
    ],
)
def test_difference(left: str, right: str) -> None:
    assert first_difference(parse_module(module_text(left)), parse_module(module_text(right))) != ""


def test_operands_are_told_apart_by_wiring_and_not_by_name() -> None:
    one = "%0 = arith.constant 1 : i32\n%1 = arith.constant 2 : i32\n%2 = arith.subi {} : i32"
    left, swapped = module_text(one.format("%0, %1")), module_text(one.format("%1, %0"))
    renamed = left.replace("%0", "%zero").replace("%1", "%one")
    assert first_difference(parse_module(left), parse_module(renamed)) == ""
    assert first_difference(parse_module(left), parse_module(swapped)) != ""


def test_nan_equals_itself() -> None:
    line = "%0 = arith.constant 0x7FC00000 : f32"
    assert first_difference(parse_body(line), parse_body(line)) == ""


def test_locations_may_be_left_out_of_the_comparison() -> None:
    left, right = (parse_module(module_text(f'gpu.barrier loc("f.py":{line}:1)')) for line in (1, 2))
    assert first_difference(left, right, with_locations=False) == ""
