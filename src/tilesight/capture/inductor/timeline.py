"""Where a compilation's time goes, as torch itself times it: the structured events of its `dynamo_timed` blocks.

The same events stand in TORCH_TRACE logs (`chromium_event`). Seen on torch 2.13.0 and 2.14.1.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Literal
from unittest.mock import patch

Phase = Literal["dynamo", "aot", "inductor", "kernels", "caches", "run", "other"]
PHASES: tuple[Phase, ...] = ("dynamo", "aot", "inductor", "kernels", "caches", "run", "other")
_PHASES: tuple[tuple[Phase, tuple[str, ...]], ...] = (
    ("caches", ("CacheBase", "AOTAutogradCache", "FxGraphCache", "inductor_codecache", "remote_cache", "FXGraphCache")),
    ("kernels", ("async_compile", "compile_file", "triton_compile", "CachingAutotuner", "PyCodeCache", "TritonBundler",
                 "CppCodeCache", "CUDACodeCache", "load_kernel", "StaticAutotuner", "code_gen")),
    ("inductor", ("inductor_compile", "fx_codegen_and_compile", "compile_fx", "GraphLowering", "Scheduler",
                  "PythonWrapperCodegen", "pass.", "_recursive_", "additional_fake_tensor_prop")),
    ("aot", ("backend_compile", "create_aot_dispatcher", "aot_", "min_cut", "call_user_compiler",
             "entire_backward_compile")),
    ("dynamo", ("dynamo", "entire_frame_compile", "compile_attempt", "bytecode_tracing", "build_guards", "gc",
                "insert_deferred_runtime_asserts", "compile_inner")),
    ("run", ("first call", "second call", "kernels on the engine")),
)  # fmt: skip
_CACHES = {"fx_graph_cache": "Inductor's graph cache", "autograd_cache": "AOTAutograd's cache"}


@dataclass(frozen=True)
class Event:
    """One event: a block begins (`B`) or ends (`E`), or something happens at once (`i`)."""

    kind: str
    name: str
    time_us: float
    compile_id: str = ""
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Span:
    """A block of time.

    Args:
        name: torch's name of it, such as `GraphLowering.codegen`
        phase: the part of the road it belongs to
        start_us: microseconds since the epoch
        depth: 0 for the outermost
        compile_id: `frame/compilation`; empty for what belongs to none
    """

    name: str
    phase: Phase
    start_us: float
    duration_us: float
    depth: int
    compile_id: str = ""


@dataclass(frozen=True)
class CacheAnswer:
    """What a cache of compiled graphs said.

    Args:
        cache: which one
        state: `hit`, `miss` or `bypass`
        key: what was looked up
        saved_ms: what the hit saved, by the cache's own record; None where it does not tell
        reason: why it was not asked, of a bypass
    """

    cache: str
    state: str
    time_us: float
    key: str = ""
    saved_ms: float | None = None
    reason: str = ""
    compile_id: str = ""


@dataclass(frozen=True)
class Timeline:
    """The spans in the order of their beginning, and what the caches said; empty where nothing was heard."""

    spans: tuple[Span, ...] = ()
    caches: tuple[CacheAnswer, ...] = ()

    def phase_s(self) -> dict[str, float]:
        """Seconds of each phase: of its blocks, without the blocks inside them; those that took no time left out."""
        own = {number: span.duration_us for number, span in enumerate(self.spans)}
        stack: list[int] = []
        for number, span in enumerate(self.spans):
            stack = [each for each in stack if self.spans[each].depth < span.depth]
            if stack:
                own[stack[-1]] -= span.duration_us
            stack.append(number)
        total: dict[str, float] = {}
        for number, span in enumerate(self.spans):
            total[span.phase] = total.get(span.phase, 0.0) + max(own[number], 0.0) / 1e6
        return {phase: total[phase] for phase in PHASES if phase in total}

    def joined(self, later: Timeline) -> Timeline:
        """This timeline with what was heard later."""
        return Timeline((*self.spans, *later.spans), (*self.caches, *later.caches))


@dataclass
class EventLog:
    """Events as they are heard; one log may be listened for at several places that lie inside each other."""

    events: list[Event] = field(default_factory=list[Event])
    listeners: int = 0

    @contextlib.contextmanager
    def block(self, name: str) -> Generator[None]:
        """A block of our own around torch's."""
        self.events.append(Event("B", name, time.time_ns() / 1e3))
        try:
            yield
        finally:
            self.events.append(Event("E", name, time.time_ns() / 1e3))

    def rename(self, name: str, known: str, start: int) -> None:
        """Give the blocks from a position on the name that could not be known when they began."""
        for number in range(start, len(self.events)):
            if self.events[number].name == name:
                self.events[number] = replace(self.events[number], name=known)


@contextlib.contextmanager
def hear_events(log: EventLog) -> Generator[None]:
    """While it lasts, torch's timed events go to the log too; what else listens for them still hears them."""
    logger: Any = import_module("torch._dynamo.utils").ChromiumEventLogger
    timed, instant = logger._log_timed_event, logger.log_instant_event

    def hear_timed(self: Any, event_name: str, time_ns: int, phase: str, metadata: Any = None) -> Any:
        log.events.append(_event(phase, event_name, time_ns / 1e3, metadata))
        return timed(self, event_name, time_ns, phase, metadata)

    def hear_instant(self: Any, event_name: str, time_ns: int, metadata: Any = None, *rest: Any, **named: Any) -> Any:
        log.events.append(_event("i", event_name, time_ns / 1e3, metadata))
        return instant(self, event_name, time_ns, metadata, *rest, **named)

    log.listeners += 1
    try:
        if log.listeners > 1:
            yield
            return
        with (
            patch.object(logger, "_log_timed_event", hear_timed),
            patch.object(logger, "log_instant_event", hear_instant),
        ):
            yield
    finally:
        log.listeners -= 1


def _event(kind: str, name: str, time_us: float, data: Any) -> Event:
    kept: dict[str, Any] = dict(data) if isinstance(data, dict) else {}
    compile_id = str(kept.pop("compile_id", "") or "")
    return Event(kind, name, time_us, "" if compile_id == "None" else compile_id, kept)


def event_of_record(data: Mapping[str, Any]) -> Event | None:
    """The event that a `chromium_event` record of a log holds; None where it is of another form."""
    kind, name, at = data.get("ph"), data.get("name"), data.get("ts")
    if kind not in ("B", "E", "i") or not isinstance(name, str) or not isinstance(at, int | float):
        return None
    return _event(str(kind), name, float(at), data.get("args"))


def timeline_of(events: Sequence[Event]) -> Timeline:
    """The events put together; a block whose end is missing lasts until the last event."""
    ordered = [event for event in events if event.kind in ("B", "E")]
    last_us = max((event.time_us for event in events), default=0.0)
    spans: list[Span] = []
    stack: list[int] = []
    for event in ordered:
        if event.kind == "B":
            outer = spans[stack[-1]].phase if stack else "other"
            phase = phase_of(event.name, outer)
            spans.append(Span(event.name, phase, event.time_us, -1.0, len(stack), event.compile_id))
            stack.append(len(spans) - 1)
        elif any(spans[each].name == event.name for each in stack):
            while spans[stack[-1]].name != event.name:
                _close(spans, stack.pop(), event.time_us)
            _close(spans, stack.pop(), event.time_us)
    for number in stack:
        _close(spans, number, last_us)
    caches = [answer for event in events if event.kind == "i" and (answer := _cache_answer(event))]
    return Timeline(tuple(spans), tuple(caches))


def _close(spans: list[Span], number: int, end_us: float) -> None:
    spans[number] = replace(spans[number], duration_us=max(end_us - spans[number].start_us, 0.0))


def phase_of(name: str, outer: Phase) -> Phase:
    """The phase that a block's name tells; that of the block around it for a name that is not known."""
    for phase, starts in _PHASES:
        if name.startswith(starts):
            return phase
    return outer


def _cache_answer(event: Event) -> CacheAnswer | None:
    cache, _, state = event.name.rpartition("_")
    if cache not in _CACHES or state not in ("hit", "miss", "bypass"):
        return None
    saved = event.data.get("time_saved_ms")
    if saved is None and event.data.get("time_saved_ns") is not None:
        saved = float(event.data["time_saved_ns"]) / 1e6
    return CacheAnswer(
        cache=_CACHES[cache],
        state=state,
        time_us=event.time_us,
        key=str(event.data.get("key") or ""),
        saved_ms=None if saved is None else float(saved),
        reason=str(event.data.get("cache_bypass_reason") or ""),
        compile_id=event.compile_id,
    )
