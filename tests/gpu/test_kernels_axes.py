"""Reductions and running sums of the hand-written library on a GPU, along every axis, against float64."""

from __future__ import annotations

import pytest
import torch

from tests.gpu.drawn import DEVICE, DTYPES, draw
from tests.kernels_library.against_float64 import assert_near_float64
from tilesight.kernels import argmax, cumsum, max, sum

CASES = [
    *(((300, 70, 129), dim) for dim in (0, 1, 2)),
    *(((4096, 4097), dim) for dim in (0, 1)),
    ((3, 1_000_003), 1), ((8, 131072), 1), ((131072, 8), 0), ((1_000_003, 3), 0), ((5, 1), 1),
]  # fmt: skip
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=str)
every_case = pytest.mark.parametrize(("shape", "dim"), CASES, ids=str)


def without(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return shape[:dim] + shape[dim + 1 :]


@every_dtype
@every_case
def test_sum(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    grads = [draw(without(shape, dim), dtype, 7)]
    assert_near_float64(lambda x: sum(x, dim), lambda x: x.sum(dim), [draw(shape, dtype)], grads=grads)


@every_dtype
@pytest.mark.parametrize("shape", [(4096, 4097), (1 << 25,), (7, 300, 129)], ids=str)
def test_sum_of_all(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    grads = [draw((), dtype, 7)]
    assert_near_float64(lambda x: sum(x), lambda x: x.sum(), [draw(shape, dtype).abs() / 64], grads=grads)


@every_dtype
@every_case
def test_max_and_argmax(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    """The first place of the largest; the gradient goes there alone."""
    x = draw(shape, dtype).requires_grad_()
    values, places = max(x, dim)
    wanted = x.detach().amax(dim, keepdim=True)
    order = torch.arange(shape[dim], device=DEVICE).view([-1 if axis == dim else 1 for axis in range(len(shape))])
    first = torch.where(x.detach() == wanted, order, shape[dim]).amin(dim)
    assert torch.equal(values, wanted.squeeze(dim))
    assert torch.equal(places, first) and torch.equal(argmax(x, dim), first)
    dy = draw(without(shape, dim), dtype, 7)
    values.backward(dy)
    right = torch.zeros_like(x).scatter_(dim, first.unsqueeze(dim), dy.unsqueeze(dim))
    assert x.grad is not None and torch.equal(x.grad, right)


def test_nan_is_above_all_and_minus_infinity_is_a_number() -> None:
    x = draw((5, 100_000), torch.bfloat16)
    x[1, 70_000] = float("nan")
    x[1, 90_000] = float("nan")
    x[2] = -float("inf")
    values, places = max(x, 1)
    assert bool(values[1].isnan()) and values[2] == -float("inf")
    assert places[1:3].tolist() == [70_000, 0] and argmax(x).item() == 170_000


@every_dtype
@every_case
def test_cumsum(shape: tuple[int, ...], dim: int, dtype: torch.dtype) -> None:
    grads = [draw(shape, dtype, 7)]
    assert_near_float64(lambda t: cumsum(t, dim), lambda t: t.cumsum(dim), [draw(shape, dtype)], grads=grads)


def test_shared_rows_sum_to_the_same_a_hundred_times() -> None:
    x = draw((3, 1_000_003), torch.float32)
    first = cumsum(x, 1)
    assert all(torch.equal(cumsum(x, 1), first) for _ in range(100))
    assert all(torch.equal(sum(x, 1), sum(x, 1)) for _ in range(100))


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool], ids=str)
def test_integers_are_exact(dtype: torch.dtype) -> None:
    x = (draw((300, 5003), torch.float32) * 1000).to(dtype)
    for dim in (0, 1):
        assert torch.equal(sum(x, dim), x.sum(dim)) and torch.equal(cumsum(x, dim), x.cumsum(dim))
        assert torch.equal(max(x, dim)[0], x.to(torch.int64).amax(dim).to(dtype))
