"""What the engine computes is what the GPU computes. Needs an NVIDIA GPU.

The worst difference of every case is written to the file that ENGINE_VS_GPU names, when it is set.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.gpu.corpus import CORPUS, SMALL
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
ULP = {torch.float32: 2.0**-23, torch.bfloat16: 2.0**-7}
ALLOWED = {"add fp32": 0, "add bf16": 0, "softmax fp32": 16, "rmsnorm fp32": 8}
"""Units in the last place; 1 where not named. The GPU's exp(x) is ex2.approx(x · log2 e), whose product's
rounding alone costs |x| / 2 units: up to 8 for the inputs here. Sums are added in another order."""


@pytest.fixture(scope="session")
def differences() -> Iterator[dict[str, float]]:
    found: dict[str, float] = {}
    yield found
    if path := os.environ.get("ENGINE_VS_GPU"):
        Path(path).write_text(json.dumps(found, indent=1))


def worst_ulps(engine: torch.Tensor, gpu: torch.Tensor) -> float:
    """Largest difference in units of the larger value's last place."""
    a, b = engine.double(), gpu.double().cpu()
    scale = 2.0 ** torch.floor(torch.log2(torch.maximum(a.abs(), b.abs()).clamp_min(2.0**-100)))
    return float(((a - b).abs() / scale).max() / ULP[engine.dtype])


@pytest.mark.parametrize("name", HAND)
def test_hand_written_kernels_agree(name: str, differences: dict[str, float]) -> None:
    function, text = HAND[name]
    inputs = real_inputs(parse_inputs(text))
    engine = traced(function, TraceObserver(), *inputs)
    gpu = function(*(tensor.cuda() for tensor in inputs))
    differences[f"hand {name}"] = worst_ulps(engine, gpu)
    assert differences[f"hand {name}"] <= ALLOWED.get(name, 1)


@pytest.mark.parametrize("name", CORPUS)
def test_generated_kernels_agree(name: str, differences: dict[str, float]) -> None:
    function, inputs = CORPUS[name][0], real_inputs(parse_inputs(SMALL[name]))
    graph = capture(function, list(parse_inputs(SMALL[name])), target("h200"))
    engine = execute_compiled(graph, function, inputs).outputs
    torch._dynamo.reset()
    with torch.no_grad():
        gpu = torch.compile(function)(*(tensor.cuda() for tensor in inputs))
    differences[f"generated {name}"] = worst_ulps(engine, gpu)
    assert differences[f"generated {name}"] <= (0 if name == "add_relu" else 1)
