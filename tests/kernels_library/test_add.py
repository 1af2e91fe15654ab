"""Addition of the hand-written library, alone and with a ReLU, on the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.kernels_library.against_float64 import (
    assert_compiled_whole,
    assert_near_float64,
    assert_no_finding,
    draw,
    dynamo_instantiates_functions,
)
from tilesight import Case
from tilesight.kernels import add, add_relu

Function = Callable[..., Any]


def reference_add_relu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x + y)


EACH = pytest.mark.parametrize(("function", "reference"), [(add, torch.add), (add_relu, reference_add_relu)])
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (0, 7), (3, 1009), (2, 3, 1500)], ids=str)
@EACH
def test_numbers_and_gradients(
    function: Function, reference: Function, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    assert_near_float64(function, reference, [draw(shape, dtype), draw(shape, dtype, 1)])


@pytest.mark.parametrize("shapes", [((3, 1), (4,)), ((2, 3, 4), ()), ((1,), (5, 0)), ((2, 1, 3), (4, 3))], ids=str)
@EACH
def test_shapes_that_broadcast(function: Function, reference: Function, shapes: tuple[tuple[int, ...], ...]) -> None:
    assert_near_float64(function, reference, [draw(shape, torch.float32, n) for n, shape in enumerate(shapes)])


@EACH
def test_strides(function: Function, reference: Function) -> None:
    x = draw((6, 300), torch.float32)
    for a, b in ((x[::2], x[1::2]), (x[:, ::2], x[:, 1::2]), (x.t(), x.t()), (x[:, :150], x[:, 150:])):
        assert torch.equal(function(a, b), reference(a, b))


def test_every_rounding_is_torchs() -> None:
    for dtype in DTYPES:
        x, y = draw((2000,), dtype), draw((2000,), dtype, 1)
        assert torch.equal(add(x, y), x + y) and torch.equal(add_relu(x, y), (x + y).relu())
        assert torch.equal(add(x, y, alpha=2), torch.add(x, y, alpha=2))
    assert_near_float64(
        lambda a, b: add(a, b, alpha=0.3), lambda a, b: torch.add(a, b, alpha=0.3), [draw((9,), torch.float64)] * 2
    )


def test_nan_infinities_and_integers() -> None:
    x = torch.tensor([float("nan"), float("inf"), float("-inf"), 1.0, -2.0])
    y = torch.tensor([1.0, float("-inf"), 1.0, float("nan"), 1.0])
    for function, reference in ((add, torch.add), (add_relu, reference_add_relu)):
        torch.testing.assert_close(function(x, y), reference(x, y), equal_nan=True)
        for dtype in (torch.int64, torch.int32, torch.int8, torch.uint8):
            counts = torch.arange(100, 110).to(dtype)
            assert torch.equal(function(counts, counts), reference(counts, counts))
    assert torch.equal(add(torch.arange(3), 2**40, alpha=3), torch.add(torch.arange(3), 2**40, alpha=3))


@pytest.mark.parametrize("other", [2, 2.5, torch.tensor([1, 2, 3]), torch.tensor(1.5, dtype=torch.float64)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.int32], ids=str)
def test_dtypes_are_those_of_torch(dtype: torch.dtype, other: Any) -> None:
    x = torch.arange(3).to(dtype)
    assert add(x, other).dtype == (x + other).dtype and torch.equal(add(x, other), x + other)


def test_gradcheck() -> None:
    inputs = [draw((3, 5), torch.float64, seed).requires_grad_() for seed in (0, 1)]
    assert torch.autograd.gradcheck(lambda x, y: add(x, y, alpha=0.5), inputs)
    assert torch.autograd.gradcheck(add_relu, inputs)
    (twice,) = torch.autograd.grad(add_relu(inputs[0], inputs[0]).sum(), inputs[0])
    assert torch.equal(twice, 2.0 * (inputs[0] > 0))


def test_the_operators_pass_opcheck() -> None:
    x, y = draw((3, 20), torch.float32), draw((20, 3), torch.float32, 1).t()
    torch.library.opcheck(torch.ops.tilesight.add_forward.default, (x, y, 1.0, True))
    torch.library.opcheck(torch.ops.tilesight.add_forward.default, (x, y, 0.5, False))
    torch.library.opcheck(torch.ops.tilesight.add_relu_backward.default, (x, y))


@dynamo_instantiates_functions
def test_compiled_whole() -> None:
    assert_compiled_whole(add, [draw((3, 9), torch.float32), draw((9,), torch.float32, 1)])
    assert_compiled_whole(lambda x: add(x, 2.5), [draw((3, 9), torch.float32)])
    assert_compiled_whole(add_relu, [draw((3, 9), torch.float32), draw((3, 9), torch.float32, 1)])


def test_bad_input() -> None:
    x = torch.zeros(2, 8)
    with pytest.raises(RuntimeError, match="must match"):
        add(x, torch.zeros(3))
    with pytest.raises(RuntimeError, match=r"for integers alpha must not be a floating-point number, got 0\.5"):
        add(x.int(), x.int(), alpha=0.5)
    with pytest.raises(TypeError, match=r"add_relu takes floating-point and integer dtypes, not torch\.bool"):
        add_relu(x.bool(), x.bool())


@EACH
def test_no_finding(function: Function, reference: Function) -> None:
    assert_no_finding(Case(eager=reference, hand=function, inputs="bf16[5,500],bf16[5,500]"))


def test_no_finding_in_the_gradient() -> None:
    def eager(x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0, dy, 0)

    def hand(x: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            return torch.autograd.grad(add_relu(leaf, torch.zeros_like(x)), leaf, dy)[0]

    assert_no_finding(Case(eager=eager, hand=hand, inputs="bf16[5,500],bf16[5,500]"), shapes="5,500")
