"""Bytes from a few programs: the same as from all of them, where all can be run."""

from __future__ import annotations

import resource
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import tilesight
from tilesight.capture.inductor.on_engine import capture
from tilesight.capture.inputs import parse_inputs, real_inputs
from tilesight.ledger import sampled
from tilesight.roads.compiled import execute_compiled
from tilesight.roads.sampled import sampled_traffic
from tilesight.targets import target

H200 = target("h200")
GIB = 1 << 30


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x, y: torch.relu(x + y), "f32[100003],f32[100003]"),
        (lambda x: torch.softmax(x, -1), "f32[1000,777]"),
        (lambda x, b: x + b, "bf16[999,128],bf16[128]"),
        (lambda x: x.t().contiguous(), "f32[300,700]"),
        (lambda x: x.sum(0), "f32[5000,300]"),
        (lambda x: x[:, ::3] * 2, "f32[500,999]"),
        (lambda x: x.exp(), "f32[10]"),
    ],
)
def test_a_sample_says_what_all_programs_say(function: Callable[..., Any], inputs: str) -> None:
    specs = parse_inputs(inputs)
    graph = capture(function, specs, H200)
    found, _ = sampled_traffic(graph, H200)
    traces = execute_compiled(graph, function, real_inputs(specs)).traces
    assert traces
    for trace, sample in zip(traces, found, strict=True):
        assert sample is not None
        whole = trace.traffic.bytes
        assert (sample.bytes.requested, sample.bytes.touched) == (whole.requested, whole.touched)


def test_tensors_of_64_gib_take_no_memory() -> None:
    n = 64 * GIB // 4

    def add_relu(x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(x + y)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seen = tilesight.observe(add_relu, f"f32[{n}],f32[{n}]")
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 600 * 1024  # torch's compiler itself, where this test runs first
    (kernel,) = seen.kernels
    assert kernel.bytes.requested == kernel.bytes.touched == 3 * 64 * GIB
    assert seen.ledger.compiled_bytes == seen.ledger.ideal_bytes == 3 * 64 * GIB
    assert seen.ledger.eager_bytes == 5 * 64 * GIB
    assert any("programs of 1 kernels were run" in note for note in seen.notes)


def test_a_kernel_that_loads_twice_requests_more_than_it_touches() -> None:
    seen = tilesight.observe(lambda x: torch.softmax(x, -1), f"f32[{1 << 21},8192]")
    (kernel,) = seen.kernels
    whole = 4 * (1 << 21) * 8192
    assert kernel.bytes.touched == 2 * whole
    assert kernel.bytes.requested is not None and kernel.bytes.requested > 2 * whole


def test_loaded_addresses_leave_touched_open() -> None:
    graph = capture(lambda x, rows: x[rows] + 1, parse_inputs("f32[1000,64],i64[100000]<1000"), H200)
    ((sample,), _) = sampled_traffic(graph, H200)
    assert sample is not None
    assert sample.bytes.touched is None
    assert sample.bytes.requested is not None and sample.bytes.requested >= 2 * 4 * 64 * 100000


def test_a_program_that_walks_too_much_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = capture(lambda x: x.exp(), parse_inputs("f32[100000]"), H200)
    assert sampled_traffic(graph, H200)[0] != [None]
    monkeypatch.setattr(sampled, "ELEMENTS_A_PROGRAM", 100)
    found, notes = sampled_traffic(graph, H200)
    assert found == [None]
    assert len(notes) == 1 and "bytes unknown" in notes[0]


def test_graphs_apart_and_meta_weights_have_kernel_bytes() -> None:
    def broken(x: Tensor) -> Tensor:
        y = torch.relu(x)
        torch._dynamo.graph_break()
        return y * 2

    seen = tilesight.observe(broken, "f32[4096]")
    assert [kernel.bytes.requested for kernel in seen.kernels] == [2 * 4 * 4096] * 2
    with torch.device("meta"):
        norm = torch.nn.LayerNorm(512)
    (kernel,) = tilesight.observe(norm, "f32[1024,512]").kernels
    assert kernel.bytes.touched == 2 * 4 * 1024 * 512 + 2 * 4 * 512
