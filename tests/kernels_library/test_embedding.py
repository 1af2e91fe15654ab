"""Embedding of the hand-written library, on the engine."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.kernels_library.against_float64 import (
    assert_compiled_whole,
    assert_near_float64,
    assert_no_finding,
    draw,
    dynamo_instantiates_functions,
)
from tilesight import Case
from tilesight.kernels import embedding

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]


def numbers(shape: tuple[int, ...], rows: int) -> torch.Tensor:
    return torch.randint(rows, shape, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("shape", "table"), [((), (3, 5)), ((4, 9), (7, 130)), ((0,), (3, 5)), ((3,), (4, 0)),
                                             ((6,), (9, 1500))], ids=str)  # fmt: skip
def test_numbers_and_gradients(shape: tuple[int, ...], table: tuple[int, int], dtype: torch.dtype) -> None:
    index = numbers(shape, table[0])
    assert_near_float64(lambda w: embedding(index, w), lambda w: F.embedding(index, w), [draw(table, dtype)])
    assert_near_float64(
        lambda w: embedding(index.int(), w, -1), lambda w: F.embedding(index, w, -1), [draw(table, dtype)]
    )


@pytest.mark.parametrize("count", [7, 8, 9, 40])
def test_a_row_that_is_named_often(count: int) -> None:
    index = torch.tensor([2, 0, *[1] * count, 2])
    assert_near_float64(lambda w: embedding(index, w), lambda w: F.embedding(index, w), [draw((4, 6), torch.bfloat16)])


def test_strides_nan_and_the_same_every_time() -> None:
    index, wide = numbers((5, 4), 6)[:, ::2], draw((12, 40), torch.float32)
    wide[3, 5] = float("nan")
    for table in (wide[::2], wide[:6, ::2], wide[:6, :20]):
        torch.testing.assert_close(embedding(index, table), F.embedding(index, table), equal_nan=True, atol=0, rtol=0)
    leaf = draw((3, 5), torch.float32).requires_grad_()
    many, dy = numbers((300,), 3), draw((300, 5), torch.float32)
    first, second = (torch.autograd.grad(embedding(many, leaf), leaf, dy)[0] for _ in range(2))
    assert torch.equal(first, second)


def test_gradcheck() -> None:
    weight = draw((4, 3), torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(lambda w: embedding(torch.tensor([[1, 1], [3, 0]]), w, 2), (weight,))


def test_the_operators_pass_opcheck() -> None:
    index, weight = numbers((2, 3), 5), draw((5, 4), torch.float32)
    torch.library.opcheck(torch.ops.tilesight.embedding.default, (index, weight))
    torch.library.opcheck(
        torch.ops.tilesight.embedding_backward.default, (draw((2, 3, 4), torch.float32), index, 5, -1)
    )


@dynamo_instantiates_functions
def test_compiled_whole() -> None:
    index = numbers((2, 3), 5)
    assert_compiled_whole(lambda w: embedding(index, w, 1), [draw((5, 4), torch.float32)])


def test_bad_input() -> None:
    weight = torch.zeros(5, 4)
    for wrong in (5, -1):
        with pytest.raises(IndexError, match=f"index out of range in self: {wrong}, of a table of 5 rows"):
            embedding(torch.tensor([0, wrong]), weight)
    with pytest.raises(RuntimeError, match=r"padding_idx must be within the 5 rows of weight, got 5"):
        embedding(torch.tensor([0]), weight, 5)
    with pytest.raises(RuntimeError, match="supports neither max_norm"):
        embedding(torch.tensor([0]), weight, max_norm=1.0)
    with pytest.raises(RuntimeError, match=r"torch\.int64 or torch\.int32, got torch\.float32"):
        embedding(torch.zeros(1), weight)
    with pytest.raises(RuntimeError, match="'weight' must be 2-D"):
        embedding(torch.tensor([0]), weight[0])
    with pytest.raises(TypeError, match=r"embedding takes .* not torch\.int64"):
        embedding(torch.tensor([0]), weight.long())


def hand(index: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.enable_grad():
        leaf = weight.detach().requires_grad_()
        y = embedding(index, leaf)
        return y.detach(), torch.autograd.grad(y, leaf, torch.ones_like(y))[0]


def eager(index: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    counts = torch.bincount(index.reshape(-1), minlength=weight.shape[0])
    return F.embedding(index, weight), counts[:, None].to(weight.dtype).expand(weight.shape)


def test_no_finding() -> None:
    assert_no_finding(Case(eager=eager, hand=hand, inputs=lambda: (numbers((30,), 6), draw((6, 50), torch.bfloat16))))
