"""Code generated without a GPU is the code the GPU gets, byte for byte. Needs an NVIDIA H200."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest
import torch

from tests.gpu.corpus import CORPUS
from tilesight.capture.inductor.scrub import scrub
from tilesight.capture.inputs import parse_inputs, real_inputs

assert torch.cuda.is_available(), "tests/gpu needs an NVIDIA GPU"
assert "H200" in torch.cuda.get_device_name(), f"this test needs an H200, found {torch.cuda.get_device_name()}"


@pytest.fixture(scope="session")
def offline() -> dict[str, list[str]]:
    """The code of every function, generated in a process that sees no GPU."""
    command = [sys.executable, "-m", "tests.gpu.offline_code", "h200"]
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=hidden, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def real_code(name: str) -> list[str]:
    utils: Any = import_module("torch._inductor.utils")
    function, text = CORPUS[name]
    torch._dynamo.reset()
    inputs = [tensor.cuda() for tensor in real_inputs(parse_inputs(text))]
    with torch.no_grad():
        return utils.run_and_get_code(torch.compile(function), *inputs)[1]


@pytest.mark.parametrize("name", CORPUS)
def test_code_without_gpu_equals_code_on_gpu(name: str, offline: dict[str, list[str]]) -> None:
    assert [scrub(code) for code in offline[name]] == [scrub(code) for code in real_code(name)]
