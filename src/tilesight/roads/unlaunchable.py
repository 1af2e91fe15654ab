"""What the engine runs and a GPU refuses: kernels that do not compile for it, and its limits."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator
from typing import Any

from tilesight.checks.finding import Finding, Level
from tilesight.checks.place import launch_line
from tilesight.engine.binding import MOST_PROGRAMS
from tilesight.engine.launch import Launch
from tilesight.lowering import Compiled, Failure, chosen_options, compile_for
from tilesight.lowering.compile import DEFAULT_TIME_LIMIT_S
from tilesight.lowering.model import Stage
from tilesight.lowering.refusals import refusal_of
from tilesight.targets import Target

KIND = "unlaunchable"
COUNTABLE_PROGRAMS = 2**31 - 1
"""Triton's launcher multiplies the three extents in 32 bits and launches nothing where that is not positive."""
MOST_BLOCKS_OF_A_CLUSTER = 16
"""8 on every GPU, 16 where the launcher asks for it, as Triton's does (CUDA C++ Programming Guide, Clusters)."""
TENSOR_COLUMNS = 512
"""Tensor memory of a multiprocessor (PTX ISA, Tensor Memory)."""
REGISTER_UNIT = 8
"""Registers are given to threads in eights (CUDA Occupancy Calculator: 256 a warp)."""

_LATE = re.compile(r'tt\.elementwise_inline_asm|symbol = "(?!__nv_)')
"""Inline assembly, and functions of libraries other than NVIDIA's libdevice."""
_HINTS = (
    (r"num_warps", "num_warps of 1, 2, 4, 8, 16 or 32"),
    (r"power of (2|two)", "take triton.next_power_of_2(n) for the block and mask the lanes beyond n"),
    (r"end argument must be greater", "return before the launch where a size is 0, or take a block of at least 1"),
    (r"Expected dtype .*fp32.* but got", "convert first, as x.to(tl.float32) does"),
    (r"Input shapes should have", "let every block of tl.dot have at least that many rows and columns; mask the rest"),
    (r"maximum tensor numel", "loop over smaller blocks: 1,048,576 elements are the most a block may have"),
    (r"not supported in this architecture", "convert to a type that the target has, or name a --target that has it"),
    (r"num_ctas", "leave num_ctas at 1 for this target"),
    (r"^ptxas", "mend the inline assembly, or compile for a target that has the instruction"),
)


def find_unlaunchable(
    launch: Launch,
    source: Any,
    metadata: Any,
    target: Target,
    *,
    until: Stage | None = None,
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
) -> list[Finding]:
    """Why a GPU would refuse a launch that the engine has taken.

    A config that autotune would try among others is no fault when it asks for too much: Triton skips it, and
    the finding is a note.

    Args:
        source: Triton's ASTSource of the kernel
        metadata: the kernel's as the engine ran it
        target: the GPU; an AMD one is not checked, which a note says
        until: the last stage to compile; by default `ttgir`, and `cubin` for kernels in which the assembler
            may refuse what the author wrote: inline assembly, functions of libraries, a bound on registers
        time_limit_s: seconds for the compiler; a note says where they were not enough
    """
    if target.backend != "cuda":
        message = f"{launch.kernel} was not compiled for {target.name}: launch limits are checked for CUDA GPUs only"
        return [_finding(launch, message, "take a CUDA --target for this check", "note")]
    options = chosen_options(metadata)
    found = list(_grid_faults(launch, options))
    threads = int(str(launch.options["num_warps"])) * target.warp_size
    if threads > target.threads_per_block:
        return [*found, _too_many_threads(launch, threads, target)]
    is_late = "maxnreg" in options or _LATE.search(launch.ttir) is not None
    last: Stage = until or ("cubin" if is_late else "ttgir")
    compiled = compile_for(source, options, target, until=last, time_limit_s=time_limit_s)
    return [*found, *_compile_faults(launch, compiled), *_block_faults(launch, compiled, source, options)]


def finding_of_compile_error(error: BaseException, target: Target) -> Finding | None:
    """The finding for an exception that a launch raised; None where it is not about compiling.

    Args:
        error: with its traceback, as caught around the launch
    """
    refusal = refusal_of(error, target)
    if refusal is None:
        return None
    return _of_failure(refusal.failure, refusal.kernel, target, (refusal.file, refusal.line))


def _grid_faults(launch: Launch, options: dict[str, Any]) -> Iterator[Finding]:
    """Extents over their limits; an empty grid launches nothing, which is right."""
    if 0 in launch.grid:
        return
    clusters = int(options.get("num_ctas", 1))
    if clusters > MOST_BLOCKS_OF_A_CLUSTER:
        message = f"num_ctas={clusters}, where a cluster has at most {MOST_BLOCKS_OF_A_CLUSTER} blocks"
        yield _finding(launch, message, f"num_ctas of at most {MOST_BLOCKS_OF_A_CLUSTER}")
    blocks = (launch.grid[0] * clusters, *launch.grid[1:])
    over = [axis for axis in range(3) if blocks[axis] > MOST_PROGRAMS[axis]]
    for axis in over:
        name, most = "xyz"[axis], MOST_PROGRAMS[axis]
        message = f"the grid has {blocks[axis]:,} blocks in {name} (axis {axis}), where a GPU takes at most {most:,}"
        yield _finding(launch, message, _folded(launch, axis) if axis else "let each program take more elements")
    if not over and launch.programs > COUNTABLE_PROGRAMS:
        message = f"the grid has {launch.programs:,} programs; Triton's launcher counts them in 32 bits"
        yield _finding(launch, f"{message} and launches none", "let each program take more elements")


def _folded(launch: Launch, axis: int) -> str:
    x, other = launch.grid[0], launch.grid[axis]
    apart = f"take program_id(0) apart by % {x} and // {x}" if x > 1 else f"take program_id(0) for program_id({axis})"
    return f"fold axis {axis} into x: launch {x * other:,} programs there, and {apart}"


def _too_many_threads(launch: Launch, threads: int, target: Target) -> Finding:
    warps, most = threads // target.warp_size, target.threads_per_block
    message = (
        f"{launch.kernel} takes {threads:,} threads a block ({warps} warps of {target.warp_size}), "
        f"where {target.name} has at most {most:,}"
    )
    hint = f"num_warps of at most {most // target.warp_size}"
    if warps != launch.options["num_warps"]:
        hint = f"{hint}, those that warp specialisation adds to num_warps={launch.options['num_warps']} included"
    return _finding(launch, message, hint, _level(launch))


def _compile_faults(launch: Launch, compiled: Compiled) -> Iterator[Finding]:
    failure = compiled.failure
    if failure is None:
        return
    if failure.is_timeout:
        hint = "`tilesight lower` compiles without a limit; smaller blocks compile faster"
        yield _finding(launch, f"{launch.kernel} was not compiled to the end: {failure.message}", hint, "note")
        return
    level = _level(launch) if failure.error in ("PTXASError", "CompileTimeAssertionFailure") else "error"
    yield _of_failure(failure, launch.kernel, compiled.target, launch_line(launch), level)


def _of_failure(
    failure: Failure, kernel: str, target: Target, launched: tuple[str, int], level: Level = "error"
) -> Finding:
    file, line = (failure.file, failure.line) if failure.file else launched
    text = linecache.getline(file, line).strip()
    message = f"{kernel} does not compile for {target.name}: {failure.message}"
    hints = (hint for pattern, hint in _HINTS if re.search(pattern, failure.message))
    is_asserted = failure.error == "CompileTimeAssertionFailure"
    hint = "launch it with values for which the assertion holds" if is_asserted else next(hints, "mend that line")
    return Finding.of_line(KIND, (file, line), f"{message} (`{text}`)" if text else message, hint, level=level)


def _block_faults(launch: Launch, compiled: Compiled, source: Any, options: dict[str, Any]) -> Iterator[Finding]:
    """What a block takes and the target has not."""
    target, allocation, assembly = compiled.target, compiled.allocation, compiled.assembly
    if allocation is None:
        return
    level = _level(launch)
    if compiled.threads > target.threads_per_block:
        yield _too_many_threads(launch, compiled.threads, target)
    most = target.shared_bytes_per_block_optin
    if allocation.shared_bytes > most:
        message = f"{launch.kernel} needs {allocation.shared_bytes:,} bytes of shared memory a block"
        hint = _less_shared_memory(launch, source, options, target)
        yield _finding(launch, f"{message}, where {target.name} has {most:,}", hint, level)
    if allocation.tensor_columns > TENSOR_COLUMNS:
        message = f"{launch.kernel} needs {allocation.tensor_columns:,} columns of tensor memory"
        hint = f"smaller blocks of the accumulator ({_blocks(launch)})"
        yield _finding(launch, f"{message}, where {target.name} has {TENSOR_COLUMNS}", hint, level)
    registers = 0 if assembly is None else -(-assembly.registers // REGISTER_UNIT) * REGISTER_UNIT
    if registers * compiled.threads > target.registers_per_sm:
        message = (
            f"{launch.kernel} needs {registers} registers for each of {compiled.threads:,} threads, "
            f"{registers * compiled.threads:,} in all, where a block on {target.name} has {target.registers_per_sm:,}"
        )
        fitting = target.registers_per_sm // compiled.threads // REGISTER_UNIT * REGISTER_UNIT
        yield _finding(launch, message, f"maxnreg of at most {fitting}, or fewer num_warps", level)


def _less_shared_memory(launch: Launch, source: Any, options: dict[str, Any], target: Target) -> str:
    """The knob to turn, tried out: fewer stages where that is enough, else smaller blocks."""
    stages = int(str(launch.options["num_stages"]))
    for fewer in range(stages - 1, 0, -1):
        allocation = compile_for(source, {**options, "num_stages": fewer}, target, until="ttgir").allocation
        if allocation is not None and allocation.shared_bytes <= target.shared_bytes_per_block_optin:
            return f"num_stages={fewer} instead of {stages} needs {allocation.shared_bytes:,} bytes; or smaller blocks"
    return f"smaller blocks ({_blocks(launch)}); fewer num_stages than {stages} are not enough"


def _blocks(launch: Launch) -> str:
    """The compile-time integers that look like block sizes."""
    sizes = [f"{name}={value}" for name, value in launch.constexprs.items() if _is_block(value)]
    return ", ".join(sizes) or "those of tl.arange"


def _is_block(value: object) -> bool:
    return isinstance(value, int) and value >= 16 and value & (value - 1) == 0


def _level(launch: Launch) -> Level:
    """Triton skips a config that asks for too much, when there are others to time."""
    return "note" if launch.autotuning is not None and launch.autotuning.configs > 1 else "error"


def _finding(launch: Launch, message: str, hint: str, level: Level = "error") -> Finding:
    if level == "note" and launch.autotuning is not None and launch.autotuning.configs > 1:
        message = f"{message}; autotune passes over this config of {launch.autotuning.configs}"
    return Finding.of_line(KIND, launch_line(launch), message, hint, level=level)
