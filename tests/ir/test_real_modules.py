"""Modules that the installed Triton prints: read, verified, printed, read again, and judged by Triton's own parser."""

from __future__ import annotations

import re

import pytest

from tilesight.ir import first_difference, parse_module, print_module, verify
from tilesight.ir.module import Location

from .kernels import CASES, reprinted_by_triton, ttir


@pytest.mark.parametrize("name", CASES)
def test_round_trip(name: str) -> None:
    text = ttir(name)
    module = parse_module(text)
    verify(module)
    printed = print_module(module)
    again = parse_module(printed)
    assert first_difference(module, again) == ""
    assert print_module(again) == printed
    assert module.kernel.name == name
    assert module.text == text


@pytest.mark.parametrize("name", CASES)
def test_triton_reads_what_we_print(name: str) -> None:
    module = parse_module(ttir(name))
    theirs = parse_module(reprinted_by_triton(print_module(module)))
    assert first_difference(module, theirs, with_locations=False) == ""


@pytest.mark.parametrize("name", CASES)
def test_every_operation_of_a_kernel_points_into_it(name: str) -> None:
    """`kernel_frame` is a line of the kernel's file, also for what was inlined from Triton's library."""
    frames = {operation.location.kernel_frame for operation in parse_module(ttir(name)).kernel.walk()}
    files = {frame.file.rsplit("/", 1)[-1] for frame in frames if frame != Location()}
    assert files == {"kernels.py"}


def test_load_of_softmax() -> None:
    module = parse_module(ttir("softmax"))
    (load,) = [operation for operation in module.kernel.walk() if operation.name == "tt.load"]
    (reduction, _) = [operation for operation in module.kernel.walk() if operation.name == "tt.reduce"]
    assert [value.name for value in module.kernel.arguments] == ["x", "y", "n"]
    assert module.kernel.attributes["arg_attrs"] == ({"tt.divisibility": 16}, {}, {})
    assert {name: len(values) for name, values in load.operand_segments.items()} == {"ptr": 1, "mask": 1, "other": 1}
    assert load.location.name == "values"
    assert reduction.attributes == {"axis": 0}
    assert reduction.location.file.endswith("standard.py")
    assert reduction.location.kernel_frame.line == load.location.line + 1


CACHE_ALL = "#tt.cache_policy<cache_modifier = ca, eviction_policy = evict_normal>"
"""How Triton 3.9 writes what earlier versions write as `cacheModifier = ca`."""


def test_loop_of_matmul() -> None:
    module = parse_module(ttir("matmul"))
    (loop,) = [operation for operation in module.kernel.walk() if operation.name == "scf.for"]
    assert loop.regions[0].entry.arguments[0].name == "k"
    assert len(loop.operand_segments["init"]) == len(loop.results) == 3
    (dot,) = [operation for operation in module.kernel.walk() if operation.name == "tt.dot"]
    assert dot.attributes == {"inputPrecision": "tf32", "maxNumImpreciseAcc": 32}
    loads = [operation for operation in loop.walk() if operation.name == "tt.load"]
    assert loads[0].attributes == {}
    assert loads[1].attributes in ({"cacheModifier": "ca"}, {"cachePolicy": CACHE_ALL})


def test_modules_without_locations_parse() -> None:
    text = print_module(parse_module(ttir("softmax")))
    bare = re.sub(r" loc\(#loc\d+\)|^#.*", "", text, flags=re.MULTILINE)
    assert "loc(" not in bare
    module = parse_module(bare)
    verify(module)
    assert all(operation.location == Location() for operation in module.kernel.walk())
