"""torch.compile with the engine in place of the GPU: compiled for the target, run on the CPU."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import torch

from tilesight.capture.inductor.bind import bind_inputs
from tilesight.capture.inductor.compile import compile_for_target
from tilesight.capture.inductor.execute import run_wrapper
from tilesight.capture.inductor.graph import CompiledGraph, CompiledRegion
from tilesight.capture.inductor.kernels import with_configs, with_grids
from tilesight.capture.inputs import fake_inputs, fake_mode, spec_of
from tilesight.capture.launches import EngineSession, installed_session
from tilesight.capture.subject import with_fake_weights
from tilesight.errors import UnsupportedError
from tilesight.targets import Target


def capture(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    target: Target,
    *,
    mode: str | None = None,
    dynamic: bool | None = None,
) -> CompiledGraph:
    """torch.compile's work on `function(*inputs)` for the target, with configs and grids filled in.

    Args:
        function: a function, or a module whose weights may be real, on meta or fake
        inputs: TensorSpecs and plain values
    """
    fakes_mode = fake_mode()
    if isinstance(function, torch.nn.Module):
        function = with_fake_weights(function, fakes_mode)
    graph = compile_for_target(function, fake_inputs(fakes_mode, inputs), target, mode=mode, dynamic=dynamic)
    return replace(graph, regions=tuple(_with_launches(region) for region in graph.regions))


def _with_launches(region: CompiledRegion) -> CompiledRegion:
    kernels = with_configs(region.kernels)
    return replace(region, kernels=kernels, calls=with_grids(region.calls, kernels))


def run_region(graph: CompiledGraph, function: Callable[..., Any], inputs: Sequence[Any]) -> Any:
    """What the function returns when the generated code runs, in the engine session that is installed or a new one.

    Raises: UnsupportedError: when Dynamo broke the function into several graphs
    """
    if len(graph.regions) != 1:
        raise UnsupportedError(
            f"the function was cut into {len(graph.regions)} graphs",
            expected="one graph",
            next_step="graphs apart are shown but not executed together yet",
        )
    region = graph.regions[0]
    session = contextlib.nullcontext() if installed_session() else EngineSession(is_pinned=True)
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

    The first call with new shapes, dtypes or strides compiles for the target; every call runs the
    generated kernels on the engine. `graphs` holds what was compiled, in order; `calls` counts
    (compiled, reused).
    """

    def __init__(self, function: Callable[..., Any], target: Target, *, mode: str | None, dynamic: bool | None) -> None:
        self._function = function
        self._target = target
        self._mode = mode
        self._dynamic = dynamic
        self._by_key: dict[Any, CompiledGraph] = {}
        self.graphs: list[CompiledGraph] = []
        self.calls = [0, 0]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        inputs = self._positional(args, kwargs)
        key = tuple(_key(value) for value in inputs)
        is_new = key not in self._by_key
        if is_new:
            self._by_key[key] = self._capture(inputs)
            self.graphs.append(self._by_key[key])
        self.calls[0 if is_new else 1] += 1
        return self._execute(self._by_key[key], inputs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_function"], name)

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if not kwargs:
            return list(args)
        plain = self._function.forward if isinstance(self._function, torch.nn.Module) else self._function
        bound = inspect.signature(plain).bind(*args, **kwargs)
        if bound.kwargs:
            raise UnsupportedError(f"keyword-only arguments {', '.join(bound.kwargs)} of a compiled function")
        return list(bound.args)

    def _capture(self, inputs: Sequence[Any]) -> CompiledGraph:
        specs = [spec_of(value) for value in inputs]
        return capture(self._function, specs, self._target, mode=self._mode, dynamic=self._dynamic)

    def _execute(self, graph: CompiledGraph, inputs: Sequence[Any]) -> Any:
        return run_region(graph, self._function, inputs)


def _key(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return (tuple(value.shape), tuple(value.stride()), value.dtype)
    return value if isinstance(value, int | float | bool | str | None) else id(value)


@contextlib.contextmanager
def compiled_on_engine(target: Target) -> Generator[list[CompiledOnEngine]]:
    """While it lasts, `torch.compile` compiles for the target and runs on the engine.

    Yields the list of what was compiled, which grows as the script goes on.
    """
    made: list[CompiledOnEngine] = []

    def compile_for_engine(model: Callable[..., Any] | None = None, **options: Any) -> Any:
        if model is None:
            return lambda function: compile_for_engine(function, **options)
        compiled = CompiledOnEngine(model, target, mode=options.get("mode"), dynamic=options.get("dynamic"))
        made.append(compiled)
        return compiled

    real_compile = torch.compile
    torch.compile = compile_for_engine
    try:
        yield made
    finally:
        torch.compile = real_compile
