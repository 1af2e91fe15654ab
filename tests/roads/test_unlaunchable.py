"""What a GPU refuses, said without one: with the figures of the target and the author's line."""

# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportArgumentType=false
# pyright: reportGeneralTypeIssues=false, reportIndexIssue=false, reportCallIssue=false
from __future__ import annotations

import inspect
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.backends.nvidia.compiler import min_dot_size

import tilesight
from tests.kernels import basic, refused
from tests.roads.unlaunchable_launches import LimitObserver, findings_of
from tilesight.capture.launches import EngineSession
from tilesight.checks.finding import Finding
from tilesight.engine import Launch
from tilesight.lowering import chosen_options, compile_for
from tilesight.roads.unlaunchable import find_unlaunchable, finding_of_compile_error
from tilesight.targets import target as find_target

FILE = str(Path(refused.__file__).resolve())


def line_of(function: Any, text: str) -> int:
    lines, first = inspect.getsourcelines(getattr(function, "fn", function))
    return first + next(index for index, line in enumerate(lines) if text in line)


def the_finding(found: list[Finding]) -> Finding:
    (finding,) = found
    assert finding.kind == "unlaunchable" and finding.file == FILE
    return finding


@pytest.mark.parametrize("name", refused.LAUNCHES)
def test_the_table_of_what_an_h200_refuses(name: str) -> None:
    launch, is_refused = refused.LAUNCHES[name]
    assert [finding.level for finding in findings_of(launch)] == ["error"] * is_refused


def test_shared_memory_with_both_figures_and_the_knob() -> None:
    """A stage of 256 x 256 x 128 holds (256 * 128 + 128 * 256) fp16: 131,072 bytes, and four of them 524,288."""
    launch = refused.LAUNCHES["shared memory over the limit"][0]
    finding = the_finding(findings_of(launch))
    assert finding.line == line_of(refused.launch_stages, "multiply_in_stages[")
    assert "needs 524,288 bytes of shared memory a block, where h200 has 232,448" in finding.message
    assert finding.hint == "num_stages=1 instead of 4 needs 131,072 bytes; or smaller blocks"


def test_shared_memory_that_fewer_stages_do_not_mend() -> None:
    """Two operands of 256 x 256 in fp32 are 524,288 bytes whatever the stages."""
    finding = the_finding(findings_of(partial(refused.launch_multiply, 256, 256)))
    assert "multiply needs 524,288 bytes" in finding.message
    assert finding.hint == "smaller blocks (N=256, K=256); fewer num_stages than 3 are not enough"


@pytest.mark.parametrize(("target", "said"), [("rtx4090", "101,376"), ("a100", ""), ("h200", "")])
def test_the_limit_is_the_target_s(target: str, said: str) -> None:
    """Ahead of the fifth, four stages of (128 * 64 + 64 * 128) fp16 lie in shared memory: 131,072 bytes."""
    found = findings_of(partial(refused.launch_stages, 5, (128, 128, 64), num_warps=8), target)
    wanted = f"needs 131,072 bytes of shared memory a block, where {target} has {said}"
    assert [wanted in each.message for each in found] == [True] * bool(said)


def test_a_product_over_fewer_than_the_compiler_takes() -> None:
    """What tl.dot refuses depends on Triton: the back end that compiles for the GPU is asked for the least."""
    least = int(min_dot_size(find_target("h200"))(tl.float32, tl.float32)[2])
    assert findings_of(partial(refused.launch_multiply, 16, least)) == []
    finding = the_finding(findings_of(partial(refused.launch_multiply, 16, least // 2)))
    assert f"K >= {least}" in finding.message and finding.line == line_of(refused.multiply, "tl.dot")


def test_an_empty_grid_is_launched_with_any_other_extent() -> None:
    assert findings_of(partial(refused.launch_grid, (0, 70_000))) == []


def test_threads_with_both_figures() -> None:
    finding = the_finding(findings_of(partial(refused.launch_increment, num_warps=64)))
    assert finding.line == line_of(refused.launch_increment, "increment[")
    assert finding.message.endswith("takes 2,048 threads a block (64 warps of 32), where h200 has at most 1,024")
    assert finding.hint == "num_warps of at most 32"


@pytest.mark.parametrize(
    ("grid", "axis", "count", "fold"),
    [
        ((1, 65_536), "y (axis 1)", "65,536", "launch 65,536 programs there, and take program_id(0) for program_id(1)"),
        ((3, 1, 70_000), "z (axis 2)", "70,000", "launch 210,000 programs there, and take program_id(0) apart by % 3"),
    ],
)
def test_a_grid_over_its_limit(grid: tuple[int, ...], axis: str, count: str, fold: str) -> None:
    finding = the_finding(findings_of(partial(refused.launch_grid, grid)))
    assert finding.line == line_of(refused.launch_grid, "clear_by_z[")
    assert finding.message == f"the grid has {count} blocks in {axis}, where a GPU takes at most 65,535"
    assert fold in finding.hint


def bare_launch(grid: tuple[int, int, int]) -> tuple[Launch, Any, Any]:
    """A launch of that grid, as an observer hears it, but never run."""
    session = EngineSession(90)
    observer = LimitObserver(session, "h200")
    session.observers.append(observer)
    with session:
        refused.launch_grid((1,))
    heard = observer.launches[0]
    launch = Launch(heard.kernel, heard.ttir, heard.arguments, grid, options=heard.options)
    return launch, *session.compiled_from(heard)


@pytest.mark.parametrize(
    ("grid", "said"),
    [
        ((2**31 - 1, 1, 1), None),
        ((2**31, 1, 1), "2,147,483,648 blocks in x (axis 0), where a GPU takes at most 2,147,483,647"),
        ((32_768, 65_535, 1), None),
        ((65_536, 65_535, 1), "4,294,901,760 programs; Triton's launcher counts them in 32 bits and launches none"),
        ((0, 70_000, 1), None),
    ],
    ids=str,
)
def test_large_grids(grid: tuple[int, int, int], said: str | None) -> None:
    launch, source, metadata = bare_launch(grid)
    found = find_unlaunchable(launch, source, metadata, find_target("h200"))
    assert [said is not None and said in each.message for each in found] == [True] * (said is not None)


def test_a_compile_error_names_the_helper_s_line() -> None:
    finding = the_finding(findings_of(refused.launch_helper))
    assert finding.line == line_of(refused.lanes, "tl.arange")
    assert "increment_by_helper does not compile for h200: arange's range must be a power of 2" in finding.message
    assert "`return tl.arange(0, COUNT)`" in finding.message and "next_power_of_2" in finding.hint


def test_a_block_of_nothing_and_a_type_without_the_function() -> None:
    empty = the_finding(findings_of(partial(refused.launch_block, refused.normalise, 0)))
    assert empty.line == line_of(refused.normalise, "tl.arange") and "return before the launch" in empty.hint
    half = the_finding(findings_of(partial(refused.launch_block, refused.exponential_of_half, 64)))
    assert half.line == line_of(refused.exponential_of_half, "tl.exp") and "x.to(tl.float32)" in half.hint


def test_the_assembler_s_error_names_the_helper_s_line() -> None:
    finding = the_finding(findings_of(partial(refused.launch_block, refused.assemble, 128)))
    assert finding.line == line_of(refused.unknown_instruction, "return")
    assert "ptxas: Not a name of any known instruction: 'bogus'" in finding.message


def test_a_type_that_the_target_has_not() -> None:
    launch = partial(refused.launch_block, refused.through_e4m3, 128)
    finding = the_finding(findings_of(launch, "a100"))
    assert finding.line == line_of(refused.through_e4m3, "float8e4nv")
    assert "type fp8e4nv not supported in this architecture" in finding.message
    assert findings_of(launch, "h200") == findings_of(launch, "rtx4090") == []


def test_registers_with_their_sum() -> None:
    """255 registers are given as 256; 1,024 threads of them are four times what a multiprocessor has."""
    finding = the_finding(findings_of(refused.LAUNCHES["255 registers of 1,024 threads"][0]))
    assert "256 registers for each of 1,024 threads, 262,144 in all" in finding.message and "65,536" in finding.message
    assert finding.hint == "maxnreg of at most 64, or fewer num_warps"


def test_options_are_reported_at_the_launch() -> None:
    finding = the_finding(findings_of(partial(refused.launch_increment, num_warps=3)))
    assert finding.line == line_of(refused.launch_increment, "increment[")
    assert "num_warps must be a power of 2" in finding.message and finding.hint.startswith("num_warps of 1, 2")


def test_an_error_about_something_else_is_no_finding() -> None:
    session = EngineSession(90)
    kernel: Any = refused.increment
    with session, pytest.raises(TypeError) as caught:
        kernel[(1,)](torch.zeros(4))
    assert finding_of_compile_error(caught.value, find_target("h200")) is None
    assert finding_of_compile_error(ValueError("by hand"), find_target("h200")) is None


def test_amd_is_not_checked_and_says_so() -> None:
    finding = the_finding(findings_of(partial(refused.launch_increment, num_warps=64), "mi300x"))
    assert finding.level == "note" and "was not compiled for mi300x" in finding.message


def test_a_compiler_that_is_stopped_leaves_a_note() -> None:
    launch = partial(refused.launch_multiply, 128, 128)
    finding = the_finding(findings_of(launch, until="cubin", time_limit_s=0.5))
    assert finding.level == "note" and "was not compiled to the end" in finding.message


def accumulate(configs: list[Any]) -> None:
    kernel = triton.autotune(configs=configs, key=["n"])(refused.increment)
    x = torch.zeros(4096)
    kernel[(4,)](x, torch.empty_like(x), 4096)


@pytest.mark.parametrize(("configs", "level"), [((64, 4), "note"), ((64,), "error")], ids=str)
def test_a_config_that_autotune_passes_over_is_no_fault(configs: tuple[int, ...], level: str) -> None:
    choices = [triton.Config({"BLOCK": 1024}, num_warps=warps) for warps in configs]
    (finding,) = findings_of(partial(accumulate, choices))
    assert finding.level == level and "2,048 threads" in finding.message
    assert ("autotune passes over this config of 2" in finding.message) == (level == "note")


@triton.jit
def specialised(a_ptr, b_ptr, c_ptr, K, B: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [B, K], [K, 1], [B, 64])
    b = tl.make_tensor_descriptor(b_ptr, [B, K], [K, 1], [B, 64])
    total = tl.zeros((B, B), dtype=tl.float32)
    for start in tl.range(0, K, 64, warp_specialize=True):
        total = tl.dot(a.load([0, start]), b.load([0, start]).T, total)
    lanes = tl.arange(0, B)
    tl.store(c_ptr + lanes[:, None] * B + lanes[None, :], total)


def launch_specialised(num_warps: int) -> None:
    a, b = (torch.zeros(128, 512, dtype=torch.float16) for _ in range(2))
    specialised[(1,)](a, b, torch.empty(128, 128), 512, B=128, num_warps=num_warps)


def test_warps_of_specialisation_count() -> None:
    """Blackwell's loader and multiplier get warps of their own, above the 4 that were asked for."""
    session = EngineSession(100)
    observer = LimitObserver(session, "b200")
    session.observers.append(observer)
    with session:
        launch_specialised(4)
    source, metadata = session.compiled_from(observer.launches[0])
    assert observer.findings == []
    allocation = compile_for(source, chosen_options(metadata), find_target("b200"), until="ttgir").allocation
    assert allocation is not None and 4 < allocation.num_warps <= 32


def chain(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    gated = torch.nn.functional.gelu(x) * torch.softmax(x, dim=-1)
    return torch.nn.functional.layer_norm(gated, (x.shape[1],), weight).sum(0)


def test_generated_kernels_pass() -> None:
    session = tilesight.enable(compile_for="h200")
    observer = LimitObserver(session, "h200", until="cubin")
    session.observers.append(observer)
    try:
        torch.manual_seed(0)
        x, weight = torch.randn(300, 200), torch.randn(200)
        torch.testing.assert_close(torch.compile(chain)(x, weight), chain(x, weight), rtol=1e-5, atol=1e-4)
    finally:
        tilesight.disable()
    assert len(observer.launches) >= 2 and observer.findings == []


@pytest.mark.parametrize("name", ["add", "softmax", "rmsnorm"])
def test_right_kernels_pass(name: str) -> None:
    inputs = {"add": (torch.ones(5000), torch.ones(5000)), "rmsnorm": (torch.ones(7, 300), torch.ones(300))}
    launch = partial(getattr(basic, name), *inputs.get(name, (torch.ones(7, 300),)))
    assert findings_of(launch, until="cubin") == []
