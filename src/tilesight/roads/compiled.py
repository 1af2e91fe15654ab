"""The compiled road's execution: the generated wrapper run on the engine, with its launches traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilesight.capture.inductor.graph import Call, CompiledGraph
from tilesight.capture.inductor.on_engine import run_region
from tilesight.capture.inductor.training import run_training
from tilesight.ledger.model import KernelTraffic
from tilesight.roads.model import Trace
from tilesight.roads.traces import TraceObserver, traced


@dataclass(frozen=True)
class CompiledExecution:
    """What the compiled program gave when the engine ran it.

    Args:
        outputs: what the function returns
        traces: one a Triton launch, in order
    """

    outputs: Any
    traces: tuple[Trace, ...]


def execute_compiled(graph: CompiledGraph, function: Callable[..., Any], inputs: Sequence[Any]) -> CompiledExecution:
    """Run the generated wrapper on the CPU: Triton kernels on the engine, extern calls in torch.

    Args:
        graph: what `capture` returned for this function
        function: the function, or the module with real weights on the CPU
        inputs: real CPU tensors
    Raises:  UnsupportedError: when Dynamo broke the function into several graphs
    """
    observer = TraceObserver()
    outputs = traced(run_region, observer, graph, function, inputs)
    return CompiledExecution(outputs, tuple(observer.traces))


def execute_training(graph: CompiledGraph, function: Callable[..., Any], inputs: Sequence[Any]) -> tuple[Trace, ...]:
    """One trace a Triton launch of a forward and a backward graph, in order.

    Raises: UnsupportedError: when Dynamo broke the function into several graphs
    """
    observer = TraceObserver()
    traced(run_training, observer, graph, function, inputs)
    return tuple(observer.traces)


def traffic_by_call(calls: Sequence[Call], traces: Sequence[Trace]) -> list[KernelTraffic | None]:
    """The traffic of each call of the wrapper; None for extern calls."""
    launched = iter(traces)
    return [next(launched).traffic if call.is_triton else None for call in calls]
