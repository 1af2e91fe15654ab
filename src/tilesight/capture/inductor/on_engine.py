"""torch.compile with the engine in place of the GPU: compiled for the target, run on the CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from time import perf_counter
from typing import Any

import torch

from tilesight.capture.inductor.bind import bind_inputs
from tilesight.capture.inductor.compile import compile_for_target, mode_options, torch_compile
from tilesight.capture.inductor.compile_errors import innermost
from tilesight.capture.inductor.execute import run_wrapper
from tilesight.capture.inductor.graph import CompiledGraph, CompiledRegion
from tilesight.capture.inductor.guards import HeardGuards, hear_guards
from tilesight.capture.inductor.kernels import with_configs, with_grids
from tilesight.capture.inductor.live import LiveLog, live_backend, logged_to
from tilesight.capture.inductor.record import Recorded, region_of
from tilesight.capture.inductor.timeline import Event, hear_events, timeline_of
from tilesight.capture.inputs import fake_inputs, fake_mode
from tilesight.capture.launches import on_engine
from tilesight.capture.subject import with_fake_weights
from tilesight.errors import CaptureError, TilesightError, UnsupportedError
from tilesight.targets import Target


def capture(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    target: Target,
    *,
    mode: str | None = None,
    dynamic: bool | None = None,
    backward: bool = False,
) -> CompiledGraph:
    """torch.compile's work on `function(*inputs)` for the target, with configs and grids filled in.

    Args:
        function: a function, or a module whose weights may be real, on meta or fake
        inputs: TensorSpecs and plain values
        backward: the backward graphs too, with gradients asked of floating inputs and of the module's weights
    """
    fakes_mode = fake_mode()
    if isinstance(function, torch.nn.Module):
        function = with_fake_weights(function, fakes_mode, is_trained=backward)
    fakes = fake_inputs(fakes_mode, inputs)
    if backward:
        ask_gradients(fakes)
    graph = compile_for_target(function, fakes, target, mode=mode, dynamic=dynamic, backward=backward)
    return replace(graph, regions=tuple(with_launches(region) for region in graph.regions))


def ask_gradients(inputs: Sequence[Any]) -> None:
    """Let a gradient be asked of each floating or complex tensor among the inputs."""
    for value in inputs:
        if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
            value.requires_grad_(True)


def with_launches(region: CompiledRegion) -> CompiledRegion:
    """The region with the configs and grids of its Triton kernels filled in."""
    kernels = with_configs(region.kernels)
    return replace(region, kernels=kernels, calls=with_grids(region.calls, kernels, region.sizes))


def run_region(graph: CompiledGraph, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """What the function returns when the generated code runs, in the engine session that is installed or a new one.

    Raises: UnsupportedError: when Dynamo broke the function into several graphs
    """
    if graph.failures:
        raise CaptureError(graph.failures[0].reason, where=graph.failures[0].source)
    if len(graph.regions) != 1:
        raise UnsupportedError(
            f"the function was cut into {len(graph.regions)} graphs",
            expected="one graph",
            next_step="graphs apart are shown but not executed together yet",
        )
    region = graph.regions[0]
    session = on_engine()
    with torch.no_grad(), session:
        outputs = run_wrapper(region.code, bind_inputs(region, function, inputs))
    return _restore(outputs, graph.structure)


def _restore(outputs: list[Any], structure: Any) -> Any:
    if structure.num_leaves != len(outputs):
        raise UnsupportedError(
            f"the graph returns {len(outputs)} values where the function returns {structure.num_leaves}",
            next_step="the code above is complete; its results cannot be compared yet",
        )
    return import_module("torch.utils._pytree").tree_unflatten(outputs, structure)


class CompiledOnEngine:
    """What `torch.compile` returns while the engine stands in for a GPU.

    Dynamo works as ever, on the script's own tensors: a call that its guards do not know compiles for
    the target, and every call, forward and backward, runs the generated kernels on the engine.
    `graphs` holds what was compiled, one a compiling call, in order; `calls` counts (compiled, reused).
    """

    def __init__(
        self,
        function: Callable[..., Any],
        target: Target,
        *,
        mode: str | None,
        dynamic: bool | None,
        fullgraph: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._function = function
        self._log = LiveLog()
        given = {**(mode_options(mode) if mode else {}), **(options or {})}
        backend = live_backend(target, self._log, given)
        self._compiled = torch_compile(function, backend=backend, dynamic=dynamic, fullgraph=fullgraph)
        self._spans: list[_Span] = []
        self.calls = [0, 0]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        first, ran, run_s = len(self._log.recorded), len(self._log.ran), self._log.run_s
        heard, told = len(self._log.events.events), HeardGuards()
        started = perf_counter()
        try:
            with (
                hear_events(self._log.events),
                hear_guards(told),
                self._log.events.block("call"),
                logged_to(self._log),
            ):
                return self._compiled(*args, **kwargs)
        except Exception as error:
            cause = innermost(error)
            if isinstance(cause, TilesightError) and cause is not error:
                raise cause from error
            raise
        finally:
            seconds = perf_counter() - started - (self._log.run_s - run_s)
            self._note_call(self._log.ran[ran:], _Span(first, seconds, heard, told))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_function"], name)

    def as_torch_returns_it(self) -> Any:
        """Of a module the module that torch.compile makes of it, whose forward comes here; else itself."""
        if not isinstance(self._function, torch.nn.Module):
            return self
        module: Any = self._compiled
        self._compiled, module.forward = module.forward, self
        return module

    @property
    def subject(self) -> str:
        """What was compiled, by name: of a module its class."""
        function = self._function
        if getattr(function, "__name__", "") in ("_call_impl", "_wrapped_call_impl", "forward"):
            function = getattr(function, "__self__", function)  # `module.compile()` compiles its call
        return str(getattr(function, "__name__", type(function).__name__))

    def _note_call(self, ran: Sequence[int], call: _Span) -> None:
        heard = call.heard
        compiled = len(self._log.recorded) > call.first
        self.calls[0 if compiled else 1] += 1
        self._log.events.rename("call", "first call" if compiled else "second call", heard)
        if compiled:
            self._spans.append(call)
            return
        is_first = False
        for span, end in zip(self._spans, self._ends(), strict=True):
            if span.warm_s is None and any(span.first <= position < end for position in ran):
                span.warm_s = call.cold_s
                is_first = True
        if not is_first:
            del self._log.events.events[heard:]  # one call again is enough to see

    def _ends(self) -> list[int]:
        """Where each span's records end."""
        return [*(span.first for span in self._spans[1:]), len(self._log.recorded)][: len(self._spans)]

    @property
    def graphs(self) -> list[CompiledGraph]:
        """What was compiled so far; backward graphs that autograd asked for later join their forward's."""
        ends = [*(span.heard for span in self._spans[1:]), len(self._log.events.events)]
        heard = [self._log.events.events[span.heard : end] for span, end in zip(self._spans, ends, strict=False)]
        spans = zip(self._spans, self._ends(), heard, strict=True)
        return [_compiled_graph(self._log.recorded[span.first : end], span, events) for span, end, events in spans]


@dataclass
class _Span:
    """The records, events and guards of one call: from `first` and `heard` on; seconds without execution."""

    first: int
    cold_s: float
    heard: int
    told: HeardGuards
    warm_s: float | None = None


def _compiled_graph(recorded: Sequence[Recorded], span: _Span, events: Sequence[Event]) -> CompiledGraph:
    regions = tuple(with_launches(region_of(record)) for record in recorded)
    breaks = tuple(record.graph_break for record in recorded if record.graph_break is not None)
    cache = "not asked: the script called it once" if span.warm_s is None else "hit: Dynamo's guards held"
    return CompiledGraph(
        regions,
        breaks,
        span.cold_s,
        span.warm_s,
        cache,
        timeline=timeline_of(events),
        guards=tuple(span.told.guards),
        recompiles=tuple(span.told.recompiles),
    )


@contextlib.contextmanager
def compiled_on_engine(target: Target) -> Generator[list[CompiledOnEngine]]:
    """While it lasts, `torch.compile` compiles for the target and runs on the engine.

    Yields the list of what was compiled, which grows as the script goes on.
    """
    made: list[CompiledOnEngine] = []

    def compile_for_engine(model: Callable[..., Any] | None = None, **options: Any) -> Any:
        if options.get("backend", "inductor") != "inductor":
            return torch_compile(model, **options)
        if model is None:
            return lambda function: compile_for_engine(function, **options)
        compiled = CompiledOnEngine(
            model,
            target,
            mode=options.get("mode"),
            dynamic=options.get("dynamic"),
            fullgraph=options.get("fullgraph", False),
            options=options.get("options"),
        )
        made.append(compiled)
        return compiled.as_torch_returns_it()

    real_compile = torch.compile
    torch.compile = compile_for_engine
    try:
        yield made
    finally:
        torch.compile = real_compile
