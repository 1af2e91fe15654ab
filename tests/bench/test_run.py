"""A bench run on the CPU: numbers first, then times; hand-written kernels by way of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from tilesight import Case
from tilesight.bench.clocks import WallClock, interleave
from tilesight.bench.model import BenchCase, Measured
from tilesight.bench.numbers import check_beside
from tilesight.bench.operator_model import Draw, Operator
from tilesight.bench.operators import COPY, OPERATORS, find_operator, of_case
from tilesight.bench.operators_attention import head_by_head
from tilesight.bench.operators_axes import judge_argmax, judge_max
from tilesight.bench.operators_elements import judge_dropout
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
        ("add_rms_norm", 4 * 64 + 16), ("rms_norm_backward", 64 + (64 + 16) + (64 + 16)),
        ("add_rms_norm_backward", (64 + 64) + (64 + 16) + (64 + 16)), ("layer_norm", 2 * 64 + 2 * 16),
        ("layer_norm_backward", 64 + (64 + 16) + (64 + 2 * 16)), ("add", 3 * 64), ("add_relu", 3 * 64),
        ("swiglu", 3 * 64), ("swiglu_backward", 5 * 64), ("geglu", 3 * 64), ("geglu_backward", 5 * 64),
        ("transpose", 2 * 64), ("dropout", 2 * 64), ("cumsum", 2 * 64), ("sum", 64 + 4), ("column_sum", 64 + 16),
        ("log_softmax", 2 * 64), ("log_softmax_backward", 3 * 64),
    ],
)  # fmt: skip
def test_the_fewest_bytes(name: str, elements: int) -> None:
    operator = {**OPERATORS, "copy": COPY}[name]
    for dtype, size in ((torch.float32, 4), (torch.bfloat16, 2)):
        assert operator.ideal_bytes(operator.inputs((4, 16), Draw(dtype, "cpu"))) == elements * size


@pytest.mark.parametrize(
    ("name", "shape", "bytes_"),
    [
        ("max", (4, 16), 64 * 2 + 4 * (2 + 8)), ("argmax", (4, 16), 64 * 2 + 4 * 8),
        ("cross_entropy", (4, 16), 64 * 2 + 4 * 8 + 2), ("cross_entropy_both", (4, 16), 2 * 64 * 2 + 4 * 8 + 2 * 2),
        ("linear_cross_entropy_both", (4, 8, 16), 2 * (4 * 8 + 16 * 8) * 2 + 4 * 8 + 2 * 2),
        ("linear_cross_entropy_products", (4, 8, 16), 2 * (4 * 8 + 16 * 8 + 4 * 16) * 2),
        ("rope", (2, 3, 4, 8), (2 * (2 * 3 * 8) * (4 + 1) + 2 * 3 * 8) * 2),
        ("rope_backward", (2, 3, 4, 8), (2 * (2 * 3 * 8) * (4 + 1) + 2 * 3 * 8) * 2),
        ("embedding_backward", (5, 3, 7), 5 * 8 + (5 * 7 + 3 * 7) * 2),
        ("matmul", (4, 8, 16), (4 * 8 + 8 * 16 + 4 * 16) * 2),
        ("matmul_bias_gelu", (4, 8, 16), (4 * 8 + 8 * 16 + 16 + 4 * 16) * 2),
        ("matmul_swiglu", (4, 8, 16), (4 * 8 + 8 * 32 + 4 * 16) * 2),
        ("matmul_fp8", (16, 32, 48), 16 * 32 + 32 * 48 + 2 * 4 + 16 * 48 * 2),
        ("attention", (2, 3, 5, 16), 4 * (2 * 3 * 5 * 16) * 2),
        ("attention_backward", (2, 3, 5, 16), 7 * (2 * 3 * 5 * 16) * 2),
    ],
)  # fmt: skip
def test_the_fewest_bytes_in_bfloat16(name: str, shape: tuple[int, ...], bytes_: int) -> None:
    """Where dtypes are mixed or shapes have more than two axes."""
    operator = OPERATORS[name]
    assert operator.ideal_bytes(operator.inputs(shape, Draw(torch.bfloat16, "cpu"))) == bytes_


def test_an_embedding_reads_each_named_row_once() -> None:
    inputs = [torch.tensor([1, 1, 0, 1]), torch.zeros(3, 7, dtype=torch.bfloat16)]
    assert OPERATORS["embedding"].ideal_bytes(inputs) == 4 * 8 + (2 + 4) * 7 * 2


@pytest.mark.parametrize(
    ("name", "shape", "flops"),
    [
        ("linear_cross_entropy_both", (4, 8, 16), 3 * 2 * 4 * 8 * 16), ("matmul", (4, 8, 16), 2 * 4 * 8 * 16),
        ("matmul_swiglu", (4, 8, 16), 2 * 2 * 4 * 8 * 16), ("attention", (2, 3, 10, 16), 2 * 2 * 6 * 10 * 10 * 16),
        ("attention_causal", (2, 3, 10, 16), 2 * 6 * 10 * 10 * 16),
        ("attention_backward", (2, 3, 10, 16), 5 * 2 * 6 * 10 * 10 * 16),
    ],
)  # fmt: skip
def test_the_flops(name: str, shape: tuple[int, ...], flops: int) -> None:
    found = OPERATORS[name].flops
    assert found is not None and found(shape) == flops


def test_decoding_reads_the_tokens_that_are_there() -> None:
    operator = OPERATORS["decode_attention"]
    q, keys, values, table, lengths = operator.inputs((3, 8, 40, 16), Draw(torch.bfloat16, "cpu"))
    assert (keys.shape, table.shape) == ((9, 16, 2, 16), (3, 3)) and sorted(table.flatten().tolist()) == list(range(9))
    lengths = torch.tensor([40, 25, 1], dtype=torch.int32)
    tokens, queries = 66 * 2 * 16 * 2 * 2, 3 * 8 * 16 * 2
    assert operator.ideal_bytes([q, keys, values, table, lengths]) == tokens + 2 * queries + 9 * 4 + 3 * 4


def test_attention_head_by_head_is_torchs() -> None:
    q, k, v = OPERATORS["attention"].inputs((2, 3, 10, 16), Draw(torch.float64, "cpu"))
    for is_causal in (False, True):
        wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        torch.testing.assert_close(head_by_head(is_causal)(q, k, v), wanted)


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


def test_any_place_of_the_maximum_is_right_and_no_other() -> None:
    x = torch.tensor([[1.0, 3.0, 3.0], [5.0, 4.0, 5.0]]).bfloat16()
    values = x.amax(-1)
    for places, ok in (([1, 0], True), ([2, 2], True), ([0, 0], False), ([1, 1], False), ([1, 3], False)):
        index = torch.tensor(places)
        assert judge_argmax([index], [x]).ok is ok and judge_max([values, index], [x]).ok is ok
    assert not judge_max([values * 1.01, torch.tensor([1, 0])], [x]).ok


def test_dropout_is_judged_by_its_share_and_its_scale() -> None:
    (x,) = Draw(torch.float32, "cpu").tensors((100, 200))
    (kept,) = Draw(torch.float32, "cpu", 1).tensors((100, 200))
    kept = (kept > -1.2815516).float()
    for share, scale, ok in ((kept, 1 / 0.9, True), (kept, 1.0, False), (torch.ones_like(x), 1 / 0.9, False)):
        assert judge_dropout([x * share * scale], [x]).ok is ok
    assert not judge_dropout(
        [x * (torch.rand(100, 200, generator=torch.Generator().manual_seed(2)) > 0.5) / 0.9], [x]
    ).ok


def overwriting(x: torch.Tensor) -> torch.Tensor:
    return x.copy_(torch.softmax(x, -1))


def test_a_provider_that_writes_into_its_inputs_gets_its_own() -> None:
    spoiled = operator_of(lambda x: torch.softmax(x, -1))
    spoiled = replace(spoiled, peers={"peer": lambda: overwriting}, overwriting=("peer",))
    inputs = spoiled.inputs((8, 32), Draw(torch.float32, "cpu"))
    assert spoiled.own_inputs("hand", inputs) is inputs
    assert spoiled.own_inputs("peer", inputs)[0].data_ptr() != inputs[0].data_ptr()
    case = measure_case(spoiled, (8, 32), BenchOptions("cpu", 2, ("peer", "hand")))
    assert [(each.provider, each.ok) for each in case.measured] == [("hand", True), ("peer", True)]
    assert [check.ok for check in case.measured[1].checks] == [True, True, True]


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


def test_an_operator_has_its_own_dtype_on_a_gpu() -> None:
    add, softmax = OPERATORS["add_relu"], OPERATORS["softmax"]
    assert [BenchOptions("cuda").dtype_of(each) for each in (add, softmax)] == ["float32", "bfloat16"]
    assert [BenchOptions(device, dtype="float16").dtype_of(add) for device in ("cuda", "cpu")] == ["float16"] * 2
    assert BenchOptions("cpu").dtype_of(softmax) == "float32"


def test_a_shape_of_other_sizes_than_the_operators() -> None:
    expected = "--shapes: 8x16 for rope; expected 4 sizes, such as 2x5x4x16"
    with pytest.raises(InputError, match=expected):
        shapes_of(OPERATORS["rope"], CPU, [(1, 2, 3, 4), (8, 16)])
    assert shapes_of(OPERATORS["add"], CPU, [(7,), (8, 16)]) == [(7,), (8, 16)]
    assert shapes_of(OPERATORS["rope"], CPU, []) == ((2, 5, 4, 16),)


def test_a_name_that_is_no_operator() -> None:
    with pytest.raises(InputError, match="no operator sofmax; expected one of softmax"):
        find_operator("sofmax")
