"""Both roads of one case side by side: eager, compiled and hand; numbers, bytes, round trips."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from tilesight.capture.case import Case
from tilesight.capture.inductor.on_engine import capture
from tilesight.capture.launches import EngineSession
from tilesight.capture.lent.lend import lend_missing_gpu
from tilesight.capture.numerics import Verdict, judge, reference_outputs
from tilesight.capture.subject import describe, load, look_up, parse_spec
from tilesight.errors import InputError, TilesightError, UnsupportedError
from tilesight.ledger import KernelTrafficEstimate, moved_bytes, round_trips
from tilesight.ledger.model import Bytes, RoundTrip
from tilesight.roads.compiled import CompiledExecution, execute_compiled, traffic_by_call
from tilesight.roads.describe import describe_graph
from tilesight.roads.model import Comparison, LinePair, Observation, Provider, Trace
from tilesight.roads.observe import eager_record
from tilesight.roads.pairs import pair_lines
from tilesight.roads.region_ledger import estimates
from tilesight.roads.traces import TraceObserver, traced
from tilesight.targets import target as find_target


def compare_spec(spec: str, *, on: str | None, target: str) -> Comparison:
    """The Comparison of `FILE.py:CASE`.

    Args:
        spec: FILE.py:CASE, a tilesight.Case
        on: "gpu" to measure on the GPU (not supported yet); None and "target" run on the engine
        target: name of a GPU
    Raises:  InputError: when the file, the case, its inputs or the target can't be used
             UnsupportedError: for `on="gpu"`
    """
    if on == "gpu":
        raise UnsupportedError(
            "--on gpu", expected="--on target", next_step="timing on a GPU comes with a later release"
        )
    parsed = parse_spec(spec)
    chosen = find_target(target)
    lent = lend_missing_gpu(chosen)
    with EngineSession(int(chosen.arch), is_pinned=True, lent=lent), lent or contextlib.nullcontext():
        case = look_up(load(parsed), parsed)
        if not isinstance(case, Case):
            kind = type(case).__name__
            raise InputError(f"{parsed.name} is of type {kind}", where=str(parsed.path), expected="a tilesight.Case")
        return compare(replace(case, name=case.name or f"{Path(spec).stem}:{parsed.name}"), target=target)


def compare(case: Case, *, target: str = "h200") -> Comparison:
    """Eager, compiled and hand-written versions of one operator, run and set side by side.

    Every provider runs on the same random CPU tensors: eager in torch, the other two on the engine.
    Numbers are judged against the reference in float64 (`capture.numerics.TOLERANCES`).

    Args:
        case: the operator
        target: the GPU that torch.compile generates code for
    Raises:  InputError: when the case's functions reject its inputs
    """
    inputs = case.make_inputs()
    reference = reference_outputs(case.reference or case.eager, inputs)
    observation, execution = _compiled_road(case, target, inputs)
    eager = _eager_provider(case, inputs, reference, observation)
    compiled = _compiled_provider(execution, reference, observation)
    hand, traces = _hand_road(case, inputs, reference, target)
    return Comparison(
        case=case.name,
        inputs=observation.inputs,
        target=target,
        ideal_bytes=observation.ledger.ideal_bytes or 0,
        providers=tuple(provider for provider in (eager, compiled, hand) if provider is not None),
        observation=observation,
        hand=traces,
        pairs=_pairs(traces, observation),
    )


def _compiled_road(case: Case, target: str, inputs: Sequence[Any]) -> tuple[Observation, CompiledExecution | str]:
    chosen = find_target(target)
    specs = case.specs()
    graph = capture(case.eager, specs, chosen)
    execution: CompiledExecution | str
    try:
        execution = execute_compiled(graph, case.eager, inputs)
        traffic = traffic_by_call(graph.regions[0].calls, execution.traces)
    except TilesightError as error:
        execution, traffic = str(error), []
    observation = describe_graph(
        graph,
        subject=case.name,
        inputs=tuple(str(spec) for spec in specs),
        target=chosen,
        eager=eager_record(case.eager, specs, chosen),
        traffic=traffic,
    )
    if not isinstance(execution, str):
        observation = _with_extern_bytes(observation, [e for r in graph.regions for e in estimates(r)])
    return observation, execution


def _with_extern_bytes(observation: Observation, steps: Sequence[KernelTrafficEstimate | None]) -> Observation:
    """Extern calls read and write each argument once: their bytes by that formula."""
    kernels = [
        replace(kernel, bytes=Bytes(moved_bytes([step]), moved_bytes([step])))
        if kernel.kind == "extern" and step is not None
        else kernel
        for kernel, step in zip(observation.kernels, steps, strict=True)
    ]
    return replace(observation, kernels=tuple(kernels))


def _eager_provider(
    case: Case, inputs: Sequence[Any], reference: Sequence[torch.Tensor], observation: Observation
) -> Provider:
    with torch.no_grad():
        verdict = judge(case.eager(*inputs), reference)
    moved = observation.ledger.eager_bytes
    return _provider("eager", verdict, Bytes(moved, moved), observation.ledger.eager_round_trips, ())


def _compiled_provider(
    execution: CompiledExecution | str, reference: Sequence[torch.Tensor], observation: Observation
) -> Provider:
    trips = observation.ledger.round_trips
    kernels = tuple(kernel.name for kernel in observation.kernels)
    if isinstance(execution, str):
        return Provider("compiled", None, None, None, Bytes(), trips, kernels, note=f"not executed: {execution}")
    verdict = judge(execution.outputs, reference)
    return _provider("compiled", verdict, _sum([k.bytes for k in observation.kernels]), trips, kernels)


def _hand_road(
    case: Case, inputs: Sequence[Any], reference: Sequence[torch.Tensor], target: str
) -> tuple[Provider | None, tuple[Trace, ...]]:
    if case.hand is None:
        return None, ()
    observer = TraceObserver()
    try:
        outputs = traced(case.hand, observer, *inputs, target=target)
    except TilesightError:
        raise
    except Exception as error:
        raise InputError(f"the hand-written launcher raised {describe(error)}", where=case.name) from error
    steps = [_estimate(trace) for trace in observer.traces]
    kernels = tuple(trace.kernel for trace in observer.traces)
    measured = _sum([trace.traffic.bytes for trace in observer.traces])
    return _provider("hand", judge(outputs, reference), measured, round_trips(steps), kernels), tuple(observer.traces)


def _estimate(trace: Trace) -> KernelTrafficEstimate:
    reads = tuple((row.tensor, row.touched) for row in trace.traffic.rows if row.kind != "store")
    writes = tuple((row.tensor, row.touched) for row in trace.traffic.rows if row.kind != "load")
    return KernelTrafficEstimate(trace.kernel, reads, writes)


def _provider(
    name: str, verdict: Verdict, moved: Bytes, trips: tuple[RoundTrip, ...], kernels: tuple[str, ...]
) -> Provider:
    return Provider(name, verdict.ok, verdict.max_error, verdict.tolerance, moved, trips, kernels)


def _sum(parts: Sequence[Bytes]) -> Bytes:
    """The sum of bytes; a figure is None when one of its parts is."""
    return Bytes(
        _total([p.requested for p in parts]), _total([p.touched for p in parts]), _total([p.dram for p in parts])
    )


def _total(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _pairs(traces: Sequence[Trace], observation: Observation) -> tuple[LinePair, ...]:
    """Line pairs of the first hand-written and the first generated kernel."""
    generated = next((kernel for kernel in observation.kernels if kernel.kind == "triton"), None)
    if not traces or generated is None:
        return ()
    return pair_lines(traces[0].source, generated.source, "", generated.name)
