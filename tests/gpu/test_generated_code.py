"""Code generated without a GPU is the code the GPU gets, byte for byte. Needs an NVIDIA H200.

The whole corpus is compiled twice at the start, in several processes, with the GPU hidden and on it. Where torch times
kernels against each other, code may differ: then what is timed has to be the same.
"""

from __future__ import annotations

import os
import time

import pytest
import torch

from tests.gpu.functions.catalogue import catalogue
from tests.gpu.generated import Outcome
from tests.gpu.generated_differences import BY_THE_CLOCK, kind_of_difference
from tests.gpu.offline_corpus import run_both

assert torch.cuda.is_available(), "tests/gpu needs an NVIDIA GPU"
assert "H200" in torch.cuda.get_device_name(), f"this test needs an H200, found {torch.cuda.get_device_name()}"

NAMES = list(catalogue())
SECONDS = 1800.0


@pytest.fixture(scope="session")
def sides() -> tuple[dict[str, Outcome], dict[str, Outcome]]:
    return run_both(NAMES, max(1, (os.cpu_count() or 2) // 2), time.monotonic() + SECONDS)


@pytest.mark.parametrize("name", NAMES)
def test_code_without_gpu_equals_code_on_gpu(name: str, sides: tuple[dict[str, Outcome], dict[str, Outcome]]) -> None:
    offline, device = (side[name] for side in sides)
    assert kind_of_difference(offline, device) in ("", BY_THE_CLOCK), (offline.error, device.error)
