"""Run torch.compile for a target that is not here, and keep what it made."""

from __future__ import annotations

import contextlib
import logging
import time
import types
import warnings
from collections.abc import Callable, Generator, Sequence
from importlib import import_module
from typing import Any
from unittest.mock import patch

import torch

from tilesight.capture.inductor.choices import nothing_timed
from tilesight.capture.inductor.compile_errors import (
    compilations,
    explained_failure,
    frames_left_to_eager,
    innermost,
    refused_by_inductor,
)
from tilesight.capture.inductor.fusion import Heard, hear_fusion
from tilesight.capture.inductor.graph import CompiledGraph, Undecided
from tilesight.capture.inductor.guards import HeardGuards, hear_guards
from tilesight.capture.inductor.nodes import input_sources, read_nodes
from tilesight.capture.inductor.pretend import pretend
from tilesight.capture.inductor.record import Recorded, graph_break, region_of
from tilesight.capture.inductor.timeline import EventLog, hear_events, timeline_of
from tilesight.errors import TilesightError
from tilesight.targets import Target

torch_compile = torch.compile  # the real one, also while a script's torch.compile is redirected


class _CodeIsReadyError(Exception):
    """Ends Inductor's work once the code exists: the kernels can't be loaded here."""


def compile_for_target(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    target: Target,
    *,
    mode: str | None = None,
    dynamic: bool | None = None,
    backward: bool = False,
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
        backward: trace with gradients on; inputs and weights that ask for one give each graph a backward one,
            generated at once as `loss.backward()` would have it generated
    Raises:  InputError: when the function rejects the inputs
             UnsupportedError: when it needs a tensor's value before the first graph
             A call that ends after a graph was compiled is no error: the graphs so far, and `failure`.
    Source:  hooks seen on torch 2.11.0 to 2.14.1: GraphLowering.compile_to_module, WhyNoFuse
    """
    recorded: list[Recorded] = []
    torch._dynamo.reset()
    with pretend(target), reproducible_config(), quiet():
        backend = _recording_backend(recorded, mode, backward=backward)
        compiled = torch_compile(function, backend=backend, dynamic=dynamic)
        log, before, told = EventLog(), compilations(), HeardGuards()
        started = time.perf_counter()
        with hear_events(log), hear_guards(told), log.block("first call"):
            result, failure = _called(compiled, inputs, backward=backward)
        cold_s = time.perf_counter() - started
        if failure is not None and not recorded:
            raise failure
        graphs, left_to_eager = len(recorded), frames_left_to_eager(before)
        warm_s = None
        if failure is None:
            started = time.perf_counter()
            with hear_events(log), hear_guards(told), log.block("second call"):
                _called(compiled, inputs, backward=backward)
            warm_s = time.perf_counter() - started
    breaks = tuple(r.graph_break for r in recorded[:graphs] if r.graph_break is not None)
    cache = "hit: Dynamo's guards held" if len(recorded) == graphs else "miss: the second call compiled again"
    torch._dynamo.reset()
    return CompiledGraph(
        regions=tuple(region_of(r) for r in recorded[:graphs]),
        breaks=(*breaks, *left_to_eager),
        cold_s=cold_s,
        warm_s=warm_s,
        cache=cache if failure is None else "not asked: the first call ended early",
        structure=import_module("torch.utils._pytree").tree_structure(result),
        timeline=timeline_of(log.events),
        failure=failure,
        guards=tuple(told.guards),
        recompiles=tuple(told.recompiles),
    )


def _called(
    compiled: Callable[..., Any], inputs: Sequence[Any], *, backward: bool
) -> tuple[Any, TilesightError | None]:
    """What a call gives, or what ended it."""
    try:
        with _fake_mode(inputs), torch.set_grad_enabled(backward):
            return compiled(*inputs), None
    except Exception as error:
        explained = explained_failure(error)
        explained.__cause__ = None if explained is error else error
        return None, explained


def _fake_mode(inputs: Sequence[Any]) -> Any:
    fake: Any = import_module("torch._subclasses.fake_tensor")
    found = [value.fake_mode for value in inputs if isinstance(value, fake.FakeTensor)]
    return found[0] if found else contextlib.nullcontext()


def _recording_backend(recorded: list[Recorded], mode: str | None, *, backward: bool) -> Callable[..., Any]:
    """A Dynamo back end that lets Inductor write its code, keeps it, and runs the graph on fakes."""
    compile_fx: Any = import_module("torch._inductor.compile_fx")
    options = mode_options(mode) if mode else {}

    def backend(graph_module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        made: list[Recorded] = []
        front = Recorded(read_nodes(graph_module.graph), graph_break(graph_module))
        front.input_sources = input_sources(graph_module.graph)
        try:
            with _code_kept(made, until_backward=backward):
                compile_fx.compile_fx(graph_module, example_inputs, config_patches=options)
        except dynamos_own():
            raise
        except Exception as error:
            if not isinstance(innermost(error), _CodeIsReadyError):
                front.failure = refused_by_inductor(error)
        recorded.extend(_joined(front, made))
        return graph_module.forward

    return backend


def recorded_code(
    function: Callable[..., Any], inputs: Sequence[Any], mode: str | None, dynamic: bool | None, *, backward: bool
) -> list[Recorded]:
    """What Inductor generates for `function(*inputs)` on their own device, up to the code, with its caches off."""
    recorded: list[Recorded] = []
    torch._dynamo.reset()
    with reproducible_config(), quiet():
        compiled = torch_compile(
            function, backend=_recording_backend(recorded, mode, backward=backward), dynamic=dynamic
        )
        _called(compiled, inputs, backward=backward)
    return recorded


def dynamos_own() -> tuple[type[Exception], ...]:
    """What Dynamo expects of a back end: to be told to trace anew, or to leave this graph to eager."""
    fake: Any = import_module("torch._subclasses.fake_tensor")
    left_to_eager = (
        fake.DataDependentOutputException,
        fake.DynamicOutputShapeException,
        fake.UnsupportedOperatorException,
    )
    return import_module("torch._dynamo.exc").RestartAnalysis, *left_to_eager


def _joined(front: Recorded, made: Sequence[Recorded]) -> list[Recorded]:
    """Dynamo's side of a graph on the first of its records; alone where the graph does nothing to compile."""
    if not made:
        return [front]
    made[0].fx, made[0].graph_break, made[0].input_sources = front.fx, front.graph_break, front.input_sources
    made[0].failure = front.failure
    return list(made)


def known_modes() -> list[str]:
    """The modes of torch.compile."""
    inductor: Any = import_module("torch._inductor")
    return list(inductor.list_mode_options())


def mode_options(mode: str) -> dict[str, Any]:
    """Inductor's configuration for a mode of torch.compile."""
    inductor: Any = import_module("torch._inductor")
    with quiet():
        return dict(inductor.list_mode_options(mode))


@contextlib.contextmanager
def _code_kept(made: list[Recorded], *, until_backward: bool) -> Generator[None]:
    """While it lasts, a GraphLowering's code is kept, and compiling ends there, or goes on to the backward graph."""
    lowering: Any = import_module("torch._inductor.graph")
    functorch: Any = import_module("torch._functorch.config")
    compile_fx: Any = import_module("torch._inductor.compile_fx")
    undecided: list[Undecided] = []
    heard = Heard()

    def keep(self: Any) -> Any:
        record = Recorded(undecided=[*undecided])
        undecided.clear()
        record.keep(self, heard)
        heard.forget()
        made.append(record)
        if not until_backward:
            raise _CodeIsReadyError
        runner = types.SimpleNamespace(partitions=[], recursively_apply_fns=lambda functions: None)
        return types.SimpleNamespace(call=_never_called, runner=runner, __file__="<generated wrapper>", key="")

    with (
        patch.object(lowering.GraphLowering, "compile_to_module", keep),
        patch.object(compile_fx, "cudagraphify", lambda model, *_, **__: model),  # wraps what is never called here
        nothing_timed(undecided),
        hear_fusion(heard),
        functorch.patch(force_non_lazy_backward_lowering=until_backward),
    ):
        yield


def _never_called(*_: Any) -> Any:
    raise AssertionError("generated code for a GPU that is not here was called")


@contextlib.contextmanager
def reproducible_config() -> Generator[None]:
    """Compile in this process, and without caches, which would hand over other machines' work."""
    inductor: Any = import_module("torch._inductor.config")
    functorch: Any = import_module("torch._functorch.config")
    with (
        inductor.patch(compile_threads=1, fx_graph_cache=False, fx_graph_remote_cache=False),
        functorch.patch(enable_autograd_cache=False),
    ):
        yield


@contextlib.contextmanager
def quiet() -> Generator[None]:
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
