"""What a GPU refuses is what the check says it will. Needs an NVIDIA H200 (an H100 has the same limits)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.kernels.refused import LAUNCHES
from tests.roads.unlaunchable_launches import findings_of

assert torch.cuda.is_available(), "tests/gpu needs an NVIDIA GPU"


def gpu_refuses(launch: Callable[..., Any]) -> bool:
    try:
        launch(device="cuda")
        torch.cuda.synchronize()
    except Exception as error:
        print(f"{type(error).__name__}: {' '.join(str(error).split())[-200:]}")
        return True
    return False


@pytest.mark.parametrize("name", LAUNCHES)
def test_the_gpu_refuses_what_the_table_says(name: str) -> None:
    launch, is_refused = LAUNCHES[name]
    assert gpu_refuses(launch) == is_refused


@pytest.mark.parametrize("name", LAUNCHES)
def test_the_check_says_what_the_gpu_does(name: str) -> None:
    launch, is_refused = LAUNCHES[name]
    assert bool(findings_of(launch)) == is_refused
