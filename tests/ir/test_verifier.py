"""Broken modules with the diagnostic that they must get."""

from __future__ import annotations

import pytest

from tilesight.errors import VerifyError
from tilesight.ir import parse_module, verify

from .snippets import module_text

BROKEN_TYPES = [
    ("%0 = arith.addi %f, %f : f32", "arith.addi: a result of type f32; expected an integer"),
    ("%0 = arith.addf %i, %i : i32", "arith.addf: a result of type i32; expected a float"),
    ("%0 = arith.addi %i, %l : i32", "%l of type i64; expected i32"),
    ("%0 = math.exp %n : tensor<8xi32>", "math.exp: a result of type tensor<8xi32>; expected a float"),
    ("%0 = arith.cmpi slt, %f, %f : f32", "%f of type f32; expected integers"),
    ("%0 = arith.cmpi slt, %i, %l : i32", "%l of type i64; expected i32"),
    ("%0 = arith.select %i, %f, %f : f32", "a condition of type i32; expected i1"),
    ("%0 = arith.select %m, %row, %row : tensor<8xi1>, tensor<1x8xf32>", "expected i1 or tensor<1x8xi1>"),
    ("%0 = arith.extsi %l : i64 to i32", "a cast from i64 to i32; expected a wider type"),
    ("%0 = arith.truncf %f : f32 to f32", "a cast from f32 to f32; expected a narrower type"),
    ("%0 = arith.sitofp %f : f32 to f32", "expected types that arith.sitofp takes"),
    ("%0 = arith.sitofp %n : tensor<8xi32> to f32", "a cast from tensor<8xi32> to f32; expected one shape"),
    ("%0 = arith.constant 300 : i8", "the value 300; expected one that fits i8"),
    ("%0 = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<9xi32>", "tensor<9xi32>; expected tensor<8xi32>"),
    ("%0 = tt.make_range {end = 0 : i32, start = 8 : i32} : tensor<8xi32>", "expected start < end"),
    ("%0 = tt.splat %i : i32 -> tensor<8xi64>", "an operand of type i32; expected i64"),
    ("%0 = tt.broadcast %row : tensor<1x8xf32> -> tensor<4x16xf32>", "expected one rank and element, sizes equal"),
    ("%0 = tt.expand_dims %x {axis = 2 : i32} : tensor<8xf32> -> tensor<8x1xf32>", "axis 2 for tensor<8xf32>"),
    ("%0 = tt.expand_dims %x {axis = 0 : i32} : tensor<8xf32> -> tensor<8x1xf32>", "expected tensor<1x8xf32>"),
    ("%0 = tt.reshape %x : tensor<8xf32> -> tensor<3x3xf32>", "8 elements into tensor<3x3xf32>"),
    ("%0 = tt.join %x, %x : tensor<8xf32> -> tensor<8xf32>", "16 elements into tensor<8xf32>"),
    ("%0 = tt.trans %a {order = array<i32: 0, 0>} : tensor<16x32xf16> -> tensor<32x16xf16>", "order (0, 0)"),
    ("%0 = tt.addptr %p, %f : !tt.ptr<f32>, f32", "expected a pointer and an integer"),
    ("%0 = tt.addptr %pt, %i : tensor<8x!tt.ptr<f32>>, i32", "an offset of type i32; expected the shape of"),
    ("%0 = tt.load %i : i32", "a load through i32; expected a pointer"),
    ("%0 = tt.load %pt, %b : tensor<8x!tt.ptr<f32>>", "a mask of type i1; expected tensor<8xi1>"),
    ("%0 = tt.load %pt, %m, %n : tensor<8x!tt.ptr<f32>>", "other of type tensor<8xi32>; expected tensor<8xf32>"),
    ("tt.store %p, %i : !tt.ptr<f32>", "%i of type i32; expected f32"),
    ("tt.store %pt, %x, %b : tensor<8x!tt.ptr<f32>>", "a mask of type i1; expected tensor<8xi1>"),
    ("%0 = tt.atomic_rmw fadd, relaxed, gpu, %p, %i : (!tt.ptr<f32>, i32) -> f32", "%i of type i32; expected f32"),
    ("%0 = tt.dot %a, %a, %c : tensor<16x32xf16> * tensor<16x32xf16> -> tensor<16x16xf32>", "expected [M, K], [K, N]"),
    (
        "%0 = tt.dot %a, %t, %c : tensor<16x32xf16> * tensor<32x16xf16> -> tensor<16x16xf16>",
        "expected tensor<16x16xf32>",
    ),
    ("scf.if %i {\n}", "scf.if: a condition of type i32; expected i1"),
    ("scf.for %k = %f to %f step %f : f32 {\n}", "bounds of type f32; expected an integer"),
]


def check(body: str, message: str) -> None:
    module = parse_module(module_text(body))
    with pytest.raises(VerifyError) as caught:
        verify(module)
    assert message in str(caught.value)


@pytest.mark.parametrize(("body", "message"), BROKEN_TYPES, ids=[body for body, _ in BROKEN_TYPES])
def test_types(body: str, message: str) -> None:
    check(body, message)


REDUCE = """%0 = "tt.reduce"(%x) <{{axis = {axis} : i32}}> ({{
^bb0(%q: {taken}, %r: f32):
  {end}
}}) : (tensor<8xf32>) -> {result}"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"axis": 1}, "axis 1 for tensor<8xf32>; expected a dimension"),
        ({"result": "tensor<8xf32>"}, "a result of type tensor<8xf32>; expected f32"),
        (
            {"taken": "i32", "end": "tt.reduce.return %r : f32"},
            "has a region that takes (i32, f32); expected (f32, f32)",
        ),
        ({"end": "tt.reduce.return %q, %q : f32, f32"}, "tt.reduce.return of tt.reduce hands on (f32, f32)"),
        ({"end": "tt.scan.return %q : f32"}, "ends in tt.scan.return; expected tt.reduce.return"),
        ({"end": "%z = arith.addf %q, %q : f32"}, "a block of tt.reduce that ends in arith.addf"),
    ],
)
def test_reduce(change: dict[str, object], message: str) -> None:
    parts = {"axis": 0, "taken": "f32", "end": "tt.reduce.return %q : f32", "result": "f32"}
    check(REDUCE.format(**{**parts, **change}), message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "%0 = scf.for %k = %i to %i step %i iter_args(%q = %f) -> (f32) : i32 {\n scf.yield %k : i32\n}",
            "scf.yield of scf.for hands on (i32); expected (f32)",
        ),
        ("scf.for %k = %i to %i step %i : i32 {\n scf.yield %k : i32\n}", "hands on (i32); expected ()"),
        ("%0 = scf.if %b -> (f32) {\n scf.yield %f : f32\n}", "scf.if with results and no else"),
        (
            "%0 = scf.if %b -> (f32) {\n scf.yield %f : f32\n} else {\n scf.yield %i : i32\n}",
            "scf.yield of scf.if hands on (i32); expected (f32)",
        ),
        (
            "%0 = scf.while (%q = %i) : (i32) -> (i32) {\n scf.condition(%b) %q : i32\n} do {\n^bb0(%u: f32):\n"
            " scf.yield %i : i32\n}",
            "scf.while has a region that takes (f32); expected (i32)",
        ),
        (
            "scf.while : () -> () {\n scf.condition(%i)\n} do {\n scf.yield\n}",
            "scf.condition: a condition of type i32; expected i1",
        ),
        ("cf.br ^bb1\n%0 = arith.addi %i, %i : i32\ncf.br ^bb1\n^bb1:", "cf.br in the middle of a block"),
        ("tt.return %i : i32\n^bb1:", "tt.return returns (i32); expected ()"),
        ("cf.cond_br %i, ^bb1, ^bb1\n^bb1:", "cf.cond_br: a condition of type i32; expected i1"),
        ("cf.br ^bb1(%i : i32)\n^bb1(%z: f32):", "cf.br passes to ^bb1 (i32); expected (f32)"),
        (
            "cf.cond_br %b, ^bb1, ^bb2\n^bb1:\n%z = arith.constant 1 : i32\ncf.br ^bb2\n^bb2:\n"
            "%y = arith.addi %z, %i : i32",
            "arith.addi uses %z, which does not dominate it",
        ),
        ("tt.call @nowhere() : () -> ()", "tt.call of SymbolRef(name='nowhere'); expected one of k"),
        ("tt.call @k() : () -> ()", "tt.call passes to @k (); expected ("),
    ],
)
def test_structure(body: str, message: str) -> None:
    check(body, message)


def test_block_without_a_terminator() -> None:
    module = parse_module("tt.func @k() {\n}")
    with pytest.raises(VerifyError, match=r"@k: a block of tt.func that ends in nothing; expected cf.br or"):
        verify(module)


def test_message_names_the_line_of_the_kernel() -> None:
    line = '%0 = arith.addi %f, %f : f32 loc(callsite("lib.py":3:1 at "kernel.py":12:4))'
    check(line, "kernel.py:12 (@k): arith.addi: ")


def test_operands_that_a_builder_left_out() -> None:
    module = parse_module(module_text("tt.store %p, %f : !tt.ptr<f32>"))
    store = module.kernel.body.entry.operations[0]
    del store.operand_segments["value"]
    with pytest.raises(VerifyError, match=r"tt.store with 0 operands `value`; expected one"):
        verify(module)


def test_value_from_another_function() -> None:
    first, second = parse_module(module_text("%0 = arith.addi %i, %i : i32")), parse_module(module_text("tt.return"))
    first.kernel.body.entry.operations[0].operands = second.kernel.arguments[3:4] * 2
    with pytest.raises(VerifyError, match="uses %i, which does not dominate it"):
        verify(first)
