"""Launches on the engine turned into Traces: tiles, masks, addresses, bytes, findings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tilesight.capture.launches import EngineSession, installed_session
from tilesight.capture.parts import find_parts
from tilesight.checks.bounds import BoundsCheck
from tilesight.checks.coverage import Output, find_never_written
from tilesight.checks.finding import Finding
from tilesight.engine import Execution
from tilesight.engine.launch import Launch, Memory
from tilesight.engine.listener import Listener
from tilesight.ledger.tiles import TileListener
from tilesight.ledger.traffic import TrafficListener
from tilesight.roads.checked_launch import CheckedLaunch
from tilesight.roads.model import Trace, TracedTensor
from tilesight.targets import Target
from tilesight.targets import target as find_target


class TraceObserver:
    """Turns every launch of a session into a Trace; of faults it looks for out-of-bounds alone."""

    def __init__(self) -> None:
        self.traces: list[Trace] = []
        self.launches: list[Launch] = []

    def launch_begins(self, launch: Launch) -> Sequence[Listener]:
        return (TrafficListener(), TileListener(), *self.checks_of(launch))

    def launch_ends(self, launch: Launch, execution: Execution, listeners: Sequence[Listener]) -> None:
        traffic, tiles, *checks = listeners
        assert isinstance(traffic, TrafficListener) and isinstance(tiles, TileListener)
        self.traces.append(build_trace(launch, traffic, tiles, self.findings_of(checks)))
        self.launches.append(launch)

    def checks_of(self, launch: Launch) -> Sequence[Listener]:
        """What listens for faults while the launch runs."""
        return (BoundsCheck(),)

    def findings_of(self, checks: Sequence[Listener]) -> Sequence[Finding]:
        """The faults of the launch that has just ended."""
        return [finding for check in checks if isinstance(check, BoundsCheck) for finding in check.findings()]

    def finish(self) -> None:
        """All launches are over."""


class CheckedTraceObserver(TraceObserver):
    """Turns every launch of a session into a Trace with every kind of fault.

    Args:
        session: the one that runs the launches
        target: the GPU that is asked whether it takes them
    """

    def __init__(self, session: EngineSession, target: Target) -> None:
        super().__init__()
        self._session = session
        self._target = target
        self._checked: CheckedLaunch | None = None
        self._outputs: dict[tuple[int, int], tuple[int, Output]] = {}

    def checks_of(self, launch: Launch) -> Sequence[Listener]:
        self._checked = CheckedLaunch(self._session, launch, self._target)
        return self._checked.listeners

    def findings_of(self, checks: Sequence[Listener]) -> Sequence[Finding]:
        assert self._checked is not None
        found = self._checked.findings()
        for output in self._checked.outputs:
            self._outputs[output.memory.address, len(output.memory.data)] = len(self.traces), output
        return found

    def finish(self) -> None:
        """Add what no launch has written to the Trace of the last one that should have."""
        for number, output in self._outputs.values():
            trace = self.traces[number]
            self.traces[number] = replace(trace, findings=(*trace.findings, *find_never_written([output])))


def build_trace(launch: Launch, traffic: TrafficListener, tiles: TileListener, findings: Sequence[Finding]) -> Trace:
    """The Trace of a launch from what was heard of it."""
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
        findings=tuple(findings),
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
