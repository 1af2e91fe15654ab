"""The Dynamo back end of a running script: each graph compiled for the target, its code run on the engine.

Dynamo and AOT autograd work on the script's real CPU tensors, so graph breaks, guards, mutation and
training are torch's own. Only Inductor sees the target, as a pretended `cuda:0`.
"""

from __future__ import annotations

import contextlib
import types
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from time import perf_counter
from typing import Any
from unittest.mock import patch

import torch

from tilesight.capture.inductor.choices import nothing_timed
from tilesight.capture.inductor.compile import dynamos_own, quiet, reproducible_config
from tilesight.capture.inductor.compile_errors import first_line, innermost
from tilesight.capture.inductor.execute import load_wrapper
from tilesight.capture.inductor.fusion import Heard, hear_fusion
from tilesight.capture.inductor.graph import Undecided
from tilesight.capture.inductor.nodes import input_sources, read_nodes
from tilesight.capture.inductor.pretend import pretend
from tilesight.capture.inductor.record import Recorded, graph_break
from tilesight.capture.inductor.target_device import move_graph, move_inputs
from tilesight.capture.inductor.timeline import EventLog, hear_events
from tilesight.capture.launches import lent_again, on_engine
from tilesight.errors import CaptureError, TilesightError
from tilesight.targets import Target

_NO_CUDA_GRAPHS = {"triton.cudagraphs": False}


@dataclass
class LiveLog:
    """What the back end has compiled and run so far.

    Args:
        recorded: one a forward or backward graph, in the order of their compilation
        ran: the positions in `recorded` of what was run, in order
        run_s: seconds that generated code has run
        undecided: choices that belong to the next record
        events: torch's timed blocks, and the runs of generated code
        noted: how often each graph was run
    """

    recorded: list[Recorded] = field(default_factory=list[Recorded])
    ran: list[int] = field(default_factory=list[int])
    run_s: float = 0.0
    undecided: list[Undecided] = field(default_factory=list[Undecided])
    events: EventLog = field(default_factory=EventLog)
    noted: Counter[int] = field(default_factory=Counter[int])

    def noted_run(self, position: int) -> contextlib.AbstractContextManager[None]:
        """The run of a graph as a block of the timeline, the first and the second time: a loop has thousands."""
        self.noted[position] += 1
        return self.events.block("kernels on the engine") if self.noted[position] <= 2 else contextlib.nullcontext()


_calling: list[LiveLog] = []


@contextlib.contextmanager
def logged_to(log: LiveLog) -> Generator[None]:
    """While it lasts, what back ends compile goes to this log, whichever of the equal ones Dynamo asks."""
    _calling.append(log)
    try:
        yield
    finally:
        _calling.remove(log)


@dataclass(frozen=True, eq=False)
class _LiveBackend:
    """Equal to others of the same target and options, as torch's own back ends are: Dynamo keeps one piece of code for
    them all, so layers of one class that are compiled one by one are compiled once.
    """

    target: Target
    log: LiveLog
    options: Mapping[str, Any]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _LiveBackend) and (self.target, self.options) == (other.target, other.options)

    def __hash__(self) -> int:
        return hash(self.target.name)

    def __call__(self, graph_module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        log = _calling[-1] if _calling else self.log
        with quiet():
            compile_fx: Any = import_module("torch._inductor.compile_fx")

        def inner_compile(*args: Any, **kwargs: Any) -> Any:
            """Inductor's own; a backward graph may come here when nothing of ours is active any more."""
            with hear_events(log.events), _for_target(self.target, log), _run_on_engine(log):
                return compile_fx.compile_fx_inner(*args, **kwargs)

        first = len(log.recorded)
        front = Recorded(read_nodes(graph_module.graph), graph_break(graph_module))
        front.input_sources = input_sources(graph_module.graph)
        move_graph(graph_module)
        try:
            with _for_target(self.target, log):
                compiled = compile_fx.compile_fx(
                    graph_module, move_inputs(example_inputs), inner_compile=inner_compile, config_patches=self.options
                )
        except dynamos_own():
            raise
        except Exception as error:
            raise _explained(error) from error
        for record in log.recorded[first : first + 1]:
            record.fx, record.graph_break, record.input_sources = front.fx, front.graph_break, front.input_sources
        return compiled


def live_backend(target: Target, log: LiveLog, options: Mapping[str, Any]) -> Callable[..., Any]:
    """A Dynamo back end: Inductor generates code for the target, and the engine runs it.

    Args:
        target: an NVIDIA target
        log: gains a record for each graph, forward and backward, but for those of a call that is `logged_to` another
        options: Inductor's configuration for these graphs
    """
    return _LiveBackend(target, log, {**options, **_NO_CUDA_GRAPHS})


def _explained(error: Exception) -> TilesightError:
    cause = innermost(error)
    if isinstance(cause, TilesightError):
        return cause
    return CaptureError(
        f"torch.compile failed: {type(cause).__name__}: {first_line(cause)}",
        next_step="run again with --debug for torch's own traceback",
    )


@contextlib.contextmanager
def _for_target(target: Target, log: LiveLog) -> Generator[None]:
    with pretend(target), reproducible_config(), nothing_timed(log.undecided), quiet():
        yield


@contextlib.contextmanager
def _run_on_engine(log: LiveLog) -> Generator[None]:
    """While it lasts, a GraphLowering's code becomes a callable that runs it on the engine."""
    lowering: Any = import_module("torch._inductor.graph")
    record = Recorded()
    heard = Heard()

    def compile_to_module(self: Any) -> Any:
        record.keep(self, heard)
        record.undecided = [*log.undecided]
        log.undecided.clear()
        log.recorded.append(record)
        call = _timed(load_wrapper(record.code, _constants(self)), log, len(log.recorded) - 1)
        return types.SimpleNamespace(call=call, __file__="<generated wrapper>", key="")

    with patch.object(lowering.GraphLowering, "compile_to_module", compile_to_module), hear_fusion(heard):
        yield


def _constants(lowering: Any) -> dict[str, Any]:
    """The values that the generated module names and does not hold: tensors and opaque objects."""
    opaque = getattr(lowering, "opaque_value_type_classes", {})
    return {**lowering.constants, **lowering.torchbind_constants, **opaque}


def _timed(call: Callable[[list[Any]], list[Any]], log: LiveLog, position: int) -> Callable[[list[Any]], list[Any]]:
    def run(inputs: list[Any]) -> list[Any]:
        session = on_engine()
        started = perf_counter()
        try:
            with torch.no_grad(), session, lent_again(), log.noted_run(position):
                return call(inputs)
        finally:
            log.run_s += perf_counter() - started
            log.ran.append(position)

    return run
