"""The compiled road: everything torch.compile does to a function, for a target that is not here."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch

from tilesight.capture.eager import record_eager
from tilesight.capture.inductor.compile import known_modes
from tilesight.capture.inductor.graph import CompiledGraph
from tilesight.capture.inductor.on_engine import ask_gradients, capture
from tilesight.capture.inductor.pretend import pretend
from tilesight.capture.inductor.timeline import EventLog, timeline_of
from tilesight.capture.inputs import fake_inputs, fake_mode, parse_inputs, real_inputs, spec_of
from tilesight.capture.subject import (
    describe,
    inputs_for,
    load,
    look_up,
    parse_spec,
    with_fake_weights,
    without_weights,
)
from tilesight.errors import InputError, TilesightError
from tilesight.ledger.model import KernelTraffic
from tilesight.roads.compiled import execute_compiled, execute_training, traffic_by_call
from tilesight.roads.describe import describe_graph
from tilesight.roads.model import Observation
from tilesight.roads.observe_here import HERE, observe_here
from tilesight.roads.region_ledger import EagerRecord
from tilesight.roads.sampled import sampled_traffic
from tilesight.targets import Target
from tilesight.targets import target as find_target

_Made = TypeVar("_Made")

EXECUTION_LIMIT_BYTES = 16_000_000
"""Graphs whose buffers together stay under this are executed on the engine, to measure their bytes."""


def observe_spec(
    spec: str, *, inputs: str | None, target: str, mode: str | None, backward: bool, dynamic: bool
) -> Observation:
    """The Observation of `FILE.py:NAME`.

    Args:
        spec: FILE.py:NAME or package.module:NAME, a function, an nn.Module class or an instance
        inputs: a text such as "f32[100000]"; None asks `example_inputs()`
        target: name of a GPU; `cpu` or `gpu` for the real compilation on what is here
        mode, dynamic: torch.compile's
        backward: the backward graphs too; floating inputs are differentiated, and a module is in training mode
    Raises:  InputError: when the file, the name, the inputs, the target or the mode can't be used
    """
    chosen = None if target in HERE else find_target(target)
    check_mode(mode)
    parsed = parse_spec(spec)
    module = load(parsed)
    found = look_up(module, parsed)
    if chosen is None:
        specs = inputs_for(found, module, inputs, parsed)
        if not callable(found):
            without_weights(found, parsed)  # says what was expected
        return observe_here(found, specs, target, str(parsed), mode=mode, dynamic=dynamic or None, backward=backward)
    subject = without_weights(found, parsed)
    specs = inputs_for(found, module, inputs, parsed)
    options = Options(mode, dynamic or None, backward)
    return _observe(subject, specs, chosen, str(parsed), options)


def observe(
    function: Callable[..., Any],
    *inputs: Any,
    target: str = "h200",
    mode: str | None = None,
    dynamic: bool | None = None,
    backward: bool = False,
) -> Observation:
    """What torch.compile does to `function(*inputs)` for a target that need not be here.

    Args:
        function: a function or nn.Module
        inputs: tensors (only shape, dtype and strides are used), texts such as "f32[100000]", or values
        target: name of a GPU; `cpu` or `gpu` for the real compilation on what is here
        mode, dynamic: torch.compile's
        backward: the backward graphs too; floating inputs are differentiated, and a module is in training mode
    Raises:  InputError: when the function rejects the inputs or the target or the mode is unknown
    """
    check_mode(mode)
    specs = [spec for value in inputs for spec in _specs(value)]
    name = getattr(function, "__name__", type(function).__name__)
    if target in HERE:
        return observe_here(function, specs, target, name, mode=mode, dynamic=dynamic, backward=backward)
    return _observe(function, specs, find_target(target), name, Options(mode, dynamic, backward))


def check_mode(mode: str | None) -> None:
    """Raises: InputError: for a mode that torch.compile does not have"""
    known = known_modes()
    if mode is not None and mode not in known:
        names = ", ".join(difflib.get_close_matches(mode, known, n=1) or known)
        raise InputError(f"torch.compile has no mode {mode!r}", where="--mode", expected=f"one such as {names}")


def _specs(value: Any) -> Sequence[Any]:
    return parse_inputs(value) if isinstance(value, str) else (spec_of(value),)


@dataclass(frozen=True)
class Options:
    """How a function is compiled: torch.compile's mode and dynamic, and whether its backward graphs are too."""

    mode: str | None = None
    dynamic: bool | None = None
    backward: bool = False


def _observe(
    subject: Callable[..., Any], specs: Sequence[Any], target: Target, name: str, options: Options
) -> Observation:
    graph = capture(subject, specs, target, mode=options.mode, dynamic=options.dynamic, backward=options.backward)
    notes: list[str] = []
    eager = None
    if not graph.failure:
        eager = _unless_it_fails(notes, "eager mode", eager_record, subject, specs, target, backward=options.backward)
    log = EventLog()
    with log.block("kernels on the engine"):
        measured = _unless_it_fails(notes, "kernels' bytes", _measure, graph, subject, specs, target)
    traffic, told = measured or ([], ())
    if traffic:
        graph = replace(graph, timeline=graph.timeline.joined(timeline_of(log.events)))
    return describe_graph(
        graph,
        subject=name,
        inputs=tuple(str(spec) for spec in specs),
        target=target,
        eager=eager,
        traffic=traffic,
        notes=(*notes, *told),
    )


def _unless_it_fails(
    notes: list[str], part: str, work: Callable[..., _Made], *arguments: Any, **options: Any
) -> _Made | None:
    """What the work gives; where it fails, None, and a note with the reason: what was compiled stands without it."""
    try:
        return work(*arguments, **options)
    except Exception as error:
        notes.append(f"{part} not recorded: {describe(error)}")
        return None


def eager_record(
    subject: Callable[..., Any], specs: Sequence[Any], target: Target, *, backward: bool = False
) -> EagerRecord:
    """What eager mode would launch on the target, recorded on fake tensors; with its backward pass, where asked."""
    mode = fake_mode()
    is_module = isinstance(subject, torch.nn.Module)
    function = with_fake_weights(subject, mode, is_trained=backward) if is_module else subject
    fakes = fake_inputs(mode, specs)
    if backward:
        ask_gradients(fakes)
    with pretend(target), mode:
        return record_eager(function, fakes, backward=backward)


def _measure(
    graph: CompiledGraph, subject: Callable[..., Any], specs: Sequence[Any], target: Target
) -> tuple[list[KernelTraffic | None], tuple[str, ...]]:
    """The traffic of each call: of the whole graph where that can be executed, else of a few programs a kernel."""
    if graph.failures or not graph.regions:
        return [], ()
    sizes = [buffer.bytes for region in graph.regions for buffer in region.buffers.values()]
    is_small = None not in sizes and sum(size or 0 for size in sizes) <= EXECUTION_LIMIT_BYTES
    has_weights = not (isinstance(subject, torch.nn.Module) and any(p.is_meta for p in subject.parameters()))
    if not is_small or not has_weights:
        return sampled_traffic(graph, target)
    try:
        is_trained = any(region.graph == "backward" for region in graph.regions)
        real = real_inputs(specs)
        traces = execute_training(graph, subject, real) if is_trained else execute_compiled(graph, subject, real).traces
    except TilesightError:  # such as graphs on either side of a break
        return sampled_traffic(graph, target)
    return traffic_by_call([call for region in graph.regions for call in region.calls], traces), ()
