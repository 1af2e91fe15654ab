"""An exception that a launch raised because its kernel does not compile.

The frames of Triton's launcher, seen on 3.6, 3.7.1 and 3.8.
"""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportMissingTypeStubs=false
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import triton
from triton.compiler import compiler
from triton.compiler.errors import CompilationError
from triton.runtime.jit import JITFunction

from tilesight.lowering.compile import compile_for
from tilesight.lowering.model import Failure
from tilesight.lowering.options import chosen_options
from tilesight.lowering.reasons import explain
from tilesight.targets import Target

_FOREIGN = (str(Path(triton.__file__).parent), str(Path(__file__).parents[1]))


@dataclass(frozen=True)
class Refusal:
    """A launch that failed because its kernel does not compile.

    Args:
        kernel: its name
        failure: why
        file, line: the launch; empty and 0 where the traceback does not hold it
    """

    kernel: str
    failure: Failure
    file: str
    line: int


def refusal_of(error: BaseException, target: Target) -> Refusal | None:
    """What a launch's exception says about compiling; None where it is about something else.

    The kernel is compiled for the target once more, for what the compilers print tells more than what
    Triton raises.

    Args:
        error: with its traceback
        target: the GPU that the launch was meant for
    """
    trace = list(_frames(error))
    launches = [index for index, (frame, _) in enumerate(trace) if frame.f_code is JITFunction.run.__code__]
    if not isinstance(error, Exception) or not launches:
        return None
    kernel: Any = trace[launches[-1]][0].f_locals["self"]
    failure = _failure(error, [frame for frame, _ in trace[launches[-1] :]], kernel, target)
    if failure is None:
        return None
    callers = [each for each in trace[: launches[-1]] if not each[0].f_code.co_filename.startswith(_FOREIGN)]
    file, line = (callers[-1][0].f_code.co_filename, callers[-1][1]) if callers else ("", 0)
    return Refusal(kernel.fn.__name__, failure, file, line)


def _failure(error: Exception, inside: list[FrameType], kernel: Any, target: Target) -> Failure | None:
    compiling = [frame.f_locals for frame in inside if frame.f_code is compiler.compile.__code__]
    if compiling and "src" in compiling[-1]:
        scope = compiling[-1]
        told = {**getattr(scope["options"], "__dict__", {}), "target": scope["target"]}
        again = compile_for(scope["src"], chosen_options(told), target, until="ttgir").failure
        return again if again is not None else explain(error, "ttir", kernel, "", "")
    if any(frame.f_code.co_name == "parse_options" for frame in inside):
        return Failure("options", type(error).__name__, " ".join(str(error).split()))
    return explain(error, "ttir", kernel, "", "") if isinstance(error, CompilationError) else None


def _frames(error: BaseException) -> Iterator[tuple[FrameType, int]]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next
