"""The `scf` dialect's text."""

from __future__ import annotations

import pytest

from ..snippets import parse_body, parse_one, printed_body

LOOP = """
%0:2 = scf.for %k = %i to %i step %i iter_args(%q = %x, %r = %f) -> (tensor<8xf32>, f32) : i32 {
  scf.yield %q, %r : tensor<8xf32>, f32
} {tt.num_stages = 2 : i32}
"""


def test_for_with_iteration_arguments() -> None:
    loop = parse_one(LOOP)
    induction, *arguments = loop.regions[0].entry.arguments
    assert {name: len(values) for name, values in loop.operand_segments.items()} == {
        "lower": 1,
        "upper": 1,
        "step": 1,
        "init": 2,
    }
    assert (induction.name, str(induction.type)) == ("k", "i32")
    assert [argument.name for argument in arguments] == ["q", "r"]
    assert [str(result.type) for result in loop.results] == ["tensor<8xf32>", "f32"]
    assert loop.attributes == {"tt.num_stages": 2}


def test_for_without_results_gets_its_yield() -> None:
    loop = parse_one("scf.for %k = %idx to %idx step %idx {\n %0 = arith.addi %i, %i : i32\n}")
    assert [operation.name for operation in loop.regions[0].entry.operations] == ["arith.addi", "scf.yield"]
    assert str(loop.regions[0].entry.arguments[0].type) == "index"
    assert loop.operand_segments["init"] == ()


def test_unsigned_for() -> None:
    body = "scf.for unsigned %k = %i to %i step %i : i32 {\n}"
    assert parse_one(body).attributes == {"unsignedCmp": True}
    assert printed_body(body) == body


def test_if_without_else_has_an_empty_region() -> None:
    branch = parse_one("scf.if %b {\n  tt.store %p, %f : !tt.ptr<f32>\n}")
    then, otherwise = branch.regions
    assert [operation.name for operation in then.entry.operations] == ["tt.store", "scf.yield"]
    assert otherwise.blocks == []


def test_if_with_results() -> None:
    body = "%0 = scf.if %b -> (f32) {\n  scf.yield %f : f32\n} else {\n  scf.yield %f : f32\n}"
    branch = parse_one(body)
    assert branch.operand_segments["condition"][0].name == "b"
    assert printed_body(body) == body


def test_while() -> None:
    body = """
%0:2 = scf.while (%q = %i, %r = %x) : (i32, tensor<8xf32>) -> (tensor<8xf32>, i32) {
  %c0 = arith.cmpi slt, %q, %i : i32
  scf.condition(%c0) %r, %q : tensor<8xf32>, i32
} do {
^bb0(%u: tensor<8xf32>, %v: i32):
  scf.yield %v, %u : i32, tensor<8xf32>
} attributes {tt.x = 1 : i32}"""
    loop = parse_one(body)
    before, after = loop.regions
    condition = before.entry.operations[-1]
    assert [argument.name for argument in before.entry.arguments] == ["q", "r"]
    assert [argument.name for argument in after.entry.arguments] == ["u", "v"]
    assert [value.name for value in condition.operand_segments["condition"]] == ["c0"]
    assert [value.name for value in condition.operand_segments["args"]] == ["r", "q"]
    assert loop.attributes == {"tt.x": 1}


def test_while_without_values() -> None:
    loop = parse_one("scf.while : () -> () {\n  scf.condition(%b)\n} do {\n  scf.yield\n}")
    assert loop.operand_segments == {"init": ()}
    assert loop.results == ()


@pytest.mark.parametrize("inner", ["%z = arith.addi %i, %k : i32", "%z = arith.addi %k, %k : i32"])
def test_sibling_regions_may_use_a_name_again(inner: str) -> None:
    loop = f"scf.for %k = %i to %i step %i : i32 {{\n  {inner}\n}}\n"
    operations = parse_body(loop * 2).kernel.body.entry.operations
    first, second = (operation.regions[0].entry.operations[0].results[0] for operation in operations[:2])
    assert first.name == second.name == "z"
    assert first is not second
