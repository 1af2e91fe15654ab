"""The options that a launch's author chose, from what Triton kept of the launch."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.kernels import refused
from tests.roads.unlaunchable_launches import LimitObserver
from tilesight.capture.launches import EngineSession
from tilesight.capture.lent.lend import lend_missing_gpu
from tilesight.lowering import chosen_options
from tilesight.targets import target


def options_of(session: EngineSession, **options: Any) -> dict[str, Any]:
    observer = LimitObserver(session, "h200")
    session.observers.append(observer)
    with session:
        refused.launch_increment(**options)
    return chosen_options(session.compiled_from(observer.launches[0])[1])


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_warps": 8, "num_stages": 5},
        {"maxnreg": 64},
        {"num_ctas": 2, "enable_fp_fusion": False},
        {"default_dot_input_precision": "ieee"},
    ],
    ids=str,
)
@pytest.mark.parametrize("arch", [80, 90, 100])
def test_what_was_chosen_and_no_more(arch: int, options: dict[str, Any]) -> None:
    if arch < 90 and "num_ctas" in options:
        options = {"enable_fp_fusion": False}
    assert options_of(EngineSession(arch), **options) == options


def test_what_is_usual_is_not_chosen() -> None:
    assert options_of(EngineSession(90), num_warps=4, num_stages=3) == {}


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU that is here is not lent")
def test_a_lent_device_has_the_same_options() -> None:
    lent = lend_missing_gpu(target("h200"))
    assert lent is not None
    session = EngineSession(90, lent=lent)
    with lent:
        assert options_of(session, num_warps=2, device="cuda") == {"num_warps": 2}
