"""A launched kernel's module with other compile-time integers, from what Triton itself keeps of the launch."""

from __future__ import annotations

from itertools import chain
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from tilesight.capture import launches
from tilesight.capture import variants as variants_module
from tilesight.capture.launches import EngineSession
from tilesight.capture.variants import changed_functions, generalise, take_turns, vary_constants
from tilesight.ir import Module, parse_module

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false, reportGeneralTypeIssues=false

COLUMNS = tl.constexpr(8)


@triton.jit
def copy_rows(x, y, stride, BLOCK: tl.constexpr):
    first = 3
    c = tl.arange(0, BLOCK)
    tl.store(y + c * stride, tl.load(x + c, mask=c < COLUMNS + first, other=0.0))


@triton.jit
def unrolled(x, y, stride, BLOCK: tl.constexpr, COUNT: tl.constexpr = 2):
    c = tl.arange(0, BLOCK)
    for place in tl.static_range(COUNT):
        tl.store(y + place * BLOCK + c * stride, tl.load(x + place * BLOCK + c))


def launched(monkeypatch: pytest.MonkeyPatch, stride: int, kernel: Any = copy_rows) -> tuple[Any, Any]:
    """The source and metadata that Triton hands over for a launch."""
    kept: list[tuple[Any, Any]] = []
    build = launches.build_launch

    def keep(source: Any, metadata: Any, *rest: Any) -> Any:
        kept.append((source, metadata))
        return build(source, metadata, *rest)

    monkeypatch.setattr(launches, "build_launch", keep)
    with EngineSession():
        kernel[(1,)](torch.zeros(64), torch.zeros(256), stride, BLOCK=16)
    return kept[0]


def constants_of(module: Module) -> set[object]:
    ends = [inner.attributes["end"] for inner in module.kernel.walk() if inner.name == "tt.make_range"]
    return {end for end in ends if isinstance(end, int)}


def splats_of(module: Module) -> set[object]:
    """The numbers that blocks are compared with."""
    constants = [inner.attributes["value"] for inner in module.kernel.walk() if inner.name == "arith.constant"]
    return {number for value in constants for number in getattr(value, "values", ()) if type(number) is int}


def test_every_kind_of_number_is_varied(monkeypatch: pytest.MonkeyPatch) -> None:
    source, metadata = launched(monkeypatch, 2)
    variants = list(vary_constants(source, metadata))
    blocks = set[object]().union(*map(constants_of, variants))
    assert {8, 16, 32, 128, 512} <= blocks
    assert 17 not in blocks, "a range of 17 does not compile"
    bounds = set[object]().union(*map(splats_of, variants))
    assert {8 + 3, 9 + 3, 4 + 3, 16 + 3, 8 + 4, 8 + 1, 8 + 6} <= bounds


def test_an_argument_of_1_is_an_argument_again(monkeypatch: pytest.MonkeyPatch) -> None:
    source, metadata = launched(monkeypatch, 1)
    assert source.signature["stride"] == "constexpr"
    constants, signature = generalise(source)
    assert signature["stride"] == "i32"
    assert [value for value in constants.values() if value == 1] == []
    first = next(iter(vary_constants(source, metadata)))
    assert [argument.name for argument in first.kernel.arguments] == ["x", "y", "stride"]


def test_the_function_itself_is_left_as_it_is() -> None:
    before, scope = copy_rows.src, dict(copy_rows.__globals__)
    others = list(chain.from_iterable(changed_functions(copy_rows)))
    assert len(others) > 10
    assert copy_rows.src == before
    assert copy_rows.__globals__ == scope


def test_a_loop_that_is_unrolled_does_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of COUNT = 2 the variants are 3, 1, 4 and 16: that is where the kernel is more than four times as long."""
    variants = list(vary_constants(*launched(monkeypatch, 2, unrolled)))
    stores = [sum(each.name == "tt.store" for each in variant.kernel.walk()) for variant in variants]
    assert {1, 3, 4, 16} <= set(stores)
    assert max(stores) == 16


def test_numbers_take_turns_and_end_after_the_sure_rounds_where_that_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = "module {{\n  tt.func public @k{}() {{\n    tt.return\n  }}\n}}\n"
    modules = [parse_module(empty.format(index)) for index in range(9)]

    def order() -> list[int]:
        series = [iter([modules[0], None, *modules[1:5]]), iter(modules[5:6]), iter(modules[6:])]
        return [modules.index(module) for module in take_turns(series)]

    assert order() == [0, 5, 6, 7, 1, 8, 2, 3, 4]
    monkeypatch.setattr(variants_module, "MOST_OPERATIONS", 1)
    assert order() == [0, 5, 6, 7, 1, 8], "three rounds, in which None counts"
