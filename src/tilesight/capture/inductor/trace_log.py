"""The compiled regions of a TORCH_TRACE log: what torch wrote down of each compilation, put together again.

A region is one compilation of one frame. Dynamo numbers them `frame/compilation`, and from 0 again after a reset;
what comes after the end of a compilation, such as a backward graph compiled when it is first needed, joins the last
region of its number. Seen on torch 2.13.0 and 2.14.1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tilesight.capture.inductor.graph import GraphBreak, Node
from tilesight.capture.inductor.guards import guard_leaves, recompile_reasons, with_explanation
from tilesight.capture.inductor.readable_graph import read_graph
from tilesight.capture.inductor.timeline import Event, event_of_record
from tilesight.capture.inductor.trace_records import Record, TraceLog, read_records

_BREAK_PLACE = re.compile(r"Graph break in user code at (.+:\d+)\s*$", re.MULTILINE)
_CACHES = ("fx_graph_cache_", "aotautograd_cache_")
_STARTS = ("dynamo_start", "recompile_reasons")
_CLOSES = "compilation_metrics"


@dataclass
class LoggedCode:
    """Generated code with the graph it was made from."""

    text: str
    is_whole: bool
    aten: tuple[Node, ...]


@dataclass
class LoggedRegion:
    """What the log tells of one compilation.

    Args:
        compile_id: `frame/compilation`
        name, source: the function and its file:line
        breaks: where and why Dynamo ended the graph
        recompiles: guards of earlier compilations that failed, so that this one came about
        guards: what it was compiled for
        fx: Dynamo's graph
        codes: generated code, forward and backward
        caches: what each cache said, in order, such as `fx_graph_cache hit`
        failure: why it was not compiled; empty where it was
        seconds: of the whole compilation; None where the log does not say
        is_closed: the log tells its end
        events: torch's timed blocks, also those after its end: a backward graph's
    """

    compile_id: str
    name: str = ""
    source: str = ""
    breaks: list[GraphBreak] = field(default_factory=list[GraphBreak])
    recompiles: list[str] = field(default_factory=list[str])
    guards: list[str] = field(default_factory=list[str])
    fx: tuple[Node, ...] = ()
    codes: list[LoggedCode] = field(default_factory=list[LoggedCode])
    caches: list[str] = field(default_factory=list[str])
    failure: str = ""
    seconds: float | None = None
    is_closed: bool = False
    post_grad: tuple[Node, ...] = ()
    events: list[Event] = field(default_factory=list[Event])


@dataclass
class LoggedWork:
    """A whole log: its regions in order, the torch that wrote it, what could not be read."""

    regions: list[LoggedRegion]
    torch: str
    damage: list[str]


def read_log(text: str) -> LoggedWork:
    """The regions of a log, as far as it goes."""
    log = read_records(text)
    regions: list[LoggedRegion] = []
    current: dict[str, LoggedRegion] = {}
    early: dict[str, list[Event]] = {}
    torch = ""
    for record in log.records:
        if record.kind == "torch_version":
            torch = str(_json(record.payload).get("pytorch_version", ""))
        if record.kind == "chromium_event":
            _keep_event(record, current, early)
        if not record.compile_id or record.kind == "chromium_event":
            continue
        region = current.get(record.compile_id)
        if region is None or (region.is_closed and record.kind in _STARTS):
            region = LoggedRegion(record.compile_id)
            region.events += early.pop(record.compile_id, [])
            current[record.compile_id] = region
            regions.append(region)
        _add(region, record, log)
    for compile_id, events in early.items():
        if compile_id in current:
            current[compile_id].events += events
    return LoggedWork(regions, torch, log.damage)


def _keep_event(record: Record, current: dict[str, LoggedRegion], early: dict[str, list[Event]]) -> None:
    """A timed block's begin or end goes to the region that is open, or waits: a compilation's first come before it."""
    event = event_of_record(_json(record.payload))
    if event is None:
        return
    region = current.get(event.compile_id)
    if region is None or region.is_closed:
        early.setdefault(event.compile_id, []).append(event)
    else:
        region.events.append(event)


def _add(region: LoggedRegion, record: Record, log: TraceLog) -> None:
    reader = _READERS.get(record.kind)
    if reader is not None:
        reader(region, record, log)
    elif record.kind.startswith(_CACHES):
        cache, _, state = record.kind.rpartition("_")
        region.caches.append(f"{cache} {state}")


def _start(region: LoggedRegion, record: Record, log: TraceLog) -> None:
    frames: list[dict[str, Any]] = record.data.get("stack", [])
    if frames:
        region.name = str(frames[-1].get("name", ""))
        region.source = f"{_file(frames[-1], log)}:{frames[-1].get('line')}"


def _file(frame: dict[str, Any], log: TraceLog) -> str:
    name = frame.get("filename", "")
    return log.files.get(name, f"file {name}") if isinstance(name, int) else str(name)


def _graph_break(region: LoggedRegion, record: Record, log: TraceLog) -> None:
    place = _BREAK_PLACE.search(record.payload)
    _, _, after = record.payload.partition("Graph Break Reason:")
    lines = [line.strip() for line in (after or record.payload).splitlines() if line.strip()]
    # the first line says which bytecode was traced; the reason itself stands below it
    reason = lines[1] if len(lines) > 1 and lines[0].startswith("Encountered graph break") else (lines or [""])[0]
    region.breaks.append(GraphBreak(place.group(1) if place else "", with_explanation(reason, record.payload)))


def _recompiled(region: LoggedRegion, record: Record, log: TraceLog) -> None:
    region.recompiles += recompile_reasons(record.payload)


def _guards(region: LoggedRegion, record: Record, log: TraceLog) -> None:
    region.guards = guard_leaves(record.payload)


def _dynamo_graph(region: LoggedRegion, record: Record, log: TraceLog) -> None:
    region.fx = read_graph(record.payload)


def _post_grad(region: LoggedRegion, record: Record, log: TraceLog) -> None:
    region.post_grad = read_graph(record.payload)


def _code(region: LoggedRegion, record: Record, log: TraceLog) -> None:
    region.codes.append(LoggedCode(record.payload, record.is_whole, region.post_grad))
    region.post_grad = ()


def _metrics(region: LoggedRegion, record: Record, log: TraceLog) -> None:
    region.is_closed = True
    region.seconds = record.data.get("entire_frame_compile_time_s")
    if record.data.get("fail_type"):
        text = str(record.data.get("fail_reason", "")).strip()
        reason = with_explanation((text.splitlines() or [""])[0], text)
        place = record.data.get("fail_user_frame_filename")
        where = f" at {place}:{record.data.get('fail_user_frame_lineno')}" if place else ""
        region.failure = f"{record.data['fail_type']}{where}: {reason}"


def _failed(region: LoggedRegion, record: Record, log: TraceLog) -> None:
    """An error's traceback, until the metrics say it in short."""
    lines = [line.strip() for line in record.payload.splitlines() if line and not line[0].isspace()]
    errors = [line for line in lines if not line.startswith("Traceback")]
    region.failure = errors[0] if errors else "failed"


def _json(text: str) -> dict[str, Any]:
    try:
        found: Any = json.loads(text)
    except json.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


_READERS: dict[str, Callable[[LoggedRegion, Record, TraceLog], None]] = {
    "dynamo_start": _start,
    "dynamo_graph_break_reason": _graph_break,
    "recompile_reasons": _recompiled,
    "dynamo_cpp_guards_str": _guards,
    "dynamo_output_graph": _dynamo_graph,
    "inductor_post_grad_graph": _post_grad,
    "inductor_output_code": _code,
    "dynamo_error": _failed,
    _CLOSES: _metrics,
}
