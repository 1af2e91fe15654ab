"""The third-party yardsticks judge, count and explain as they say, without the third parties."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import tilesight
from benchmarks.yardsticks.gpu_answers import gpu_is_answered_for
from benchmarks.yardsticks.operator_case import OperatorCase, run_case
from benchmarks.yardsticks.outcomes import (
    LaunchCounter,
    NotRunError,
    Outcome,
    attempt,
    attempt_with_zeros,
    describe_failure,
    tally,
)
from benchmarks.yardsticks.tutorial_cases import philox_uniform
from benchmarks.yardsticks.tutorial_source import load_tutorial
from tilesight.capture.launches import EngineSession
from tilesight.capture.numerics import Verdict

TUTORIAL = """
import does_not_exist

import math

SIZE = 4
ran = []

def helper(x):
    return math.sqrt(x) * SIZE

def is_cuda():
    raise RuntimeError("asked")

def launcher(size):
    SIZE = size
    return helper(16) if is_cuda() else SIZE

ran.append(launcher(3))
raise SystemExit("the demonstration ran")
"""


def outcome(ok: bool | None, name: str = "a", **changes: object) -> Outcome:
    plain: dict[str, object] = {"max_error": 0.0, "tolerance": 1e-5, "launches": 1, "seconds": 0.0, "reason": ""}
    return Outcome(name, "forward", "float32", ok, **{**plain, **changes})  # pyright: ignore[reportArgumentType]


def test_a_tutorial_is_loaded_without_its_demonstration(tmp_path: Path) -> None:
    path = tmp_path / "00-some.py"
    path.write_text(textwrap.dedent(TUTORIAL))
    module = load_tutorial(path, ("launcher",), {"is_cuda": lambda: True})
    assert module.launcher(3) == 16.0
    assert not hasattr(module, "ran")


def test_a_tutorial_keeps_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "00-some.py"
    path.write_text("x = 1\n\n\ndef f():\n    return 1\n")
    assert load_tutorial(path, ("f",), {}).f.__code__.co_firstlineno == 4


def test_philox_of_the_paper_s_counter() -> None:
    """Salmon et al.'s known answer for counter 0 and key 0 is 6627e8d5 for the first word."""
    assert philox_uniform(0, 1)[0] == np.uint32(0x6627E8D5) * 4.6566127342e-10


def test_nothing_launched_is_nothing_run() -> None:
    got = attempt("a", "forward", "float32", lambda: Verdict(True, 0.0, 1e-5), LaunchCounter(), 1)
    assert got.ok is None
    assert "launches no Triton kernel" in got.reason


@pytest.mark.parametrize(("error", "ok"), [(1e-6, True), (1e-3, False)])
def test_an_error_is_held_against_the_tolerance(error: float, ok: bool) -> None:
    counter = LaunchCounter()

    def run() -> Verdict:
        counter.launches += 1
        return Verdict(error <= 1e-5, error, 1e-5)

    got = attempt("a", "forward", "float32", run, counter, 1)
    assert (got.ok, got.launches) == (ok, 1)
    assert ok or got.reason == "error 1.00e-03 exceeds the tolerance 1e-05"


def test_a_case_that_takes_too_long_fails() -> None:
    got = attempt("a", "forward", "float32", lambda: time.sleep(5) or Verdict(True, 0, 0), LaunchCounter(), 0.05)
    assert (got.ok, got.reason) == (False, "TimeoutError: not finished after 0.05 s")


def test_not_run_is_not_a_failure() -> None:
    def refuse() -> Verdict:
        raise NotRunError("needs a GPU")

    got = attempt("a", "forward", "float32", refuse, LaunchCounter(), 1)
    assert (got.ok, got.reason) == (None, "not run: needs a GPU")


def test_a_failure_is_told_by_its_first_cause_and_without_folders() -> None:
    try:
        try:
            raise KeyError("/home/someone/lib/kernels.py")
        except KeyError as error:
            raise RuntimeError("later") from error
    except RuntimeError as error:
        assert describe_failure(error) == "KeyError: 'kernels.py'"


def test_zeros_are_tried_where_poison_fails_and_the_options_put_back() -> None:
    session = EngineSession()
    before = session.options

    def attempts() -> list[Outcome]:
        return [outcome(session.options.undefined == 0.0), outcome(True), outcome(False)]

    got = attempt_with_zeros(session, attempts)
    assert [(each.ok, each.needs_zeros) for each in got] == [(True, True), (True, False), (False, False)]
    assert session.options is before


def test_an_operator_counts_when_all_its_cases_are_right() -> None:
    counted = tally(
        [outcome(True), outcome(True), outcome(True, "b"), outcome(False, "b", reason="x"), outcome(None, "c")]
    )
    assert (counted["operators_right"], counted["operators_run"], counted["operators"]) == (1, 2, 3)
    assert (counted["cases_right"], counted["cases_run"], counted["cases"]) == (3, 4, 5)
    assert counted["reasons"] == {"x": 1, "": 1}


@pytest.mark.parametrize(("factor", "ok"), [(1.0, True), (1.1, False)])
def test_an_operator_case_compares_outputs_and_gradients(factor: float, ok: bool) -> None:
    counter = LaunchCounter()

    def run(x: torch.Tensor) -> torch.Tensor:
        counter.launches += 1
        return factor * x.sin()

    case = OperatorCase("sin", lambda dtype: (torch.randn(20, dtype=dtype),), run, torch.sin)
    got = list(run_case(case, torch.float32, counter, 5))
    assert [(each.direction, each.ok) for each in got] == [("forward", ok), ("backward", ok)]


@pytest.fixture
def engine() -> Iterator[EngineSession]:
    yield tilesight.enable()
    tilesight.disable()


def test_a_gpu_is_answered_for_and_taken_back(engine: EngineSession) -> None:
    x = torch.ones(3)
    with gpu_is_answered_for():
        assert x.is_cuda
        assert str(x.device) == "cuda:0"
        made = torch.zeros(2, device="cuda")
        assert torch.cuda.get_device_capability() == (9, 0)
    assert not x.is_cuda
    assert made.device.type == "cpu"


def test_a_gpu_may_be_answered_for_without_its_name(engine: EngineSession) -> None:
    with gpu_is_answered_for(says_device=False):
        assert torch.ones(3).is_cuda
        assert torch.ones(3).device.type == "cpu"
