"""Run torch.compile for a target that is not here, and keep what it made."""

from __future__ import annotations

import contextlib
import logging
import re
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch

from tilesight.capture.inductor.graph import CompiledGraph, CompiledRegion, GraphBreak, Node, Unfused
from tilesight.capture.inductor.nodes import input_sources, is_library_file, read_nodes, user_line
from tilesight.capture.inductor.pretend import pretend
from tilesight.capture.inductor.wrapper import read_wrapper
from tilesight.errors import CaptureError, InputError, TilesightError, UnsupportedError
from tilesight.targets import Target

_torch_compile = torch.compile  # the real one, also while a script's torch.compile is redirected


class _CodeIsReadyError(Exception):
    """Ends Inductor's work once the code exists: the kernels can't be loaded here."""


@dataclass
class _Recorded:
    """What one compilation handed over."""

    fx: tuple[Node, ...] = ()
    graph_break: GraphBreak | None = None
    aten: tuple[Node, ...] = ()
    code: str = ""
    unfused: list[Unfused] = field(default_factory=list[Unfused])
    buffer_nodes: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    input_sources: tuple[str, ...] = ()


def compile_for_target(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    target: Target,
    *,
    mode: str | None = None,
    dynamic: bool | None = None,
) -> CompiledGraph:
    """What torch.compile generates for `function(*inputs)` on `target`, with no GPU needed.

    Dynamo traces the function with fake tensors on a pretended `cuda:0`; each graph it cuts out goes
    through AOT and Inductor up to the generated code. Graph breaks are kept: the parts between run on
    fake tensors.

    Args:
        function: a function or nn.Module whose parameters are fake tensors on cuda:0
        inputs: fake tensors on cuda:0 (see `capture.inputs`) and plain values
        target: an NVIDIA target
        mode: torch.compile's mode
        dynamic: torch.compile's dynamic
    Raises:  InputError: when the function rejects the inputs
             CaptureError: when torch fails to compile what it accepts
    Source:  hooks seen on torch 2.11.0 to 2.14.1: GraphLowering.compile_to_module, WhyNoFuse
    """
    recorded: list[_Recorded] = []
    torch._dynamo.reset()
    with pretend(target), _reproducible_config(), _quiet():
        compiled = _torch_compile(function, backend=_recording_backend(recorded, mode), dynamic=dynamic)
        started = time.perf_counter()
        result = _call(compiled, inputs)
        cold_s = time.perf_counter() - started
        graphs = len(recorded)
        started = time.perf_counter()
        _call(compiled, inputs)
        warm_s = time.perf_counter() - started
    regions = tuple(_region(r) for r in recorded[:graphs])
    breaks = tuple(r.graph_break for r in recorded[:graphs] if r.graph_break is not None)
    cache = "hit: Dynamo's guards held" if len(recorded) == graphs else "miss: the second call compiled again"
    torch._dynamo.reset()
    structure = import_module("torch.utils._pytree").tree_structure(result)
    return CompiledGraph(regions, breaks, cold_s, warm_s, cache, structure)


def _region(recorded: _Recorded) -> CompiledRegion:
    kernels, calls, buffers, outputs = read_wrapper(recorded.code)
    return CompiledRegion(
        fx=recorded.fx,
        aten=recorded.aten,
        code=recorded.code,
        kernels=kernels,
        calls=calls,
        buffers=buffers,
        outputs=outputs,
        unfused=tuple(recorded.unfused),
        buffer_nodes=recorded.buffer_nodes,
        input_sources=recorded.input_sources,
    )


def _call(compiled: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    fake_mode = _fake_mode(inputs)
    try:
        with fake_mode, torch.no_grad():
            return compiled(*inputs)
    except TilesightError:
        raise
    except Exception as error:
        cause = _innermost(error)
        if isinstance(cause, TilesightError):
            raise cause from error
        if type(cause).__name__ == "DataDependentOutputException":
            raise UnsupportedError(
                "the function reads a tensor's value (such as .item())",
                where=_raised_at(cause),
                expected="a function whose shape does not depend on data",
                next_step="values do not exist without a GPU; observe the parts around it",
            ) from error
        raise InputError(
            f"the function failed on these inputs: {_reason(cause)}",
            where=user_line(str(error))[0] or _raised_at(cause),
            expected="inputs the function accepts",
            next_step="check --inputs against the function's shapes and dtypes",
        ) from error


def _fake_mode(inputs: Sequence[Any]) -> Any:
    fake: Any = import_module("torch._subclasses.fake_tensor")
    found = [value.fake_mode for value in inputs if isinstance(value, fake.FakeTensor)]
    return found[0] if found else contextlib.nullcontext()


def _innermost(error: BaseException) -> BaseException:
    """The first cause: torch wraps what a back end raises as `inner_exception`."""
    while (inner := getattr(error, "inner_exception", None) or error.__cause__) is not None:
        error = inner
    return error


def _reason(error: BaseException) -> str:
    """The operator's own complaint where Dynamo quotes it, else the message's first line."""
    quoted = re.search(r"got (\w+\((?:'[^\n]*'|\"[^\n]*\")\))", str(error))
    return quoted.group(1) if quoted else f"{type(error).__name__}: {_first_line(error)}"


def _raised_at(error: BaseException) -> str:
    """file:line of the last frame outside torch and Tilesight."""
    frames = [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    own = [f"{file}:{line}" for file, line in frames if not is_library_file(file) and not file.startswith("<")]
    return own[-1] if own else ""


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else "no message"


def _recording_backend(recorded: list[_Recorded], mode: str | None) -> Callable[..., Any]:
    """A Dynamo back end that lets Inductor write its code, keeps it, and runs the graph on fakes."""
    compile_fx: Any = import_module("torch._inductor.compile_fx")
    inductor: Any = import_module("torch._inductor")
    options = inductor.list_mode_options(mode) if mode else {}

    def backend(graph_module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        graph = graph_module.graph
        record = _Recorded(read_nodes(graph), _graph_break(graph_module), input_sources=input_sources(graph))
        try:
            with _stop_after_codegen(record), _fusion_listener(record):
                compile_fx.compile_fx(graph_module, example_inputs, config_patches=options)
        except Exception as error:
            if not record.code:
                raise CaptureError(
                    f"torch.compile failed: {type(error).__name__}: {_first_line(_innermost(error))}",
                    next_step="run again with --debug for torch's own traceback",
                ) from error
        recorded.append(record)
        return graph_module.forward

    return backend


@contextlib.contextmanager
def _stop_after_codegen(record: _Recorded) -> Generator[None]:
    lowering: Any = import_module("torch._inductor.graph")

    def stop(self: Any) -> None:
        code = self.codegen()[0]
        record.code = str(getattr(code, "value", code))
        lowering.output_code_log.debug("Output code: \n%s", record.code)  # what TORCH_LOGS=output_code prints
        record.aten = read_nodes(self.graph if hasattr(self, "graph") else self.module.graph)
        record.buffer_nodes = _origins(self.scheduler)
        raise _CodeIsReadyError

    with patch.object(lowering.GraphLowering, "compile_to_module", stop):
        yield


def _origins(scheduler: Any) -> dict[str, tuple[str, ...]]:
    """ATen node names behind each scheduler node, by its buffer or operation name."""
    origins: dict[str, tuple[str, ...]] = {}
    for node in getattr(scheduler, "nodes", ()):
        for part in node.get_nodes():
            names = tuple(origin.name for origin in getattr(part.node, "origins", ()) or ())
            for name in {part.get_name(), *part.get_buffer_names()}:
                origins[name] = names
    return origins


@contextlib.contextmanager
def _fusion_listener(record: _Recorded) -> Generator[None]:
    scheduler: Any = import_module("torch._inductor.scheduler")

    def note(self: Any, reason: str, *args: Any) -> None:
        self.reason, self.args = reason, args
        record.unfused.append(Unfused(self.name1, self.name2, reason % args if args else reason))

    with patch.object(scheduler.WhyNoFuse, "__call__", note):
        yield


def _graph_break(graph_module: Any) -> GraphBreak | None:
    """Why Dynamo ended this graph, when it was not the end of the function."""
    reason = getattr(graph_module, "compile_subgraph_reason", None)
    if reason is None or not reason.graph_break:
        return None
    frames = [frame for frame in reason.user_stack or () if not is_library_file(frame.filename)]
    source = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return GraphBreak(source, str(reason.reason).strip().splitlines()[0])


@contextlib.contextmanager
def _reproducible_config() -> Generator[None]:
    """Compile in this process and without caches, which would hand over other machines' work."""
    inductor: Any = import_module("torch._inductor.config")
    functorch: Any = import_module("torch._functorch.config")
    with (
        inductor.patch(compile_threads=1, fx_graph_cache=False, fx_graph_remote_cache=False),
        functorch.patch(enable_autograd_cache=False),
    ):
        yield


@contextlib.contextmanager
def _quiet() -> Generator[None]:
    """Keep torch's warnings and logged tracebacks off the terminal: what matters is raised.

    What TORCH_LOGS asks for is logged below the level of a warning, and stays.
    """
    loggers = [logging.getLogger(name) for name in list(logging.root.manager.loggerDict) if name.startswith("torch")]
    handlers = {handler for logger in loggers for handler in logger.handlers}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for handler in handlers:
            handler.addFilter(_is_below_warning)
        try:
            yield
        finally:
            for handler in handlers:
                handler.removeFilter(_is_below_warning)


def _is_below_warning(record: logging.LogRecord) -> bool:
    return record.levelno < logging.WARNING
