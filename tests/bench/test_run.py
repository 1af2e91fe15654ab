"""A bench run on the CPU: numbers first, then times; hand-written kernels by way of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from tilesight import Case
from tilesight.bench.clocks import WallClock, interleave
from tilesight.bench.model import BenchCase, Measured
from tilesight.bench.numbers import check_beside
from tilesight.bench.operators import COPY, OPERATORS, Draw, Operator, find_operator, of_case
from tilesight.bench.providers import provider_names
from tilesight.bench.run import BenchOptions, bench, measure_case, shapes_of
from tilesight.errors import InputError

CPU = BenchOptions("cpu", samples=3, providers=("eager", "hand"), dtype="float32")


def by_name(case: BenchCase) -> dict[str, Measured]:
    return {each.provider: each for each in case.measured}


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_has_right_numbers_on_both_roads(name: str) -> None:
    case = measure_case(OPERATORS[name], OPERATORS[name].cpu_shapes[0], CPU)
    for measured in case.measured:
        assert [check.ok for check in measured.checks] == [True, True, True], measured
        assert measured.timing is not None and len(measured.timing.device_s) == 3


@pytest.mark.parametrize(
    ("name", "elements"),
    [
        ("copy", 2 * 64), ("softmax", 2 * 64), ("softmax_backward", 3 * 64), ("rms_norm", 2 * 64 + 16),
        ("add_rms_norm", 4 * 64 + 16), ("rms_norm_backward", 64 + 64 + (64 + 16)),
    ],
)  # fmt: skip
def test_the_fewest_bytes(name: str, elements: int) -> None:
    operator = {**OPERATORS, "copy": COPY}[name]
    for dtype, size in ((torch.float32, 4), (torch.bfloat16, 2)):
        assert operator.ideal_bytes(operator.inputs((4, 16), Draw(dtype, "cpu"))) == elements * size


pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")
"""torch warns of itself where Inductor is first imported."""


def off_by_a_percent(x: torch.Tensor) -> torch.Tensor:
    return 1.01 * torch.softmax(x, -1)


def only_contiguous(x: torch.Tensor) -> torch.Tensor:
    if not x.is_contiguous():
        raise ValueError("x must be contiguous")
    return torch.softmax(x, -1)


def wrong_when_strided(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x.as_strided(x.shape, (x.shape[1], 1)), -1)


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def operator_of(hand: Any) -> Operator:
    return Operator("softmax", OPERATORS["softmax"].inputs, _softmax, hand, {"nobody": _nobody})


def _nobody() -> Any:
    raise ImportError("No module named 'nobody'")


def largest_share_of_a_percent() -> float:
    """|0.01 y| / (|y| + rms(y)) of the largest y."""
    (x,) = Draw(torch.float32, "cpu").tensors((8, 32))
    y = x.double().softmax(-1)
    return float((0.01 * y / (y + y.square().mean().sqrt())).max())


def test_wrong_numbers_are_not_timed() -> None:
    case = measure_case(operator_of(off_by_a_percent), (8, 32), CPU)
    hand = by_name(case)["hand"]
    assert (hand.ok, hand.timing) == (False, None) and hand.reason == "wrong numbers: off by 8.8e-03, allowed 1.0e-05"
    assert hand.checks[0].max_error == pytest.approx(largest_share_of_a_percent(), rel=1e-4)
    assert case.best is not None and case.best.provider == "eager"


def test_a_peer_that_is_not_installed_and_one_that_fails() -> None:
    case = measure_case(operator_of(lambda x: x.nothing), (8, 32), BenchOptions("cpu", 1, (), "float32"))
    found = by_name(case)
    assert found["nobody"].reason == "not installed: ImportError: No module named 'nobody'"
    assert found["hand"].reason.startswith("AttributeError: 'Tensor' object has no attribute")
    assert found["compiled"].ok and found["compiled_max"].ok


@pytest.mark.parametrize(("hand", "ok"), [(only_contiguous, None), (wrong_when_strided, False), (_softmax, True)])
def test_strided_rows(hand: Any, ok: bool | None) -> None:
    checks = check_beside(operator_of(hand), lambda: hand, (8, 32), Draw(torch.float32, "cpu"))
    assert [(each.what, each.ok) for each in checks] == [("odd sizes", True), ("strided rows", ok)]


def test_providers_take_turns_and_each_second_round_is_the_other_way_round() -> None:
    order: list[str] = []

    def calls(name: str) -> Sequence[Any]:
        return [lambda: order.append(f"{name}0"), lambda: order.append(f"{name}1")]

    clock = WallClock()
    samplers = {name: clock.prepare(calls(name)) for name in ("a", "b")}
    order.clear()
    timings = interleave(samplers, 4, 2)
    assert order[:8] == ["a1", "b1", "b0", "a0", "a1", "b1", "b0", "a0"]
    assert {name: len(timing.device_s) for name, timing in timings.items()} == {"a": 4, "b": 4}


def test_inputs_depend_on_the_seed_alone() -> None:
    first, again, other = (Draw(torch.float32, "cpu", seed).tensors((3, 5))[0] for seed in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert Draw(torch.float32, "cpu", 0, is_strided=True).tensors((3, 5))[0].stride() == (13, 1)


def test_a_users_case_keeps_its_own_inputs() -> None:
    case = Case(eager=torch.add, inputs="f16[7,9],f16[7,9]")
    operator = of_case(case, "mine.py:CASE")
    assert provider_names(operator) == ("eager", "compiled", "compiled_max")
    assert shapes_of(operator, CPU, [(5, 5)]) == ((7, 9),)
    run = bench([(operator, (7, 9))], CPU, heard=lambda _: None)
    (measured,) = run.cases
    assert (measured.operator, measured.shape, measured.dtype) == ("mine.py:CASE", (7, 9), "float16")
    assert measured.ideal_bytes == 3 * 63 * 2 and measured.measured[0].ok
    assert "engine" in run.notes[0] and not run.environment.is_gpu


@pytest.mark.parametrize(
    ("options", "got"),
    [
        (BenchOptions("cpu", dtype="int8"), "dtype int8"),
        (BenchOptions("cpu", samples=0), "0 samples"),
        pytest.param(
            BenchOptions("cuda"), "no GPU is here",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here"),
        ),
    ],
)  # fmt: skip
def test_options_that_can_not_be_measured(options: BenchOptions, got: str) -> None:
    with pytest.raises(InputError, match=got):
        options.check()


def test_a_name_that_is_no_operator() -> None:
    with pytest.raises(InputError, match="no operator sofmax; expected one of softmax"):
        find_operator("sofmax")
