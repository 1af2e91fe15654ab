"""Sum, maximum and its index of the hand-written library, on the engine."""

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
from tilesight.kernels import argmax, max, sum
from tilesight.kernels.axis import plan_axis
from tilesight.kernels.reduction import plan_parts

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
SHAPES = [((), 0), ((7,), 0), ((3, 1009), -1), ((70, 3), 0), ((2, 130, 150), 1), ((1, 20_000), 1), ((9000, 2), 0)]
"""Shapes and axes: the last two are shared by programs."""
INTEGERS = [torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool]


def test_which_shapes_are_shared() -> None:
    assert [plan_parts(plan_axis(*axis).tiles, axis[1], plan_axis(*axis).steps)[0] > 1 for axis in (
        (1, 20_000, 1), (1, 9000, 2), (2, 130, 150), (4096, 20_000, 1)
    )] == [True, True, True, False]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("shape", "dim"), SHAPES, ids=str)
def test_numbers_and_gradients(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    x = draw(shape, dtype)
    assert_near_float64(lambda t: sum(t, dim), lambda t: torch.sum(t, dim), [x])
    assert_near_float64(lambda t: max(t, dim)[0], lambda t: torch.max(t, dim)[0], [x])
    assert torch.equal(max(x, dim).indices, torch.max(x, dim).indices)
    assert torch.equal(argmax(x, dim), torch.argmax(x, dim))


@pytest.mark.parametrize("dim", [None, 0, -1, 1, (0, 1), (0, 2), (2, 1, 0), ()], ids=str)
@pytest.mark.parametrize("keepdim", [False, True])
def test_axes_of_sums(dim: Any, keepdim: bool) -> None:
    x = draw((3, 4, 5), torch.float32)
    assert_near_float64(lambda t: sum(t, dim, keepdim), lambda t: torch.sum(t, dim, keepdim), [x])
    strided = x.transpose(0, 2)[::2]
    torch.testing.assert_close(sum(strided, dim, keepdim), torch.sum(strided, dim, keepdim))


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dim", [None, 0, 1, -1])
def test_axes_of_maxima(dim: int | None, keepdim: bool) -> None:
    x = draw((3, 4, 5), torch.float32).transpose(0, 2)[::2]
    assert torch.equal(argmax(x, dim, keepdim), torch.argmax(x, dim, keepdim))
    if dim is None:
        assert torch.equal(max(x), torch.max(x))
        assert_near_float64(max, torch.max, [x])
        return
    got, wanted = max(x, dim, keepdim), torch.max(x, dim, keepdim)
    assert torch.equal(got.values, wanted.values) and torch.equal(got.indices, wanted.indices)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize(("shape", "dim"), [((6, 50), 1), ((50, 6), 0), ((9000, 2), 0)], ids=str)
def test_integers(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    x = torch.randint(0, 200, shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    assert torch.equal(sum(x, dim), torch.sum(x, dim)) and sum(x, dim).dtype == torch.int64
    assert torch.equal(max(x, dim).values, torch.max(x, dim).values)
    assert torch.equal(x.gather(dim, argmax(x, dim, True)), torch.max(x, dim, True).values)
    if dtype == torch.int64:
        assert torch.equal(max(x - 2**62, dim).values, torch.max(x - 2**62, dim).values)
    assert sum(x, dim, dtype=torch.float32).dtype == torch.float32


@pytest.mark.parametrize("columns", [40, 20_000])
def test_nan_infinities_and_ties(columns: int) -> None:
    """The first NaN, else the first of the largest; rows of nothing but −inf have a maximum too."""
    x = draw((6, columns), torch.float32)
    x[0] = float("-inf")
    x[1, 7], x[1, columns - 1] = float("nan"), float("nan")
    x[2, columns - 1] = float("inf")
    x[3] = 0
    x[4] = x[4].floor()
    x[5] = float("nan")
    for tensor, dim in ((x, 1), (x.t().contiguous(), 0)):
        got, wanted = max(tensor, dim), torch.max(tensor, dim)
        torch.testing.assert_close(got.values, wanted.values, equal_nan=True)
        first = [0, 7, columns - 1, 0, int((x[4] == x[4].max()).nonzero()[0]), 0]
        assert got.indices.tolist() == first == argmax(tensor, dim).tolist()
        torch.testing.assert_close(sum(tensor, dim), torch.sum(tensor, dim), equal_nan=True)


def test_empty() -> None:
    x = torch.zeros(3, 0, 2)
    assert torch.equal(sum(x, 1), torch.zeros(3, 2)) and sum(x) == 0 and sum(x, 0).shape == (0, 2)
    assert max(x, 2).values.shape == (3, 0) and argmax(x, 0).shape == (0, 2)
    for call in (lambda: max(x, 1), lambda: argmax(x), lambda: max(x)):
        with pytest.raises(IndexError, match="non-zero size"):
            call()


def test_sums_do_not_drift() -> None:
    ones = torch.full((200_000,), 0.1)
    assert abs(float(sum(ones)) / float(ones.double().sum()) - 1) < 1e-6
    assert float(sum(torch.ones(5000, dtype=torch.bfloat16))) == 4992


def test_gradcheck() -> None:
    x = draw((3, 4, 5), torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: sum(t, (0, 2)), (x,))
    assert torch.autograd.gradcheck(lambda t: max(t, 1)[0], (x,))
    assert torch.autograd.gradgradcheck(lambda t: sum(t * t, 1), (x,))


def test_the_operators_pass_opcheck() -> None:
    x = draw((3, 20, 2), torch.float32)
    for dim in (0, 1, 2):
        torch.library.opcheck(torch.ops.tilesight.sum_along.default, (x, dim, torch.float32))
        torch.library.opcheck(torch.ops.tilesight.max_along.default, (x, dim))


@dynamo_instantiates_functions
def test_compiled_whole() -> None:
    x = [draw((3, 9), torch.float32)]
    assert_compiled_whole(lambda t: sum(t, 0), x)
    assert_compiled_whole(lambda t: max(t, 1)[0], x)
    compiled = torch.compile(lambda t: argmax(t, 1) + 1, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x[0]), x[0].argmax(1) + 1)


def test_bad_input() -> None:
    x = torch.zeros(2, 8)
    with pytest.raises(IndexError, match=r"sum: dim is 2; a tensor of 2 axes takes -2 to 1"):
        sum(x, 2)
    with pytest.raises(RuntimeError, match=r"an axis appears twice in dim \[0, -2\]"):
        sum(x, (0, -2))
    with pytest.raises(TypeError, match=r"argmax takes .* not torch\.complex64"):
        argmax(x.to(torch.complex64), 0)


@pytest.mark.parametrize(
    ("hand", "eager"),
    [(lambda x: sum(x, 1), lambda x: torch.sum(x, 1)), (lambda x: sum(x, 0), lambda x: torch.sum(x, 0)),
     (lambda x: max(x, 1)[0], lambda x: torch.max(x, 1)[0]), (lambda x: max(x, 0)[0], lambda x: torch.max(x, 0)[0]),
     (lambda x: argmax(x, 1), lambda x: torch.argmax(x, 1))],
    ids=["sum of rows", "sum of columns", "maxima of rows", "maxima of columns", "argmax"],
)  # fmt: skip
def test_no_finding(hand: Callable[..., Any], eager: Callable[..., Any]) -> None:
    case = Case(eager=eager, hand=hand, inputs="f32[5,300]")
    assert_no_finding(case, shapes="5,300", dtypes="f32")
    assert_no_finding(case, shapes="2,9000", dtypes="f32")
