"""Generated kernels taken out as files: each runs, agrees with its reference, and tells when it is broken."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import util
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import tilesight
from tests.roads.left_behind import LeftBehind
from tilesight.capture.inductor.fragment_reference import operands_of
from tilesight.capture.inductor.plain_kernel import renamed, short_name
from tilesight.capture.inductor.saved_code import read_code
from tilesight.capture.inductor.standalone import stand_alone
from tilesight.errors import UnsupportedError
from tilesight.roads.export import with_exports
from tilesight.roads.model import Exported, Observation
from tilesight.roads.observe import observe
from tilesight.roads.saved_code import observe_code_file
from tilesight.roads.traces import TraceObserver, traced


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (200,), weight, bias)


def looped_softmax(scores: torch.Tensor) -> torch.Tensor:
    return torch.softmax(scores, -1)


def gathered(table: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return torch.relu(table[rows]) * 2


def added_in_place(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y)
    return x.exp()


def every_other(x: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(x[:, ::2])


def scattered(out: torch.Tensor, rows: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    return out.index_add(0, rows, values)


def logarithm(x: torch.Tensor) -> torch.Tensor:
    return torch.log(x)


def column_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(0)


def to_fp8(x: torch.Tensor) -> torch.Tensor:
    return (x * 3).clamp(-448, 448).to(torch.float8_e4m3fn)


def drops(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(x, 0.5, training=True)


GRAPH, ITSELF = "graph", "generated kernel"
FUNCTIONS: list[tuple[Callable[..., Any], str, set[str]]] = [
    (layer_norm, "bf16[40,200],bf16[200],bf16[200]", {GRAPH}),
    (looped_softmax, "f32[64,4000]", {GRAPH}),
    (gathered, "f32[50,33],i64[20]<50", {GRAPH}),
    (added_in_place, "f32[1000],f32[1000]", {GRAPH}),
    (every_other, "f32[10,64]", {GRAPH}),
    (scattered, "f32[10,8],i64[40]<10,f32[40,8]", {ITSELF}),
    (logarithm, "f32[100]", {GRAPH}),
    (column_sum, "f32[5000,200]", {ITSELF}),
    (to_fp8, "bf16[100]", {GRAPH}),
    (drops, "f32[300]", {ITSELF}),
]
cases = pytest.mark.parametrize(("function", "inputs", "against"), FUNCTIONS, ids=lambda v: getattr(v, "__name__", ""))


@pytest.fixture(autouse=True)
def engine_given_back() -> Iterator[None]:
    """An exported file turns the engine on for its process."""
    yield
    tilesight.disable()


@cache
def export(function: Callable[..., Any], inputs: str) -> Observation:
    seen = with_exports(observe(function, inputs))
    assert isinstance(seen, Observation)
    return seen


def files_of(seen: Observation) -> list[Exported]:
    return [each for each in seen.exported if each.file]


def load(folder: Path, file: Exported, text: str = "") -> Any:
    path = folder / file.file
    path.write_text(text or file.text)
    spec = util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cases
def test_each_file_runs_and_finds_its_kernel_right(
    function: Callable[..., Any], inputs: str, against: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = files_of(export(function, inputs))
    assert files and {each.against for each in files} == against
    for each in files:
        assert load(tmp_path, each).main() == 0
        told = capsys.readouterr().out
        assert ": right, error" in told and "WRONG" not in told and "not timed: no GPU" in told


@cases
def test_the_exported_kernel_gives_what_the_generated_one_gives_to_the_last_bit(
    function: Callable[..., Any], inputs: str, against: set[str], tmp_path: Path
) -> None:
    """Names and constants changed, no operation did: on the same tensors both store the same bits."""
    seen = export(function, inputs)
    region = read_code(seen.output_code[0], "code").region
    for each in files_of(seen):
        launch = stand_alone(region, next(call for call in region.calls if call.kernel == each.kernel))
        module = load(tmp_path, each)
        generated, exported = launch.make_tensors(seed=1), launch.make_tensors(seed=1)
        traced(launch.run, TraceObserver(), generated)
        traced(lambda launch=module.launch, tensors=exported: launch(*tensors), TraceObserver())
        for ours, theirs in zip(exported, generated, strict=True):
            assert ours.untyped_storage().tolist() == theirs.untyped_storage().tolist()


@pytest.mark.parametrize(
    ("function", "inputs", "before", "after"),
    [
        (logarithm, "f32[100]", "tl_math.log(", "tl_math.exp("),
        (layer_norm, "bf16[40,200],bf16[200],bf16[200]", "1e-05", "1.0"),
        (column_sum, "f32[5000,200]", "x_index < x_size", "x_index < x_size - 1"),  # a mask that leaves the last out
        (gathered, "f32[50,33],i64[20]<50", "BLOCK_X = ", "BLOCK_X = 16 # "),  # right: any block is
        (column_sum, "f32[5000,200]", "BLOCK_X = ", "BLOCK_X = 8 # "),  # and the kernel as generated keeps its own
    ],
)
def test_an_edit_that_breaks_the_kernel_is_told(
    function: Callable[..., Any],
    inputs: str,
    before: str,
    after: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = files_of(export(function, inputs))[0]
    kernel, launch, rest = file.text.partition("\ndef launch(")
    assert before in kernel
    code = load(tmp_path, file, kernel.replace(before, after) + launch + rest).main()
    is_right = before.startswith("BLOCK")
    assert code == (0 if is_right else 1) and ("WRONG" in capsys.readouterr().out) != is_right


def test_a_broken_file_ends_python_with_1_and_a_whole_one_with_0(tmp_path: Path) -> None:
    file = files_of(export(logarithm, "f32[100]"))[0]
    whole, broken = tmp_path / "whole.py", tmp_path / "broken.py"
    whole.write_text(file.text)
    broken.write_text(file.text.replace("x_ptr + (x0)", "x_ptr + (x0 * 0)"))
    assert file.text != broken.read_text()
    codes = [subprocess.run([sys.executable, path], capture_output=True, check=False).returncode
             for path in (whole, broken)]  # fmt: skip
    assert codes == [0, 1]


def test_names_are_the_users_and_the_blocks_stand_on_top() -> None:
    text = files_of(export(looped_softmax, "f32[64,4000]"))[0].text
    assert "scores_ptr" in text and "def launch(scores, out):" in text and "scores_tile = tl.load(scores_ptr" in text
    assert "\nBLOCK_X = " in text and "\nNUM_WARPS = " in text and "triton.cdiv(64, BLOCK_X)" in text
    for left in ("xnumel", "in_ptr", "triton_heuristics", "set_driver", "roffset", "RBLOCK", "tilesight.capture.ind"):
        assert left not in text


def test_inputs_that_would_give_nan_are_drawn_positive() -> None:
    assert 'INPUTS = "positive"' in files_of(export(logarithm, "f32[100]"))[0].text
    assert 'INPUTS = "normal"' in files_of(export(to_fp8, "bf16[100]"))[0].text


def test_what_cannot_be_exported_is_told_with_the_reason(h200_code: Path, left_behind: LeftBehind) -> None:
    seen = with_exports(observe_code_file(h200_code))
    assert isinstance(seen, Observation)
    assert [each.reason for each in seen.exported if not each.file] == ["a library's call: it has no Triton source"]
    assert any(note == "not exported: mm: a library's call: it has no Triton source" for note in seen.notes)
    cpu = with_exports(observe_code_file(left_behind.output_code("0_inference_0")))
    assert isinstance(cpu, Observation) and files_of(cpu) == []
    assert {each.reason for each in cpu.exported} == {
        "a library's call: it has no Triton source", "C++ for the CPU: it has no Triton source"
    }  # fmt: skip


def test_a_kernel_that_is_too_large_to_run_here_says_so_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = files_of(export(logarithm, "f32[20000000]"))[0]
    assert file.against == GRAPH and file.reason.startswith("not confirmed, since its tensors exceed the 64 MB")
    module = load(tmp_path, file, file.text.replace("ENGINE_LIMIT_BYTES = 256", "ENGINE_LIMIT_BYTES = 100"))
    assert module.main() == 2
    assert "not run: its tensors take 160,000,000 bytes" in capsys.readouterr().out


def test_without_a_gpu_and_without_tilesight_the_file_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = files_of(export(logarithm, "f32[100]"))[0]
    path = tmp_path / file.file
    path.write_text(file.text)
    monkeypatch.setitem(sys.modules, "tilesight", None)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert ended.value.code == 2 and "Tilesight, whose engine runs Triton on a CPU" in capsys.readouterr().out


@pytest.mark.parametrize(
    "call",
    [
        "os.system('x')",
        "torch.ops.aten.relu.default(__import__('os').system('x'))",
        "torch.ops.aten.relu.default((lambda: 0)())",
        "torch.ops.aten.relu.default(torch.__builtins__)",
        "torch.ops.aten.relu.default([x for x in y])",
        "torch.ops.aten.relu.default(torch.load)(y)",
        "torch.ops.aten.full.default([tensors])",
    ],
)
def test_a_fragment_of_someone_elses_code_that_is_more_than_operators_is_not_evaluated(call: str) -> None:
    with pytest.raises(UnsupportedError):
        operands_of(call)


def test_operators_alone_are_let_through() -> None:
    assert operands_of("torch.ops.aten.add.Tensor(x, y, alpha=-2)") == ["x", "y"]
    assert operands_of("torch.ops.aten.full.default([2, s0], inf, dtype=torch.float32, device=device)") == ["s0"]


def test_attributes_keywords_strings_and_comments_keep_their_names() -> None:
    source = 'x = f(x, x=x.x, y="x")  # x\nif x:\n    x = [x]\n'
    assert renamed(source, {"x": "long"}) == 'long = f(long, x=long.x, y="x")  # x\nif long:\n    long = [long]\n'


@pytest.mark.parametrize(
    ("kernel", "short"),
    [
        ("triton_poi_fused_add_relu_0", "add_relu"),
        ("triton_red_fused__softmax_12", "softmax"),
        ("triton_per_fused_sum_1", "sum_kernel"),
        ("triton_poi_fused_0", "kernel_0"),
        ("my_kernel_0", "my_kernel_0"),
        ("triton_poi_fused_lambda_3", "kernel_lambda"),
    ],
)
def test_short_names_are_valid_and_hide_nothing(kernel: str, short: str) -> None:
    assert short_name(kernel) == short
