"""Taking a call's time: on a GPU by events and CUDA graphs with a cold L2, on a CPU by the wall clock."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle, islice
from typing import Any, Protocol

import torch

from tilesight.bench.model import Method, Timing

Call = Callable[[], Any]
Calls = Sequence[Call]
"""The same work on different inputs; calls take them in turn, so that a kept result can't win."""

GRAPH_BELOW_S = 200e-6
"""Calls shorter than this are replayed in a CUDA graph: an event pair and Python's launch cost too much of them."""
GRAPH_CALLS = 20
HOST_CALLS = 20
FLUSH_BYTES = 256 << 20
"""Written between samples; several times any L2."""


class Clock(Protocol):
    """Takes samples of calls."""

    def prepare(self, calls: Calls) -> Sampler:
        """Warm the calls up and choose how to time them."""
        ...


class Sampler(Protocol):
    """One provider's calls, ready to be sampled."""

    method: Method

    def sample(self) -> float:
        """Seconds a call on the device."""
        ...

    def host(self) -> float:
        """Seconds a call, Python included, over several calls and their end."""
        ...


def interleave(samplers: Mapping[str, Sampler], samples: int, input_sets: int) -> dict[str, Timing]:
    """All providers in turn, round after round, each second round in the other order.

    Args: samples: of each provider
    """
    device: dict[str, list[float]] = {name: [] for name in samplers}
    host: dict[str, list[float]] = {name: [] for name in samplers}
    for number in range(samples):
        for name in list(samplers) if number % 2 == 0 else reversed(list(samplers)):
            device[name].append(samplers[name].sample())
    for number in range(max(3, samples // 5)):
        for name in list(samplers) if number % 2 == 0 else reversed(list(samplers)):
            host[name].append(samplers[name].host())
    return {
        name: Timing(sampler.method, tuple(device[name]), tuple(host[name]), input_sets)
        for name, sampler in samplers.items()
    }


def in_turn(calls: Calls) -> Iterator[Call]:
    """The calls over and over, from the second one on: the first was the last that warmed them up."""
    return islice(cycle(calls), 1, None)


class WallClock:
    """A CPU's time. Nothing is flushed: caches of a CPU are as the last call left them."""

    def prepare(self, calls: Calls) -> WallSampler:
        for call in calls:
            call()
        return WallSampler(calls)


class WallSampler:
    """Times one call a sample."""

    method: Method = "wall"

    def __init__(self, calls: Calls) -> None:
        self._turns = in_turn(calls)

    def sample(self) -> float:
        call = next(self._turns)
        began = time.perf_counter()
        call()
        return time.perf_counter() - began

    def host(self) -> float:
        return self.sample()


class CudaClock:
    """A GPU's time, L2 cold.

    Args:
        l2_bytes: of the device
    """

    def __init__(self, l2_bytes: int) -> None:
        self.flush = torch.empty(max(FLUSH_BYTES, 2 * l2_bytes), dtype=torch.int8, device="cuda")

    def prepare(self, calls: Calls) -> Sampler:
        for _ in range(3):
            calls[0]()
        torch.cuda.synchronize()
        few = calls[:3]
        estimate_s, host_s = elapsed_s(*few) / len(few), _host_s(calls, 5)
        if estimate_s < GRAPH_BELOW_S:
            graph = _captured(calls, max(GRAPH_CALLS, len(calls)))
            if graph is not None:
                return GraphSampler(self, calls, *graph)
        return EventSampler(self, calls, host_s)

    def clear_l2(self, at_least_s: float = 0.0) -> None:
        """Write over L2, and keep the GPU busy while Python puts the next call in the queue."""
        for _ in range(max(1, math.ceil(at_least_s / 50e-6))):
            self.flush.zero_()


class _CudaSampler:
    def __init__(self, clock: CudaClock, calls: Calls) -> None:
        self.clock = clock
        self.calls = calls

    def host(self) -> float:
        return _host_s(self.calls, HOST_CALLS)


class EventSampler(_CudaSampler):
    """An event before and after one call."""

    method: Method = "events"

    def __init__(self, clock: CudaClock, calls: Calls, host_s: float) -> None:
        super().__init__(clock, calls)
        self._turns = in_turn(calls)
        self._ahead_s = 2 * host_s

    def sample(self) -> float:
        call = next(self._turns)
        self.clock.clear_l2(self._ahead_s)
        return elapsed_s(call)


class GraphSampler(_CudaSampler):
    """Replays of a CUDA graph of many calls on inputs that L2 can't hold together; a sample is a call's share."""

    method: Method = "graph"

    def __init__(self, clock: CudaClock, calls: Calls, graph: Any, count: int) -> None:
        super().__init__(clock, calls)
        self._graph, self._count = graph, count

    def sample(self) -> float:
        self.clock.clear_l2()
        return elapsed_s(self._graph.replay) / self._count


def _captured(calls: Calls, count: int) -> tuple[Any, int] | None:
    """A CUDA graph of `count` calls; None for calls that can't be captured."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    try:
        with torch.cuda.stream(stream):
            for _ in range(3):
                calls[0]()
        torch.cuda.synchronize()
        gc.collect()
        with torch.cuda.graph(graph, stream=stream):
            for place in range(count):
                calls[place % len(calls)]()
    except Exception:
        torch.cuda.synchronize()
        return None
    graph.replay()
    torch.cuda.synchronize()
    return graph, count


def elapsed_s(*works: Call) -> float:
    """Seconds on the GPU from before the first to behind the last, waited for."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for work in works:
        work()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) / 1e3


def _host_s(calls: Calls, count: int) -> float:
    torch.cuda.synchronize()
    began = time.perf_counter()
    for place in range(count):
        calls[place % len(calls)]()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / count
