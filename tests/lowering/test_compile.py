"""Kernels compiled for GPUs that are not here, against Triton's own door and NVIDIA's own tools."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportMissingTypeStubs=false
# pyright: reportPrivateUsage=false
from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import triton
from triton.backends.compiler import GPUTarget

from tests.kernels import refused
from tests.lowering.sources import source_of
from tilesight.capture.backend import active_driver
from tilesight.errors import UnsupportedError
from tilesight.lowering import Compiled, compile_for
from tilesight.lowering import compile as door
from tilesight.targets import target as find_target

H200 = find_target("h200")
VECTOR = {"x_ptr": "*fp32", "out_ptr": "*fp32"}
HALVES = {"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp32", "K": "i32"}
FLOATS = {"a_ptr": "*fp32", "b_ptr": "*fp32", "c_ptr": "*fp32"}


def increment() -> Any:
    return source_of(refused.increment, {**VECTOR, "n": "i32"}, {"BLOCK": 1024})


def staged(bm: int, bn: int, bk: int) -> Any:
    return source_of(refused.multiply_in_stages, HALVES, {"BM": bm, "BN": bn, "BK": bk})


def line_of(kernel: Any, text: str) -> tuple[str, int]:
    lines, first = inspect.getsourcelines(kernel.fn)
    return __file__.replace("lowering/test_compile.py", "kernels/refused.py"), first + next(
        index for index, line in enumerate(lines) if text in line
    )


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Neither the process nor the disk knows a kernel yet."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    door._compiled.cache_clear()
    yield
    door._compiled.cache_clear()


def tool(name: str, *arguments: str) -> str:
    binaries = Path(str(triton.__file__)).parent / "backends/nvidia/bin"
    return subprocess.run([binaries / name, *arguments], capture_output=True, text=True, check=True).stdout


def test_shared_memory_of_a_whole_product() -> None:
    """Both operands of a 256 x 256 x 256 product in fp32 lie in shared memory: 2 * 256 * 256 * 4 bytes."""
    source = source_of(refused.multiply, FLOATS, {"N": 256, "K": 256})
    found = compile_for(source, {}, H200, until="ttgir")
    assert found.allocation is not None and found.allocation.shared_bytes == 524_288
    assert H200.shared_bytes_per_block_optin == 232_448
    assert list(found.stages) == ["ttir", "ttgir"] and found.threads == 128 and found.failure is None


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_shared_memory_grows_with_the_stages(stages: int) -> None:
    """Each stage holds a tile of both operands: (128 * 64 + 64 * 128) fp16."""
    found = compile_for(staged(128, 128, 64), {"num_stages": stages, "num_warps": 8}, H200, until="ttgir")
    assert found.allocation is not None and found.allocation.num_warps == 8
    # One stage is not prefetched, and the accumulator's way out is no larger than the tiles.
    assert found.allocation.shared_bytes == max(stages * 2 * 128 * 64 * 2, 65_536 if stages < 2 else 0)


@pytest.mark.parametrize("name", ["a100", "rtx4090", "h200", "b200"])
@pytest.mark.parametrize("options", [{}, {"num_warps": 8, "num_stages": 2}], ids=["usual", "chosen"])
def test_what_is_allocated_is_what_triton_says(name: str, options: dict[str, Any]) -> None:
    target, source = find_target(name), staged(64, 64, 32)
    found = compile_for(source, options, target)
    theirs = triton.compile(source, target=GPUTarget("cuda", int(target.arch), 32), options=options)
    allocation = found.allocation
    assert allocation is not None and found.failure is None
    assert allocation.shared_bytes == theirs.metadata.shared  # pyright: ignore[reportAttributeAccessIssue]
    assert allocation.num_warps == theirs.metadata.num_warps  # pyright: ignore[reportAttributeAccessIssue]
    assert allocation.tensor_columns == theirs.metadata.tmem_size  # pyright: ignore[reportAttributeAccessIssue]
    assert found.stages["ptx"] == theirs.asm["ptx"] and found.cubin == theirs.asm["cubin"]
    assert list(found.stages) == ["ttir", "ttgir", "llir", "ptx"]


@pytest.mark.parametrize("warps", [4, 32])
def test_registers_are_those_of_the_machine_code(warps: int, tmp_path: Path) -> None:
    source = source_of(refused.normalise, VECTOR, {"BLOCK": 32768})
    found = compile_for(source, {"num_warps": warps}, H200)
    (tmp_path / "kernel.cubin").write_bytes(found.cubin)
    usage = tool("cuobjdump", "--dump-resource-usage", str(tmp_path / "kernel.cubin"))
    match = re.search(r"REG:(\d+) STACK:(\d+)", usage)
    assert match is not None and found.assembly is not None
    assert (found.assembly.registers, found.assembly.stack_bytes) == (int(match[1]), int(match[2]))
    spills = (found.assembly.spill_store_bytes, found.assembly.spill_load_bytes)
    # 32,768 elements of four warps are 256 a thread, which has 255 registers.
    assert all(spills) if warps == 4 else spills == (0, 0)


def test_a_kernel_sees_the_target_that_it_is_compiled_for() -> None:
    before = active_driver()
    found = compile_for(source_of(refused.name_target, {"out_ptr": "*fp32"}, {}), {}, H200, until="ttgir")
    assert "1.000000e+00" in found.stages["ttir"] and "2.000000e+00" not in found.stages["ttir"]
    assert active_driver() is before


FAILURES = {
    "no power of two": (
        source_of(refused.multiply, FLOATS, {"N": 24, "K": 16}), {}, "h200",
        ("ttir", "CompilationError", "arange's range must be a power of 2"), (refused.multiply, "n, k = "),
    ),
    "too many elements": (
        source_of(refused.normalise, VECTOR, {"BLOCK": 1 << 21}), {}, "h200",
        ("ttir", "CompilationError", "numel (2097152) exceeds triton maximum tensor numel (1048576)"),
        (refused.normalise, "offsets = "),
    ),
    "a type": (
        source_of(refused.through_e4m3, VECTOR, {"BLOCK": 128}), {}, "a100",
        ("ttir", "CompilationError", "type fp8e4nv not supported in this architecture"), (refused.through_e4m3, "e4nv"),
    ),
    "through helpers": (
        source_of(refused.increment_by_helper, {**VECTOR, "n": "i32"}, {"COUNT": 100}), {}, "h200",
        ("ttir", "CompilationError", "arange's range must be a power of 2"), (refused.lanes, "return"),
    ),
    "the assembler, through helpers": (
        source_of(refused.assemble, VECTOR, {"BLOCK": 128}), {}, "h200",
        ("cubin", "PTXASError", "ptxas: Not a name of any known instruction: 'bogus'"),
        (refused.unknown_instruction, "return"),
    ),
    "a diagnostic": (
        source_of(refused.pack_by_three, VECTOR, {"BLOCK": 128}), {}, "h200",
        ("ttir", "RuntimeError", "number of input elements 128 must be a multiple of the op's packed_element"),
        (refused.pack_by_three, "mov.f32"),
    ),
    "a static assertion": (
        source_of(refused.refuse_small_blocks, VECTOR, {"BLOCK": 32}), {}, "h200",
        ("ttir", "CompileTimeAssertionFailure", "blocks of 64 or more"), (refused.refuse_small_blocks, "static"),
    ),
    "warps": (increment(), {"num_warps": 3}, "h200", ("options", "AssertionError", "num_warps must be a power"), None),
    "clusters": (increment(), {"num_ctas": 2}, "a100", ("options", "ValueError", "num_ctas > 1 requires"), None),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_names_stage_reason_and_line(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    source, options, target, (stage, error, message), place = FAILURES[name]
    failure = compile_for(source, options, find_target(target)).failure
    assert failure is not None
    assert (failure.stage, failure.error) == (stage, error) and failure.message.startswith(message)
    assert "\n" not in failure.message
    assert (failure.file, failure.line) == (line_of(*place) if place else ("", 0))
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("fresh")
def test_a_compiler_that_does_not_end_is_stopped() -> None:
    """LLVM takes many minutes over the unrolled product, its shared memory is known at once."""
    found = compile_for(source_of(refused.multiply, FLOATS, {"N": 256, "K": 256}), {}, H200, time_limit_s=3)
    assert found.failure is not None and found.failure.is_timeout and found.failure.stage == "llir"
    assert found.allocation is not None and found.allocation.shared_bytes == 524_288


@pytest.mark.usefixtures("fresh")
def test_a_kernel_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_for(increment(), {}, H200)
    monkeypatch.setattr(door, "run_in_child", None)
    assert compile_for(increment(), {"num_warps": 4}, H200) is first
    door._compiled.cache_clear()
    assert compile_for(increment(), {}, H200) == first
    with pytest.raises(TypeError):
        compile_for(increment(), {"num_warps": 8}, H200)


COMPILE_ELSEWHERE = """
from tests.lowering.test_compile import H200, compile_for, door, increment
door.run_in_child = None
found = compile_for(increment(), {}, H200)
print(found.assembly.registers, len(found.cubin))
"""


@pytest.mark.usefixtures("fresh")
def test_another_process_reads_what_was_compiled() -> None:
    found = compile_for(increment(), {}, H200)
    command = [sys.executable, "-c", COMPILE_ELSEWHERE]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert found.assembly is not None and told.stdout.split() == [str(found.assembly.registers), str(len(found.cubin))]


def test_amd_is_refused_in_words() -> None:
    with pytest.raises(UnsupportedError, match="compiling for mi300x"):
        compile_for(increment(), {}, find_target("mi300x"))


def test_a_failed_kernel_has_nothing_more() -> None:
    found = compile_for(increment(), {"num_warps": 3}, H200)
    assert found == Compiled("increment", H200, {}, failure=found.failure) and found.threads == 0
