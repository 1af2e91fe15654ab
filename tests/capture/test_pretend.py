"""What tracing on a pretended device must stand: bindings that enter a device guard, and devices by name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tilesight.capture.inductor.on_engine import capture
from tilesight.capture.inputs import parse_inputs, real_inputs
from tilesight.capture.numerics import judge, reference_outputs
from tilesight.roads.compiled import execute_compiled
from tilesight.targets import target


def unpack(x: torch.Tensor) -> torch.Tensor:
    first, second = x.view(2, 8)
    return first + second


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([-x.view(2, 8)[..., 4:], x.view(2, 8)[..., :4]], -1)


def set_item(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[0] = 1
    return y


GUARDED: dict[str, tuple[Callable[..., Any], str]] = {
    "unpack": (unpack, "f32[16]"),
    "slice": (rotate_half, "f32[16]"),
    "assign": (set_item, "f32[16]"),
    "index": (lambda x, i: x[i], "f32[16],i64[5]<16"),
    "invert": (lambda x: torch.where(~(x > 0), x, 2), "f32[16]"),
    "contiguous": (lambda x: x.view(4, 4).t().contiguous() * 2, "f32[16]"),
    "none and integer": (lambda x: x[None, :, None] * x[3], "f32[16]"),
}


@pytest.mark.parametrize("name", GUARDED)
def test_what_enters_a_device_guard_is_traced_and_right(name: str) -> None:
    function, text = GUARDED[name]
    inputs = real_inputs(parse_inputs(text))
    outputs = execute_compiled(capture(function, parse_inputs(text), target("h200")), function, inputs).outputs
    verdict = judge(outputs, reference_outputs(function, inputs))
    assert verdict.ok, verdict


NAMED = """
import torch
from tilesight.capture.inductor.on_engine import capture
from tilesight.capture.inputs import parse_inputs
from tilesight.targets import target


def named(x):
    return x.cuda() + torch.ones(16, device=x.device) + torch.arange(16, device="cuda") + x.to("cuda")


graph = capture(named, parse_inputs("f32[16]"), target("h200"))
assert graph.breaks == (), graph.breaks
(region,) = graph.regions
assert [call.is_triton for call in region.calls] == [True]
"""


def test_a_function_may_name_the_device(tmp_path: Path) -> None:
    """In a process of its own: after a compilation on a lent device Dynamo breaks the graph at `.to` here."""
    script = tmp_path / "named.py"
    script.write_text(NAMED)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_constant_may_be_made_on_the_device() -> None:
    def masked(x: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0, x, torch.tensor(float("-inf"), device=x.device)).amax(-1)

    inputs = real_inputs(parse_inputs("f32[8,32]"))
    graph = capture(masked, parse_inputs("f32[8,32]"), target("h200"))
    output = execute_compiled(graph, masked, inputs).outputs
    assert torch.equal(output, masked(*inputs))
