"""torch's timed events, put together into a timeline."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import torch

from tilesight.capture.inductor.on_engine import capture
from tilesight.capture.inductor.timeline import (
    PHASES,
    Event,
    EventLog,
    Timeline,
    event_of_record,
    hear_events,
    phase_of,
    timeline_of,
)
from tilesight.capture.inputs import parse_inputs
from tilesight.targets import target


def block(name: str, start: float, end: float, *inside: list[Event]) -> list[Event]:
    return [Event("B", name, start), *(event for events in inside for event in events), Event("E", name, end)]


NESTED = block(
    "dynamo", 0, 100, block("backend_compile", 10, 90, block("inductor_compile", 20, 80, block("compile_file", 30, 70)))
)


def test_blocks_inside_each_other_have_depths_and_own_times() -> None:
    timeline = timeline_of(NESTED)
    assert [(span.name, span.depth, span.duration_us) for span in timeline.spans] == [
        ("dynamo", 0, 100),
        ("backend_compile", 1, 80),
        ("inductor_compile", 2, 60),
        ("compile_file", 3, 40),
    ]
    own_us = {phase: round(seconds * 1e6, 3) for phase, seconds in timeline.phase_s().items()}
    assert own_us == {"dynamo": 20, "aot": 20, "inductor": 20, "kernels": 40}


def test_phases_add_up_to_the_outermost_blocks() -> None:
    timeline = timeline_of([*NESTED, *block("second call", 200, 203)])
    assert sum(timeline.phase_s().values()) == pytest.approx(103e-6)
    assert list(timeline.phase_s()) == ["dynamo", "aot", "inductor", "kernels", "run"]


def test_a_log_that_was_cut_off_leaves_blocks_open_until_its_last_event() -> None:
    timeline = timeline_of([*NESTED[:4], Event("i", "fx_graph_cache_miss", 50.0, "0/0", {"key": "abc"})])
    assert [span.duration_us for span in timeline.spans] == [50, 40, 30, 20]
    assert [(answer.cache, answer.state, answer.key) for answer in timeline.caches] == [
        ("Inductor's graph cache", "miss", "abc")
    ]


def test_an_end_without_a_begin_is_passed_over_and_a_missing_end_closed_by_the_one_around_it() -> None:
    events = [Event("E", "gc", 1), Event("B", "dynamo", 2), Event("B", "gc", 3), Event("E", "dynamo", 9)]
    assert [(span.name, span.duration_us) for span in timeline_of(events).spans] == [("dynamo", 7), ("gc", 6)]


@pytest.mark.parametrize(
    ("name", "phase"),
    [
        ("bytecode_tracing", "dynamo"),
        ("min_cut_rematerialization_partition", "aot"),
        ("pass.post_grad_passes.remove_noop_ops", "inductor"),
        ("async_compile.wait", "kernels"),
        ("CacheBase.get_system.triton_key", "caches"),
        ("something that a later torch may bring", "aot"),
    ],
)
def test_a_name_tells_its_phase_and_an_unknown_one_has_that_around_it(name: str, phase: str) -> None:
    assert phase_of(name, "aot") == phase


def test_what_a_hit_saved_is_read_in_either_unit() -> None:
    events = [
        Event("i", "autograd_cache_hit", 1.0, "0/0", {"time_saved_ms": "12.5"}),
        Event("i", "fx_graph_cache_hit", 2.0, "0/0", {"time_saved_ns": 3_000_000}),
        Event("i", "fx_graph_cache_bypass", 3.0, "0/0", {"cache_bypass_reason": "custom pass"}),
        Event("i", "something else", 4.0),
    ]
    answers = timeline_of(events).caches
    assert [(each.state, each.saved_ms, each.reason) for each in answers] == [
        ("hit", 12.5, ""),
        ("hit", 3.0, ""),
        ("bypass", None, "custom pass"),
    ]


@pytest.mark.parametrize("data", [{}, {"ph": "X", "name": "a", "ts": 1}, {"ph": "B", "name": 3, "ts": 1}, {"ph": "B"}])
def test_a_record_of_another_form_is_no_event(data: dict[str, Any]) -> None:
    assert event_of_record(data) is None


def add_relu(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x + 1)


def test_torch_tells_its_phases_while_it_compiles() -> None:
    """The loud test: a torch that names or logs its blocks otherwise leaves phases empty."""
    graph = capture(add_relu, parse_inputs("f32[100]"), target("h200"))
    seconds = graph.timeline.phase_s()
    assert {"dynamo", "aot", "inductor"} <= set(seconds) and "other" not in seconds
    names = [span.name for span in graph.timeline.spans]
    assert names[0] == "first call" and names[-1] == "second call"
    assert {"dynamo", "bytecode_tracing", "backend_compile", "GraphLowering.codegen"} <= set(names)
    first, second = (next(s for s in graph.timeline.spans if s.name == name) for name in ("first call", "second call"))
    assert first.duration_us / 1e6 == pytest.approx(graph.cold_s, rel=0.1)
    assert second.duration_us < first.duration_us
    assert all(span.compile_id == "0/0" for span in graph.timeline.spans if span.phase not in ("run", "inductor"))


def test_who_listened_before_still_hears_and_afterwards_all_is_as_it_was() -> None:
    logger: Any = import_module("torch._dynamo.utils").ChromiumEventLogger
    before = logger._log_timed_event, logger.log_instant_event
    log = EventLog()
    with hear_events(log), hear_events(log):
        logger().log_event_start("compile_inner", 1_000, {})
        inside = len(log.events)
    assert inside == 1  # heard once, not once a listener
    assert (logger._log_timed_event, logger.log_instant_event) == before
    with pytest.raises(RuntimeError, match="the function's own"), hear_events(log), log.block("first call"):
        raise RuntimeError("the function's own")
    assert [event.kind for event in log.events[1:]] == ["B", "E"]
    assert (logger._log_timed_event, logger.log_instant_event) == before


def test_an_empty_timeline_says_nothing() -> None:
    assert Timeline().phase_s() == {} and timeline_of([]) == Timeline()
    assert len(set(PHASES)) == len(PHASES)
