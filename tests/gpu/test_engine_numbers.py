"""What the engine computes is what the GPU computes. Needs an NVIDIA GPU.

The worst difference of every case is written to the folder that ENGINE_VS_GPU names, when it is set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.gpu.corpus import CORPUS, SMALL
from tests.gpu.differences import record_difference, worst_ulps
from tests.kernels import basic
from tilesight.capture.inductor.on_engine import capture
from tilesight.capture.inputs import parse_inputs, real_inputs
from tilesight.roads.compiled import execute_compiled
from tilesight.roads.traces import TraceObserver, traced
from tilesight.targets import target

assert torch.cuda.is_available(), "tests/gpu needs an NVIDIA GPU"

HAND: dict[str, tuple[Callable[..., Any], str]] = {
    "add fp32": (basic.add, "f32[100000],f32[100000]"),
    "add bf16": (basic.add, "bf16[100003],bf16[100003]"),
    "softmax fp32": (basic.softmax, "f32[100,1000]"),
    "softmax bf16": (basic.softmax, "bf16[64,4096]"),
    "rmsnorm fp32": (basic.rmsnorm, "f32[50,1000],f32[1000]"),
    "rmsnorm bf16": (basic.rmsnorm, "bf16[50,1000],bf16[1000]"),
}
ALLOWED = {"add fp32": 0, "add bf16": 0, "softmax fp32": 8, "rmsnorm fp32": 8}
"""Units in the last place; 1 where not named. Sums are added in another order."""


@pytest.mark.parametrize("name", HAND)
def test_hand_written_kernels_agree(name: str) -> None:
    function, text = HAND[name]
    inputs = real_inputs(parse_inputs(text))
    engine = traced(function, TraceObserver(), *inputs)
    gpu = function(*(tensor.cuda() for tensor in inputs))
    ulps = worst_ulps(engine, gpu)
    record_difference("hand-written", name, ulps)
    assert ulps <= ALLOWED.get(name, 1)


@pytest.mark.parametrize("name", CORPUS)
def test_generated_kernels_agree(name: str) -> None:
    function, inputs = CORPUS[name][0], real_inputs(parse_inputs(SMALL[name]))
    graph = capture(function, list(parse_inputs(SMALL[name])), target("h200"))
    engine = execute_compiled(graph, function, inputs).outputs
    torch._dynamo.reset()
    with torch.no_grad():
        gpu = torch.compile(function)(*(tensor.cuda() for tensor in inputs))
    ulps = worst_ulps(engine, gpu)
    record_difference("generated", name, ulps)
    assert ulps <= (0 if name == "add_relu" else 1)
