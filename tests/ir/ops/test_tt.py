"""The `tt` dialect's text; the lines are as Triton 3.7 prints them."""

from __future__ import annotations

import pytest

from tilesight.ir import Operation, SymbolRef, TensorType, parse_module, verify

from ..snippets import parse_body, parse_one, printed_body

LINES = """
%0 = tt.get_program_id y : i32
%0 = tt.get_num_programs z : i32
%0 = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
%0 = tt.splat %p : !tt.ptr<f32> -> tensor<8x!tt.ptr<f32>>
%0 = tt.broadcast %row : tensor<1x8xf32> -> tensor<4x8xf32>
%0 = tt.expand_dims %x {axis = 1 : i32} : tensor<8xf32> -> tensor<8x1xf32>
%0 = tt.reshape %a allow_reorder efficient_layout : tensor<16x32xf16> -> tensor<512xf16>
%0 = tt.trans %a {order = array<i32: 1, 0>} : tensor<16x32xf16> -> tensor<32x16xf16>
%0 = tt.join %x, %x : tensor<8xf32> -> tensor<8x2xf32>
%0 = tt.cat %x, %x : tensor<8xf32> -> tensor<16xf32>
%0 = tt.addptr %pt, %n {tt.divisibility = dense<16> : tensor<1xi32>} : tensor<8x!tt.ptr<f32>>, tensor<8xi32>
%0 = tt.load %p : !tt.ptr<f32>
%0 = tt.load %pt, %m, %x cacheModifier = ca evictionPolicy = evict_last {isVolatile = true} : tensor<8x!tt.ptr<f32>>
%0 = tt.load %bp {boundaryCheck = array<i32: 0, 1>, padding = 2 : i32} : !tt.ptr<tensor<16x32xf16>>
tt.store %pt, %x, %m cacheModifier = cs : tensor<8x!tt.ptr<f32>>
tt.store %bp, %a {boundaryCheck = array<i32: 0>} : !tt.ptr<tensor<16x32xf16>>
%0 = tt.atomic_rmw fadd, acq_rel, gpu, %pt, %x, %m\
 : (tensor<8x!tt.ptr<f32>>, tensor<8xf32>, tensor<8xi1>) -> tensor<8xf32>
%0 = tt.atomic_rmw fadd, relaxed, cta, %p, %f : (!tt.ptr<f32>, f32) -> f32
%0 = tt.atomic_cas acquire, sys, %p, %f, %f : (!tt.ptr<f32>, f32, f32) -> f32
%0 = tt.make_tensor_ptr %p, [%l, %l], [%l, %l], [%i, %i] {order = array<i32: 1, 0>} : <tensor<16x32xf32>>
%0 = tt.advance %bp, [%i, %i] : <tensor<16x32xf16>>
%0 = tt.make_tensor_descriptor %p, [%i, %i], [%l, %l] : <f32>, <tensor<16x32xf32>>
%0 = tt.descriptor_load %desc[%i, %i] cacheModifier = cg : !tt.tensordesc<tensor<16x32xf16>> -> tensor<16x32xf16>
tt.descriptor_store %desc[%i, %i], %a : !tt.tensordesc<tensor<16x32xf16>>, tensor<16x32xf16>
tt.descriptor_reduce add, %desc[%i, %i], %a : !tt.tensordesc<tensor<16x32xf16>>, tensor<16x32xf16>
%0 = tt.descriptor_gather %desc[%n, %i] : (!tt.tensordesc<tensor<16x32xf16>>, tensor<8xi32>, i32) -> tensor<8x32xf16>
tt.descriptor_scatter %desc[%n, %i], %a : !tt.tensordesc<tensor<16x32xf16>>, tensor<8xi32>, i32, tensor<16x32xf16>
%0 = tt.dot %a, %t, %c, inputPrecision = tf32 {maxNumImpreciseAcc = 32 : i32}\
 : tensor<16x32xf16> * tensor<32x16xf16> -> tensor<16x16xf32>
%0 = tt.dot_scaled %a, %t, %c lhs = e4m3 rhs = e5m2 {fastMath = true}\
 : tensor<16x32xf16> * tensor<32x16xf16> -> tensor<16x16xf32>
%0 = tt.dot_scaled %a scale %n8, %t, %c lhs = e2m1 rhs = bf16 {fastMath = false}\
 : tensor<16x32xf16>, tensor<8xi8> * tensor<32x16xf16> -> tensor<16x16xf32>
%0 = tt.gather %x[%n] {axis = 0 : i32, efficient_layout} : (tensor<8xf32>, tensor<8xi32>) -> tensor<8xf32>
%0 = tt.histogram %n, %m : tensor<8xi32> -> tensor<16xi32>
%0 = tt.bitcast %x : tensor<8xf32> -> tensor<8xi32>
%0 = tt.fp_to_fp %x, rounding = rtne : tensor<8xf32> -> tensor<8xf8E4M3FN>
%0 = tt.fp_to_fp %h : f16 -> f32
%0 = tt.int_to_ptr %l : i64 -> !tt.ptr<f32>
%0 = tt.ptr_to_int %pt : tensor<8x!tt.ptr<f32>> -> tensor<8xi64>
%0 = tt.mulhiui %n, %n : tensor<8xi32>
%0 = tt.clampf %x, %x, %x, propagateNan = all : tensor<8xf32>
%0 = tt.precise_sqrt %x : tensor<8xf32>
%0 = tt.precise_divf %x, %x : tensor<8xf32>
%0 = tt.extern_elementwise %x, %x {libname = "", libpath = "", pure = true, symbol = "__nv_powf"}\
 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
%0:2 = tt.elementwise_inline_asm "add $0;\\0A\\22q\\22" {constraints = "=r", packed_element = 1\
 : i32, pure = true} %x, %n : tensor<8xf32>, tensor<8xi32> -> tensor<8xf32>, tensor<8xi32>
%0 = tt.elementwise_inline_asm "mov.u64 $0, %globaltimer;" {constraints = "=l", pure = false} -> i64
tt.print " x: " {hex = false, isSigned = array<i32: 0, 1>} : %x, %n : tensor<8xf32>, tensor<8xi32>
tt.print "hi" {hex = true, isSigned = array<i32>}
tt.assert %m, "no \\22way\\22" : tensor<8xi1>
ttg.barrier all
ttg.barrier local|global_read
gpu.barrier
llvm.intr.assume %b : i1
%0 = ub.poison : tensor<8xf32>
""".strip().split("\n")


@pytest.mark.parametrize("line", LINES)
def test_line_is_printed_as_it_was_read(line: str) -> None:
    assert printed_body(line) == line


def segments(operation: Operation) -> dict[str, list[str]]:
    return {name: [value.name for value in values] for name, values in operation.operand_segments.items()}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%0 = tt.load %p : !tt.ptr<f32>", {"ptr": ["p"], "mask": [], "other": []}),
        (
            "%0 = tt.load %pt, %m : tensor<8x!tt.ptr<f32>>",
            {"ptr": ["pt"], "mask": ["m"], "other": []},
        ),
        ("tt.store %p, %f : !tt.ptr<f32>", {"ptr": ["p"], "value": ["f"], "mask": []}),
        (
            "%0 = tt.atomic_rmw fadd, acq_rel, gpu, %p, %f : (!tt.ptr<f32>, f32) -> f32",
            {"ptr": ["p"], "value": ["f"], "mask": []},
        ),
        (
            "tt.descriptor_store %desc[%i, %idx], %a : !tt.tensordesc<tensor<16x32xf16>>, tensor<16x32xf16>",
            {"descriptor": ["desc"], "value": ["a"], "indices": ["i", "idx"]},
        ),
        (
            "%0 = tt.dot_scaled %a, %t scale %n8, %c lhs = e4m3 rhs = e5m2 "
            ": tensor<16x32xf16> * tensor<32x16xf16>, tensor<8xi8> -> tensor<16x16xf32>",
            {"a": ["a"], "b": ["t"], "c": ["c"], "a_scale": [], "b_scale": ["n8"]},
        ),
        (
            "%0 = tt.make_tensor_ptr %p, [%l], [%l], [%i] {order = array<i32: 0>} : <tensor<16xf32>>",
            {"base": ["p"], "shape": ["l"], "strides": ["l"], "offsets": ["i"]},
        ),
    ],
)
def test_operand_segments(line: str, expected: dict[str, list[str]]) -> None:
    operation = parse_one(line)
    assert segments(operation) == expected
    assert [value.name for value in operation.operands] == [name for names in expected.values() for name in names]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%0 = tt.get_program_id z : i32", {"axis": 2}),
        ("%0 = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>", {"start": 0, "end": 8}),
        (
            "%0 = tt.load %p evictionPolicy = evict_first cacheModifier = cg : !tt.ptr<f32>",
            {"evictionPolicy": "evict_first", "cacheModifier": "cg"},
        ),
        (
            "%0 = tt.atomic_cas acq_rel, gpu, %p, %f, %f : (!tt.ptr<f32>, f32, f32) -> f32",
            {"sem": "acq_rel", "scope": "gpu"},
        ),
        ('tt.assert %m, "say \\22no\\22" : tensor<8xi1>', {"message": 'say "no"'}),
        ("%0 = tt.reshape %x allow_reorder : tensor<8xf32> -> tensor<2x4xf32>", {"allow_reorder": True}),
        ("%0 = tt.fp_to_fp %x, rounding = rtz : tensor<8xf32> -> tensor<8xf8E5M2>", {"rounding": "rtz"}),
    ],
)
def test_attributes(line: str, expected: dict[str, object]) -> None:
    assert parse_one(line).attributes == expected


def test_split_prints_one_type_for_two_results() -> None:
    module = parse_body(
        "%0 = tt.join %x, %x : tensor<8xf32> -> tensor<8x2xf32>\n"
        "%outLHS, %outRHS = tt.split %0 : tensor<8x2xf32> -> tensor<8xf32>"
    )
    split = module.kernel.body.entry.operations[1]
    assert [value.name for value in split.results] == ["outLHS", "outRHS"]
    assert {str(value.type) for value in split.results} == {"tensor<8xf32>"}


def test_unsplat_gives_the_element() -> None:
    body = "%0 = tt.splat %i : i32 -> tensor<1xi32>\n%1 = tt.unsplat %0 : tensor<1xi32>"
    assert str(parse_body(body).kernel.body.entry.operations[1].results[0].type) == "i32"


def test_reduce_of_several_operands() -> None:
    body = """%0:2 = "tt.reduce"(%x, %n) <{axis = 0 : i32}> ({
    ^bb0(%q: f32, %r: i32, %s0: f32, %t0: i32):
      tt.reduce.return %q, %r : f32, i32
    }) : (tensor<8xf32>, tensor<8xi32>) -> (f32, i32)
    %1 = arith.addi %0#1, %i : i32"""
    reduction, addition = parse_body(body).kernel.body.entry.operations[:2]
    assert segments(reduction) == {"srcs": ["x", "n"]}
    assert [value.name for value in reduction.results] == ["0#0", "0#1"]
    assert [str(value.type) for value in reduction.regions[0].entry.arguments] == ["f32", "i32", "f32", "i32"]
    assert addition.operands[0] is reduction.results[1]


@pytest.mark.parametrize("operation", ["tt.scan", "tt.map_elementwise"])
def test_generic_forms_with_regions(operation: str) -> None:
    attributes = {"tt.scan": "axis = 0 : i32, reverse = false", "tt.map_elementwise": "pack = 1 : i32"}[operation]
    arguments = {"tt.scan": "%q: f32, %r: f32", "tt.map_elementwise": "%q: f32"}[operation]
    body = f"""%0 = "{operation}"(%x) <{{{attributes}}}> ({{
    ^bb0({arguments}):
      {operation}.return %q : f32
    }}) : (tensor<8xf32>) -> tensor<8xf32>"""
    assert len(parse_one(body).regions[0].entry.operations) == 1


def test_generic_form_of_a_known_operation_gets_its_segments() -> None:
    line = (
        '%0 = "tt.load"(%pt, %m) <{cache = 1 : i32, operandSegmentSizes = array<i32: 1, 1, 0>}> '
        ": (tensor<8x!tt.ptr<f32>>, tensor<8xi1>) -> tensor<8xf32>"
    )
    assert segments(parse_one(line)) == {"ptr": ["pt"], "mask": ["m"], "other": []}


def test_call_names_its_function() -> None:
    text = """module {
  tt.func public @k(%i: i32) {
    %0:2 = tt.call @"ns.helper__i32"(%i) : (i32) -> (i32, i1)
    tt.call @nothing() : () -> ()
    tt.return
  }
  tt.func private @"ns.helper__i32"(%i: i32) -> (i32, i1) attributes {noinline = true} {
    %true = arith.constant true
    tt.return %i, %true : i32, i1
  }
  tt.func private @nothing() {
    tt.return
  }
}"""
    module = parse_module(text)
    verify(module)
    call = module.kernel.body.entry.operations[0]
    assert call.attributes["callee"] == SymbolRef("ns.helper__i32")
    helper = module.function("ns.helper__i32")
    assert (helper.is_public, helper.attributes) == (False, {"noinline": True})
    assert [str(type_) for type_ in helper.result_types] == ["i32", "i1"]


def test_descriptor_type_of_triton_3_8() -> None:
    line = "%0 = tt.make_tensor_descriptor %p, [%i, %i], [%l, %l] : <f32>, <16x32xf32>"
    new = parse_one(line)
    old = parse_one(line.replace("<16x32xf32>", "<tensor<16x32xf32>>"))
    assert new.results[0].type == old.results[0].type
    block = getattr(new.results[0].type, "block", None)
    assert isinstance(block, TensorType)
    assert block.shape == (16, 32)
