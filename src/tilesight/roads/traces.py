"""Launches on the engine turned into Traces: tiles, masks, addresses, bytes, findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilesight.capture.launches import EngineSession, installed_session
from tilesight.capture.parts import find_parts
from tilesight.checks.bounds import BoundsCheck
from tilesight.engine import Execution
from tilesight.engine.launch import Launch, Memory
from tilesight.engine.listener import Listener
from tilesight.ledger.tiles import TileListener
from tilesight.ledger.traffic import TrafficListener
from tilesight.roads.model import Trace, TracedTensor
from tilesight.targets import target as find_target


class TraceObserver:
    """Turns every launch of a session into a Trace."""

    def __init__(self) -> None:
        self.traces: list[Trace] = []
        self.launches: list[Launch] = []

    def launch_begins(self, launch: Launch) -> Sequence[Listener]:
        return (TrafficListener(), BoundsCheck(), TileListener())

    def launch_ends(self, launch: Launch, execution: Execution, listeners: Sequence[Listener]) -> None:
        self.traces.append(build_trace(launch, listeners))
        self.launches.append(launch)


def build_trace(launch: Launch, listeners: Sequence[Listener]) -> Trace:
    """The Trace of a launch from what its listeners heard (traffic, bounds, tiles)."""
    traffic, bounds, tiles = listeners
    assert isinstance(traffic, TrafficListener) and isinstance(bounds, BoundsCheck) and isinstance(tiles, TileListener)
    return Trace(
        kernel=launch.kernel,
        file=launch.file,
        first_line=launch.first_line,
        source=launch.source,
        parts=find_parts(launch.source),
        grid=launch.grid,
        programs=launch.programs,
        constexprs=launch.constexprs,
        options=launch.options,
        tensors=tuple(_tensor(memory) for memory in launch.memories),
        traffic=traffic.traffic(),
        findings=tuple(bounds.findings()),
        tiles=tiles.picture(),
    )


def _tensor(memory: Memory) -> TracedTensor:
    return TracedTensor(memory.tensor_name or memory.name, memory.shape, memory.dtype, memory.elements)


def traced(
    function: Callable[..., Any], observer: TraceObserver, *arguments: Any, target: str = "h200", **options: Any
) -> Any:
    """What `function(*arguments, **options)` returns when it runs on the engine; `observer` hears its launches.

    Inside `tilesight run` or `trace` the command hears them too.
    """
    outer = installed_session()
    lent = outer.lent if outer is not None else None
    session = EngineSession(int(find_target(target).arch), is_pinned=True, lent=lent)
    session.observers += [observer, *(outer.observers if outer is not None and outer.is_pinned else [])]
    with session:
        return function(*arguments, **options)


def trace(function: Callable[..., Any], *arguments: Any, target: str = "h200", **options: Any) -> list[Trace]:
    """Run `function(*arguments, **options)` on the engine; one Trace for each kernel it launches.

    Args:
        function: any function that launches Triton kernels on CPU tensors, or `kernel[grid]`
        target: the GPU whose front-end specialisation is used
    """
    observer = TraceObserver()
    traced(function, observer, *arguments, target=target, **options)
    return observer.traces
