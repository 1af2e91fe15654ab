"""A few lines of TTIR inside a function whose arguments have every common type."""

from __future__ import annotations

from tilesight.ir import Module, Operation, first_difference, parse_module, print_module, verify

ARGUMENTS = (
    "%p: !tt.ptr<f32>, %pt: tensor<8x!tt.ptr<f32>>, %m: tensor<8xi1>, %i: i32, %l: i64, %b: i1, %idx: index, "
    "%f: f32, %d: f64, %h: f16, %s: i8, %x: tensor<8xf32>, %n: tensor<8xi32>, %n8: tensor<8xi8>, "
    "%a: tensor<16x32xf16>, %t: tensor<32x16xf16>, %c: tensor<16x16xf32>, %row: tensor<1x8xf32>, "
    "%bp: !tt.ptr<tensor<16x32xf16>>, %desc: !tt.tensordesc<tensor<16x32xf16>>"
)


def module_text(body: str) -> str:
    lines = "\n".join(f"    {line.strip()}" for line in body.strip().split("\n"))
    return f"module {{\n  tt.func public @k({ARGUMENTS}) {{\n{lines}\n    tt.return\n  }}\n}}\n"


def parse_body(body: str) -> Module:
    """The lines as a module that has passed the verifier and a round trip."""
    module = parse_module(module_text(body))
    verify(module)
    assert first_difference(module, parse_module(print_module(module))) == ""
    return module


def parse_one(line: str) -> Operation:
    """The first operation of the body."""
    return parse_body(line).kernel.body.entry.operations[0]


def printed_body(body: str) -> str:
    """The lines as our printer prints them."""
    lines = print_module(parse_body(body)).split("\n")
    return "\n".join(line[4:] for line in lines[2:-4])
