"""`tilesight observe output_code.py`: generated code from a file, read and not run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from tests.contracts.test_schemas import validate
from tests.roads.left_behind import LeftBehind
from tilesight.capture.inductor.on_engine import capture
from tilesight.capture.inductor.trusted import reason_not_to_load
from tilesight.capture.inputs import parse_inputs
from tilesight.errors import InputError
from tilesight.roads.model import Observation
from tilesight.roads.saved_code import observe_code, observe_code_file
from tilesight.targets import target


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True) * 2


INDEX_LIMIT_CHECKED = "index out of bounds"


@pytest.fixture(scope="module")
def seen(h200_code: Path) -> Observation:
    return observe_code_file(h200_code)


def test_the_kernels_stand_in_order_with_grids_configs_and_operators(seen: Observation, h200_code: Path) -> None:
    product, reduction, indexed = seen.kernels
    assert (product.kind, product.ops, product.grid) == ("extern", ("aten.mm",), None)
    assert (reduction.kind, reduction.grid, reduction.config["XBLOCK"]) == ("triton", (64, 1, 1), 1)
    assert indexed.kind == "triton" and "aten.index" in indexed.ops and INDEX_LIMIT_CHECKED in indexed.source
    assert reduction.parts.load and reduction.parts.store and reduction.parts.mask and reduction.parts.program_id
    assert reduction.reads == ("buf0",) and indexed.writes == (returned_first(h200_code.read_text()),)


def returned_first(code: str) -> str:
    """The first of what the generated code returns; how many buffers come before it differs between versions."""
    return re.findall(r"return \((\w+),", code)[-1]


def bytes_of_buffer(code: str, name: str) -> int:
    """As the generated code allocates it."""
    (made,) = re.findall(rf"^ +{name} = empty_strided_cuda\((\(.*?\)), (\(.*?\)), (torch\.\w+)\)", code, re.MULTILINE)
    size, stride, dtype = (eval(text, {"torch": torch}) for text in made)
    return torch.empty_strided(size, stride, dtype=dtype).nbytes


def test_bytes_are_those_of_the_tensors(seen: Observation, h200_code: Path) -> None:
    """64 rows of 48 floats read once, and each result written once: three a row at least."""
    reduction, code = seen.kernels[1], h200_code.read_text()
    written = sum(bytes_of_buffer(code, name) for name in reduction.writes)
    assert len(reduction.writes) >= 3 and written >= 64 * 3 * 4
    assert reduction.bytes.touched == 64 * 48 * 4 + written
    assert reduction.bytes.requested == reduction.bytes.touched
    assert any(trip.tensor == "buf0" for trip in seen.ledger.round_trips)


def test_what_code_does_not_tell_is_null_and_said(seen: Observation) -> None:
    data = seen.to_dict()
    validate("observe", data)
    assert data["torch"] is None and data["triton"] is None
    assert seen.ledger.eager_bytes is None and seen.compile.cold_s is None and seen.compile.cache is None
    assert seen.target == "h200 or h100"  # the code names the architecture and the SMs alone
    assert any("random inputs" in note for note in seen.notes)


def test_the_graph_is_read_from_the_comments(seen: Observation) -> None:
    targets = [op.target for op in seen.graph.ops]
    assert {"aten.relu.default", "aten.index.Tensor", "aten.exp.default"} <= set(targets)
    index = next(op for op in seen.graph.ops if op.name == "index")
    assert index.shape == (16, 48) and "arg2_1" in index.inputs


def test_code_of_the_cpp_back_end_is_read_with_the_graph_beside_it(left_behind: LeftBehind) -> None:
    seen = observe_code_file(left_behind.output_code("0_inference_0"))
    product, relu = seen.kernels
    assert (product.kind, relu.kind, seen.target) == ("extern", "cpp", "cpu")
    assert "clamp_min" in relu.source and relu.reads == ("buf0",) and relu.writes == ("buf1",)
    assert [op.target for op in seen.graph.ops] == ["aten.mm.default", "aten.relu.default"]
    assert seen.graph.ops[0].source == f"{left_behind.script}:7"
    assert seen.kernels[0].bytes.requested is None
    validate("observe", seen.to_dict())


def test_backward_code_is_told_as_such(left_behind: LeftBehind) -> None:
    seen = observe_code_file(left_behind.output_code("backward"))
    assert {kernel.graph for kernel in seen.kernels} == {"backward"}


def test_code_that_is_more_than_a_kernel_is_not_loaded(h200_code: Path, tmp_path: Path) -> None:
    """A line that would write a file when the kernel's module is loaded: it is named, and never run."""
    proof = tmp_path / "was_run"
    text = h200_code.read_text()
    head = "triton_helpers.set_driver_to_gpu()\n"
    assert text.count(head) == 2
    changed = text.replace(head, f"{head}open({str(proof)!r}, 'w').close()\n", 1)
    seen = observe_code(changed, "output_code.py")
    assert not proof.exists()
    assert seen.kernels[1].grid is None and seen.kernels[1].bytes.requested is None
    assert any("is more than a kernel: open(" in note for note in seen.notes)
    assert seen.kernels[2].grid == (3, 1, 1)  # the others stand


@pytest.mark.parametrize(
    "line",
    [
        "import os",
        "from subprocess import run",
        "x = open('f')",
        "x = [].__class__",
        "for i in range(3): pass",
        "@evil\ndef f(): pass",
        "@triton.jit\ndef f(x=print(1)): pass",
        "@triton_heuristics.pointwise(filename=exec('1'))\ndef f(): pass",
        "def f(): pass",
        "class A: pass",
        "x = (lambda: 0)",
        "not python at all",
    ],
)
def test_what_does_more_than_define_a_kernel_is_seen(line: str) -> None:
    assert reason_not_to_load(f"import triton\n{line}\n")


def test_a_kernel_alone_is_let_through(seen: Observation) -> None:
    assert all(reason_not_to_load(kernel.source) == "" for kernel in seen.kernels if kernel.kind == "triton")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(x):\n    return x\n", "not generated by Inductor"),
        ("x = (\n", "no Python"),
        ("from torch._inductor.async_compile import AsyncCompile\n", "not generated by Inductor"),
    ],
)
def test_what_is_not_inductors_is_refused_in_one_sentence(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        observe_code(text, "theirs.py")
    assert str(caught.value).startswith("theirs.py") and "\n" not in str(caught.value)


def test_code_that_was_cut_off_says_where(h200_code: Path) -> None:
    text = h200_code.read_text()
    with pytest.raises(InputError, match=r"theirs\.py:\d+: no Python"):
        observe_code(text[: text.index("tl.program_id")], "theirs.py")


def test_what_each_torch_asserts_of_a_library_calls_result_is_read() -> None:
    """torch 2.11 writes no operator's name behind the strides, 2.13 does, and 2.14 has a call of another name."""
    query = "bf16[2,4,128,64]"
    graph = capture(attend, parse_inputs(f"{query},{query},{query}"), target("h200"))
    own = graph.regions[0].code
    asserted = re.compile(
        r"assert_(?:size_stride|tensor_metadata)\((\w+, \([^)]*\), \([^)]*\))"
        r"(?:, torch\.\w+)?(?:, '(?!input')[^']*')?\)"
    )
    forms = (
        r"assert_size_stride(\1)",
        r"assert_size_stride(\1, 'torch.ops.aten.f.default')",
        r"assert_tensor_metadata(\1, torch.bfloat16, 'torch.ops.aten.f.default')",
    )
    codes = [own, *(asserted.sub(form, own) for form in forms)]
    assert len(set(codes)) >= 3
    kernels = [[(k.name, k.bytes, k.reads, k.writes) for k in observe_code(code, "x.py").kernels] for code in codes]
    assert all(each == kernels[0] for each in kernels)
