"""What tt.print writes: lines as Triton's GPU back ends format them (printf's %f, %i, %u and hexadecimal)."""

from __future__ import annotations

import io

import numpy as np
import pytest

from tilesight.engine import Argument, ExecutionOptions, Launch, execute
from tilesight.ir import parse_module

from .elementwise import memory


def printed(body: str, *arguments: Argument, parameters: str = "", grid: tuple[int, int, int] = (1, 1, 1)) -> list[str]:
    """The lines that a kernel with this body writes."""
    text = f"module {{ tt.func public @k({parameters}) {{\n{body}\ntt.return\n}}\n}}"
    output = io.StringIO()
    execute(parse_module(text), Launch("k", text, arguments, grid), options=ExecutionOptions(output=output))
    return output.getvalue().splitlines()


def print_scalar(type_: str, value: float, *, hexadecimal: bool = False, signed: int = 1) -> str:
    attributes = f"{{hex = {str(hexadecimal).lower()}, isSigned = array<i32: {signed}>}}"
    (line,) = printed(f'tt.print " x: " {attributes} : %n : {type_}', Argument("n", value), parameters=f"%n: {type_}")
    return line.removeprefix("pid (0, 0, 0) idx () x: ")


@pytest.mark.parametrize(
    ("type_", "value", "signed", "expected"),
    [
        ("i8", -1, 1, "-1"),
        ("i8", -1, 0, "255"),
        ("i16", -32768, 1, "-32768"),
        ("i32", -1, 0, "4294967295"),
        ("i64", -1, 0, "18446744073709551615"),
        ("i1", 1, 1, "1"),
        ("f32", 1.5, 1, "1.500000"),
        ("f32", -0.0, 1, "-0.000000"),
        ("f64", 1e-7, 1, "0.000000"),
        ("f16", float("inf"), 1, "inf"),
        ("bf16", float("nan"), 1, "nan"),
    ],
)
def test_numbers(type_: str, value: float, signed: int, expected: str) -> None:
    assert print_scalar(type_, value, signed=signed) == expected


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("i8", -1, "0xff"),
        ("i16", 10, "0x000a"),
        ("i32", -2, "0xfffffffe"),
        ("i64", 1 << 40, "0x0000010000000000"),
    ],
)
def test_hexadecimal_is_as_wide_as_the_type(type_: str, value: int, expected: str) -> None:
    assert print_scalar(type_, value, hexadecimal=True) == expected


def test_indices_of_an_axis_are_equally_wide() -> None:
    body = """%r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
%e = tt.reshape %r : tensor<16xi32> -> tensor<1x16xi32>
tt.print ": " {hex = false, isSigned = array<i32: 1>} : %e : tensor<1x16xi32>"""
    assert printed(body) == [f"pid (0, 0, 0) idx (0, {lane:2}): {lane}" for lane in range(16)]


def test_several_operands_are_numbered() -> None:
    body = """%r = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32>
%c = arith.constant 7 : i32
tt.print " m: " {hex = false, isSigned = array<i32: 1, 1>} : %r, %c : tensor<2xi32>, i32"""
    assert printed(body) == [
        "pid (0, 0, 0) idx (0) m: (operand 0) 0",
        "pid (0, 0, 0) idx (1) m: (operand 0) 1",
        "pid (0, 0, 0) idx () m: (operand 1) 7",
    ]


def test_a_text_alone_once_a_program_with_its_coordinates() -> None:
    lines = printed('tt.print " here" {hex = false, isSigned = array<i32>}', grid=(2, 1, 3))
    assert lines == [f"pid ({x}, 0, {z}) here" for z in range(3) for x in range(2)]


def test_a_pointer_is_an_address() -> None:
    x = np.zeros(4, np.int32)
    body = 'tt.print " ptr: " {hex = true, isSigned = array<i32: 0>} : %p : !tt.ptr<i32>'
    lines = printed(body, Argument("p", memory("p", x)), parameters="%p: !tt.ptr<i32>")
    assert lines == [f"pid (0, 0, 0) idx () ptr: {x.ctypes.data:#x}"]
