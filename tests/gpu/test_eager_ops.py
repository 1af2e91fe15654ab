"""The operators recorded without a GPU are those that eager mode launches on one. Needs an NVIDIA H200."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from typing import Any

import pytest
import torch

from tests.gpu.corpus import CORPUS
from tilesight.capture.eager import record_eager
from tilesight.capture.inputs import parse_inputs, real_inputs

assert torch.cuda.is_available(), "tests/gpu needs an NVIDIA GPU"


@pytest.fixture(scope="session")
def offline() -> dict[str, list[dict[str, Any]]]:
    command = [sys.executable, "-m", "tests.gpu.offline_eager", "h200"]
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, env=hidden, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", CORPUS)
def test_recorded_operators_are_those_on_the_gpu(name: str, offline: dict[str, list[dict[str, Any]]]) -> None:
    function, text = CORPUS[name]
    ops, _ = record_eager(function, [tensor.cuda() for tensor in real_inputs(parse_inputs(text))])
    assert json.loads(json.dumps([asdict(op) for op in ops])) == offline[name]
