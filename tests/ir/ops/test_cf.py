"""The `cf` dialect's text: blocks, labels and what is passed to them."""

from __future__ import annotations

from tilesight.ir import first_difference, parse_module, print_module, verify

TEXT = """module {
  tt.func public @k(%i: i32, %b: i1, %p: !tt.ptr<i32>) {
    cf.cond_br %b, ^bb1, ^bb2(%i, %i : i32, i32)
  ^bb1:  // pred: ^bb0
    tt.return
  ^bb2(%x: i32, %y: i32):  // 2 preds: ^bb0, ^bb2
    %0 = arith.addi %x, %y : i32
    %1 = arith.cmpi slt, %0, %i : i32
    cf.cond_br %1, ^bb2(%0, %x : i32, i32), ^bb3
  ^bb3:
    tt.store %p, %0 : !tt.ptr<i32>
    cf.br ^bb1
  }
}
"""


def test_branches_hold_their_blocks_and_operands() -> None:
    module = parse_module(TEXT)
    verify(module)
    entry, done, loop, last = module.kernel.body.blocks
    branch = entry.operations[0]
    assert [block for block, _ in branch.successors] == [done, loop]
    assert [[value.name for value in values] for _, values in branch.successors] == [[], ["i", "i"]]
    assert branch.operand_segments["condition"][0].name == "b"
    assert loop.operations[-1].successors[0][0] is loop
    assert last.operations[-1].successors == ((done, ()),)
    assert [block.label for block in module.kernel.body.blocks] == ["", "bb1", "bb2", "bb3"]


def test_blocks_survive_a_round_trip() -> None:
    module = parse_module(TEXT)
    assert first_difference(module, parse_module(print_module(module))) == ""
