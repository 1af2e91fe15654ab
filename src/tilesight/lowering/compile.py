"""The door of lowering: a captured launch compiled for a target."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportMissingTypeStubs=false
from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from triton import knobs
from triton._C.libtriton import get_cache_invalidating_env_vars
from triton.runtime.cache import get_cache_key

from tilesight.errors import UnsupportedError
from tilesight.lowering.child import ChildStoppedError, run_in_child
from tilesight.lowering.model import STAGES, Compiled, Failure, Stage
from tilesight.lowering.reasons import explain, explain_print
from tilesight.lowering.stages import backend_for, parse_options, run_stages
from tilesight.lowering.store import load_compiled, store_compiled
from tilesight.targets import Target

DEFAULT_TIME_LIMIT_S = 60.0


def compile_for(
    source: Any,
    options: Mapping[str, Any],
    target: Target,
    *,
    until: Stage = "cubin",
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
) -> Compiled:
    """A kernel as Triton's stock back end compiles it for a GPU that need not be here.

    Compiled once for each source, options, target and last stage: results are kept in the process, and on
    disk in Triton's cache where the kernel compiled. What goes wrong is told in `failure`, never raised.

    Args:
        source: Triton's ASTSource of the kernel
        options: num_warps, num_stages and whatever else its author chose (`chosen_options`)
        until: the last stage to compile; `ttgir` is enough for shared memory and threads, and takes no LLVM
        time_limit_s: seconds after which the compiler is stopped
    Raises: UnsupportedError: for a target that is no CUDA GPU
    """
    if target.backend != "cuda":
        raise UnsupportedError(f"compiling for {target.name}", expected="a CUDA GPU, such as h200")
    name = str(source.name)
    try:
        parsed = parse_options(options, target)
    except (AssertionError, ValueError) as error:
        return Compiled(name, target, {}, failure=Failure("options", type(error).__name__, _one_line(error)))
    key = _key(source, parsed, target, until)
    return _compiled(_Request(key, target, until, time_limit_s, source, parsed))


@dataclass(frozen=True)
class _Request:
    """Equal to another when the same comes out."""

    key: str
    target: Target
    until: Stage
    time_limit_s: float
    source: Any = field(compare=False)
    options: Any = field(compare=False)


@lru_cache(maxsize=512)
def _compiled(request: _Request) -> Compiled:
    name, target = str(request.source.name), request.target
    known = None if knobs.compilation.always_compile else load_compiled(request.key, name, target)
    if known is not None:
        return known
    compiled = _gather(Compiled(name, target, {}), run_in_child(_work(request), request.time_limit_s))
    if compiled.failure is None:
        store_compiled(request.key, compiled)
    return compiled


def _work(request: _Request) -> Callable[[Callable[[], str]], Iterator[tuple[str, Any]]]:
    """What the child does: the stages, and the failure of one as the last item."""

    def work(read_printed: Callable[[], str]) -> Iterator[tuple[str, Any]]:
        stage: Stage = "ttir"
        ptx = ""
        try:
            for name, result in run_stages(request.source, request.options, request.target, request.until):
                stage = name if name in STAGES else stage
                ptx = result if name == "ptx" and isinstance(result, str) else ptx
                yield name, result
        except Exception as error:
            yield "failure", explain(error, stage, request.source.fn, read_printed(), ptx)

    return work


def _gather(compiled: Compiled, items: Iterator[tuple[str, Any]]) -> Compiled:
    """The Compiled of what the child tells."""
    stage: Stage = "ttir"
    try:
        for name, result in items:
            if result is None:
                stage = name if name in STAGES else stage
            elif isinstance(result, str):
                compiled = replace(compiled, stages={**compiled.stages, name: result})
            else:
                compiled = replace(compiled, **{name: result})
    except ChildStoppedError as stopped:
        if stopped.reason == "timeout":
            message = f"the compiler was stopped in {stage}: it had not finished in time"
            return replace(compiled, failure=Failure(stage, "timeout", message))
        fallback = f"the compiler died in {stage} ({stopped.reason})"
        return replace(compiled, failure=explain_print(stage, "stopped", fallback, stopped.printed))
    return compiled


def _key(source: Any, options: Any, target: Target, until: Stage) -> str:
    """Triton's own key, and the file: texts name the path under which they were compiled."""
    environment: dict[str, str] = get_cache_invalidating_env_vars()
    key = get_cache_key(source, backend_for(target), options, env_vars=environment)
    text = f"tilesight-{until}-{source.fn.fn.__code__.co_filename}-{target.arch}-{key}"
    return hashlib.sha256(text.encode()).hexdigest()


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
