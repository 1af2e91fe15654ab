"""A timeline as a file that Perfetto (ui.perfetto.dev) and chrome://tracing open.

Source: the Trace Event Format of Chrome: complete events (`X`), instants (`i`), metadata (`M`); times in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tilesight.capture.inductor.timeline import Timeline
from tilesight.report.serialize import Json
from tilesight.roads.model import Observation, Observations, ScriptRun

THREAD = 1


def perfetto_trace(record: Observation | Observations | ScriptRun) -> Json:
    """The timelines of the record's regions, one process each, on one axis that begins at 0."""
    regions: Sequence[Observation] = (record,) if isinstance(record, Observation) else record.regions
    starts = [span.start_us for region in regions for span in region.timeline.spans]
    zero_us = min(starts, default=0.0)
    events = [
        event
        for number, region in enumerate(regions, start=1)
        if region.timeline.spans
        for event in (*_names(number, region.subject), *_events(number, region.timeline, zero_us))
    ]
    return {"displayTimeUnit": "ms", "traceEvents": events}


def _names(process: int, name: str) -> Iterator[Json]:
    yield {"ph": "M", "name": "process_name", "pid": process, "tid": THREAD, "args": {"name": name}}
    yield {"ph": "M", "name": "thread_name", "pid": process, "tid": THREAD, "args": {"name": "torch.compile"}}


def _events(process: int, timeline: Timeline, zero_us: float) -> Iterator[Json]:
    for span in timeline.spans:
        yield {
            "ph": "X",
            "name": span.name,
            "cat": span.phase,
            "ts": round(span.start_us - zero_us, 3),
            "dur": round(span.duration_us, 3),
            "pid": process,
            "tid": THREAD,
            "args": {"compile_id": span.compile_id} if span.compile_id else {},
        }
    for answer in timeline.caches:
        told = {"key": answer.key, "saved_ms": answer.saved_ms, "reason": answer.reason}
        yield {
            "ph": "i",
            "s": "t",
            "name": f"{answer.cache}: {answer.state}",
            "cat": "caches",
            "ts": round(max(answer.time_us - zero_us, 0.0), 3),
            "pid": process,
            "tid": THREAD,
            "args": {key: value for key, value in told.items() if value},
        }
