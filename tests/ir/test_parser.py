"""Modules, functions and scopes; and broken texts with the diagnostic that they must get."""

from __future__ import annotations

import time

import pytest

from tilesight.errors import ParseError
from tilesight.ir import Operation, parse_module
from tilesight.ir.lexer import Source, TtirSyntaxError, tokenize

from .snippets import module_text, parse_body, parse_one


def test_function_header() -> None:
    module = parse_module(
        'module {\n tt.func public @k(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("x"(unknown)), %n: i32) '
        "attributes {noinline = false} {\n tt.return\n }\n}"
    )
    function = module.kernel
    assert [(value.name, str(value.type)) for value in function.arguments] == [("x", "!tt.ptr<f32>"), ("n", "i32")]
    assert function.arguments == function.body.entry.arguments
    assert function.attributes == {"noinline": False, "arg_attrs": ({"tt.divisibility": 16}, {})}
    assert function.arguments[0].location.name == "x"
    assert (function.is_public, function.result_types) == (True, ())


def test_module_attributes_and_comments_are_passed_over() -> None:
    text = '#blocked = #ttg.blocked<{order = [0]}>\nmodule attributes {"ttg.num-warps" = 4 : i32} {\n// nothing\n}\n'
    assert parse_module(text).functions == ()


def test_function_without_a_module() -> None:
    assert parse_module("tt.func @k() {\n tt.return\n}").kernel.name == "k"


def test_unknown_operation_in_generic_form() -> None:
    body = """%0:2 = "my.op"(%x, %n) <{mode = "a"}> ({
      tt.return
    }) {b = [1 : i32, true]} : (tensor<8xf32>, tensor<8xi32>) -> (f32, i32)"""
    operation = parse_one(body)
    assert (operation.name, operation.dialect) == ("my.op", "my")
    assert operation.attributes == {"mode": "a", "b": (1, True)}
    assert operation.operand_segments == {"operands": operation.operands}
    assert [str(value.type) for value in operation.results] == ["f32", "i32"]
    assert len(operation.regions) == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 : i32", 1),
        ("-1 : i64", -1),
        ("1.5 : f32", 1.5),
        ("0x7F800000 : f32", float("inf")),
        ("true", True),
        ("unit", True),
        ('"a\\0Ab"', "a\nb"),
        ('"\\C3\\A9\\q"', "\u00e9\\q"),
        ("[1, 2]", (1, 2)),
        ("[]", ()),
        ("array<i32: 1, 0>", (1, 0)),
        ("array<i32>", ()),
        ("array<i1: true, false>", (1, 0)),
        ("{c = 1 : i32, d}", {"c": 1, "d": True}),
        ("#arith.fastmath<fast>", "#arith.fastmath<fast>"),
    ],
)
def test_attribute(text: str, value: object) -> None:
    assert parse_one(f'"my.op"() {{a = {text}}} : () -> ()').attributes == {"a": value}


def test_results_may_be_named_in_groups() -> None:
    module = parse_body('%a0, %b0:2 = "my.op"() : () -> (i32, f32, i1)\n%1 = arith.addi %a0, %i : i32')
    operation: Operation = module.kernel.body.entry.operations[0]
    assert [value.name for value in operation.results] == ["a0", "b0#0", "b0#1"]


BROKEN = [
    ("%0 = arith.addi %i, %nope : i32", "`%nope` is not defined here", "%nope"),
    ("%0 = arith.addi %i %i : i32", "unexpected `%i`; expected `,`", " %i :"),
    ("%0 = arith.addi %i, %i : q32", "unexpected `q32`; expected a type", "q32"),
    ("%0 = arith.addi %i, %i i32", "unexpected `i32`; expected `:`", "i32"),
    ("%0 = arith.extsi %i : i64 to i32", "`%i` is printed with type i64; expected i32", "i64"),
    ("%0 = tt.frobnicate %i : i32", "operation `tt.frobnicate` has no format", "tt.frobnicate"),
    ("%0 = tt.reduce %x : i32", 'expected the generic form `"tt.reduce"(...)`', "tt.reduce"),
    ("%0:3 = tt.make_range {end = 8 : i32} : tensor<8xi32>", "3 names for 1 results; expected 1 names", "%0"),
    ("%0 = tt.store %p, %f : !tt.ptr<f32>", "1 names for 0 results", "%0"),
    ("%i = arith.constant 1 : i32", "`%i` is defined twice", "%i"),
    ("%0 = arith.constant 1.5 : i32", "expected a number of type i32", "1.5"),
    ("%0 = arith.constant dense<[1, 2, 3]> : tensor<4xi32>", "3 values; expected 1 or 4 values", "tensor<4xi32>"),
    ("%0 = arith.constant dense<1> : i32", "expected a tensor type", "i32"),
    ("%0 = arith.constant what", "expected a number with its type, or dense<...>", "what"),
    ("%0 = tt.get_program_id w : i32", "unexpected `w`; expected one of x, y, z", "w :"),
    ("%0 = tt.load %p cacheModifier = : !tt.ptr<f32>", "expected a word for cacheModifier", ": !tt"),
    ("%0 = tt.advance %bp, [%i] : <tensor<16xq>>", "expected the type after `!tt.ptr`", "<tensor<16xq>>"),
    ("%0 = arith.constant 0x7F800000 : f16", "expected a pattern of 16 bits for f16", "0x7F800000"),
    ('%0 = arith.constant dense<"0x012"> : tensor<2xi32>', "8 for each element of tensor<2xi32>", '"0x012"'),
    ('%0 = arith.constant dense<"0xGG"> : tensor<2xi8>', "hexadecimal digits, 2 for each element", '"0xGG"'),
    ('tt.return loc("a.py":1.5:2)', "unexpected `1.5`; expected a line number", "1.5"),
    ("%0:x = arith.constant 1 : i32", "unexpected `x`; expected the number of results", "x = "),
    ("cf.br ^bb7", "block `^bb7` is not defined", "^bb7"),
    ("^bb1:\n ^bb1:", "block `^bb1` is defined twice", "^bb1:"),
    ("scf.for %k = %i to %i {\n}", "expected `step`", "{"),
    ("scf.for %k = %i to %i step %l : i32 {\n}", "`%l` is printed with type i32; expected i64", "i32"),
    ("scf.for %k = %i to %i step %i iter_args(%q = %f) -> (i32) : i32 {\n}", "`%f` is printed with type i32", "->"),
    ("scf.if %b {\n %z = arith.constant 1 : i32\n}\n%y = arith.addi %z, %i : i32", "`%z` is not defined", "%z, %i"),
    ('"my.op"(%i) : (f32) -> ()', "`%i` is printed with type f32; expected i32", "(f32)"),
    ('"my.op"(%i) : (i32, i32) -> ()', "2 operand types; expected 1 operand types", "(i32, i32)"),
    ('"tt.load"() : () -> ()', "0 operands of tt.load; expected operands ptr, mask?, other?", "() -> ()"),
    ("tt.return {a = }", "unexpected `}`; expected an attribute value", "}"),
    ("tt.return {= 1}", "unexpected `=`; expected an attribute name", "= 1"),
    ("tt.return ; ", "character ';'; expected TTIR text", ";"),
    ("7", "unexpected `7`; expected an operation", "7"),
]


@pytest.mark.parametrize(("body", "message", "place"), BROKEN, ids=[message for _, message, _ in BROKEN])
def test_broken_text(body: str, message: str, place: str) -> None:
    """The message, the position and the caret; the place is where the last match of the text lies."""
    text = module_text(body)
    with pytest.raises(ParseError) as caught:
        parse_module(text, "broken.ttir")
    error = caught.value
    assert isinstance(error, TtirSyntaxError)
    assert message in str(error)
    file, line, column = error.where.split(":")
    source = text.split("\n")[int(line) - 1]
    assert file == "broken.ttir"
    assert source[int(column) - 1 :].startswith(place.strip())
    shown, caret = error.snippet.split("\n")
    assert shown.strip() == source.strip()
    assert shown[caret.index("^") :].startswith(place.strip())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "function"),
        ("module {", "<ttir>:1:9: unexpected end of text; expected `}`"),
        ("module {} trailing", "expected `tt.func` or the end of the module"),
        ("hello", "<ttir>:1:1: unexpected `hello`; expected `tt.func` or the end of the module"),
        ("module {\n tt.func @k(%x) {\n}\n}", "<ttir>:2:15: unexpected `)`; expected `:`"),
        ("module {\n tt.func k() {\n}\n}", "expected a symbol such as `@name`"),
        ("module {\n tt.func @k() {\n", "expected `}`"),
        ("#loc = loc(unknown", "expected a closing parenthesis"),
    ],
)
def test_broken_module(text: str, message: str) -> None:
    if not text:
        assert parse_module(text).functions == ()
        return
    with pytest.raises(ParseError) as caught:
        parse_module(text)
    assert message in str(caught.value)


def test_two_hundred_operations_in_thirty_milliseconds() -> None:
    lines = "\n".join(f'%v{index} = arith.addf %x, %x : tensor<8xf32> loc("f.py":{index}:4)' for index in range(200))
    text = module_text(lines)
    times: list[float] = []
    for _ in range(10):
        start = time.process_time()
        parse_module(text)
        times.append(time.process_time() - start)
    assert min(times) < 0.030


@pytest.mark.parametrize("drop_rest", [True, False], ids=["cut off", "one token missing"])
def test_damaged_text_never_fails_in_another_way(drop_rest: bool) -> None:
    """Whatever token is lost, the parser answers with a module or a ParseError."""
    body = """%0 = arith.constant dense<[1, 2]> : tensor<2xi32> loc(callsite("a.py":1:2 at #loc1))
    %1:2 = scf.for %k = %i to %i step %i iter_args(%q = %x, %r = %f) -> (tensor<8xf32>, f32) : i32 {
      %v = tt.load %pt, %m {boundaryCheck = array<i32: 0>, a = [1 : i32]} : tensor<8x!tt.ptr<f32>>
      scf.yield %q, %r : tensor<8xf32>, f32
    } {tt.num_stages = 2 : i32}
    %2 = "tt.reduce"(%x) <{axis = 0 : i32}> ({
    ^bb0(%s0: f32, %s1: f32):
      tt.reduce.return %s0 : f32
    }) : (tensor<8xf32>) -> f32
    %3 = tt.advance %bp, [%i, %i] : <tensor<16x32xf16>>
    %4 = arith.select %m, %x, %x : tensor<8xi1>, tensor<8xf32>
    cf.cond_br %b, ^bb1(%i : i32), ^bb2
    ^bb1(%z: i32):
    cf.br ^bb2
    ^bb2:"""
    text = module_text(body) + '#loc1 = loc("x"("b.py":3:4))\n'
    failures = 0
    for token in tokenize(Source(text, "f"))[:-1]:
        damaged = text[: token.offset] + ("" if drop_rest else text[token.offset + len(token.text) :])
        try:
            parse_module(damaged)
        except ParseError:
            failures += 1
    assert failures > 200
